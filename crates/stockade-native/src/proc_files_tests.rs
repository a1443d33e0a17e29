use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use stockade_hostfiles::{MASKED_PROC, READ_ONLY_PROC};

use super::*;

fn sizes(memory_bytes: u64, cpus_millis: u64) -> Sizes {
    Sizes { memory_bytes, cpus_millis }
}

fn intel(index: usize) -> String {
    let number = index * 2;
    format!(
        "processor\t: {index}\nvendor_id\t: GenuineIntel\nmodel name\t: A (R) Processor\n\
         microcode\t: 0x2b000603\ncpu MHz\t\t: 2300.000\nphysical id\t: 1\nsiblings\t: 64\n\
         core id\t\t: {number}\ncpu cores\t: 32\napicid\t\t: {number}\ninitial apicid\t: {number}\n\
         flags\t\t: fpu sse2 avx2\nbugs\t\t:\npower management:\n\n"
    )
}

const ARM: &str = "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nCPU part\t: 0xd08\n\n\
    processor\t: 3\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nCPU part\t: 0xd0b\n\n\
    Hardware\t: BCM2835\nSerial\t\t: 10000000abcdef01\nModel\t\t: Raspberry Pi 4\n";

#[test]
fn meminfo_shows_the_limit_and_every_key_that_programs_read() {
    let text = meminfo(sizes(512 << 20, 1000));
    assert!(text.starts_with("MemTotal:         524288 kB\nMemFree:          524288 kB\n"));
    let found: BTreeMap<&str, u64> = text
        .lines()
        .map(|line| {
            let (key, value) = line.split_once(':').unwrap();
            (key, value.trim().trim_end_matches(" kB").parse().unwrap())
        })
        .collect();
    for (key, value) in [
        ("MemTotal", 524_288),
        ("MemAvailable", 524_288),
        ("Buffers", 0),
        ("Cached", 0),
        ("Active", 0),
        ("Inactive", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
        ("HugePages_Total", 0),
        ("Hugepagesize", 2048),
    ] {
        assert_eq!(found.get(key), Some(&value), "{key}");
    }
    assert!(meminfo(sizes(0, 0)).starts_with("MemTotal:              4 kB\n"));
}

#[test]
fn cpuinfo_shows_the_limits_cpus_renumbered_as_one_socket() {
    let host: String = (5..9).map(intel).collect();
    let text = cpuinfo(host.as_bytes(), sizes(0, 1500)).unwrap();
    let one = |index: usize| {
        format!(
            "processor\t: {index}\nvendor_id\t: GenuineIntel\nmodel name\t: A (R) Processor\n\
             cpu MHz\t\t: 2300.000\nphysical id\t: 0\nsiblings\t: 2\ncore id\t\t: {index}\n\
             cpu cores\t: 2\napicid\t\t: {index}\ninitial apicid\t: {index}\n\
             flags\t\t: fpu sse2 avx2\nbugs\t\t:\npower management:\n\n"
        )
    };
    assert_eq!(text, one(0) + &one(1));
}

#[test]
fn arm_cpus_keep_their_model_without_the_machines_serial_number() {
    let text = cpuinfo(ARM.as_bytes(), sizes(0, 8000)).unwrap();
    let (processors, _) = ARM.split_once("Hardware").unwrap();
    assert_eq!(text, processors.replace("processor\t: 3", "processor\t: 1"));
}

#[test]
fn cpu_count_is_between_one_and_the_hosts() {
    let host: String = (0..2).map(intel).collect();
    let count = |host: &str, millis| {
        let text = cpuinfo(host.as_bytes(), sizes(0, millis)).unwrap();
        text.lines().filter(|line| line.starts_with("processor")).count()
    };
    for (millis, expected) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (2000, 2), (64_000, 2)] {
        assert_eq!(count(&host, millis), expected, "{millis}");
        assert_eq!(stat_processors("cpu  1\ncpu0 1\ncpu1 1\nintr 5\n", millis), expected);
    }
    assert_eq!(count("", 4000), 1);
    assert_eq!(count("no such text", 4000), 1);
    assert_eq!(count(&host.trim_end()[..host.len() - 20], 4000), 2);
    assert_eq!(stat_processors("", 4000), 1);
}

fn stat_processors(host: &str, millis: u64) -> usize {
    stat(host, sizes(0, millis)).lines().filter(|line| line.starts_with("cpu")).count() - 1
}

#[test]
fn cpuinfo_of_a_large_host_is_not_read_to_its_end() {
    let host: String = (0..128).map(intel).collect();
    let mut reader = BufReader::with_capacity(256, host.as_bytes());
    cpuinfo(&mut reader, sizes(0, 2000)).unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.len() > host.len() * 125 / 128, "{} of {}", rest.len(), host.len());
    let endless = BufReader::new(std::io::repeat(b'x'));
    assert_eq!(cpuinfo(endless, sizes(0, 2000)).unwrap(), "processor\t: 0\n\n");
}

#[test]
fn stat_omits_host_counters_and_keeps_the_boot_time() {
    let host = "cpu  1025187 0 118656 1165281 11512 0 918 2925 0 0\n\
        cpu0 490691 0 56679 610470 2588 0 93 1442 0 0\n\
        cpu1 534495 0 61977 554810 8924 0 825 1483 0 0\nintr 6519199 0 0 1\nctxt 22348906\n\
        btime 1794773663\nprocesses 296937\nprocs_running 1\nprocs_blocked 0\nsoftirq 33 0 5\n";
    let expected = "cpu  0 0 0 200 0 0 0 0 0 0\ncpu0 0 0 0 100 0 0 0 0 0 0\n\
        cpu1 0 0 0 100 0 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1794773663\nprocesses 1\n\
        procs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n";
    assert_eq!(stat(host, sizes(0, 3000)), expected);
}

#[test]
fn uptime_keeps_only_the_first_number() {
    assert_eq!(uptime("12345.67 98765.43\n"), "12345.67 0.00\n");
    assert_eq!(uptime("soon"), "0.00 0.00\n");
    assert_eq!(loadavg().split(' ').count(), 5);
}

#[test]
fn boot_id_is_a_random_uuid_in_kernel_format() {
    assert_eq!(boot_id([0; 16]), "00000000-0000-4000-8000-000000000000\n");
    assert_eq!(boot_id([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff\n");
}

#[test]
fn proc_files_of_this_host_are_parsed() {
    let host = std::fs::File::open("/proc/cpuinfo").unwrap();
    let text = cpuinfo(BufReader::new(host), sizes(0, 1000)).unwrap();
    assert!(text.starts_with("processor\t: 0\n") && text.ends_with("\n\n"), "{text}");
    assert_eq!(text.matches("processor\t").count(), 1);
    let host = std::fs::read_to_string("/proc/stat").unwrap();
    assert!(!stat(&host, sizes(0, 1000)).contains("btime 0\n"));
}

#[test]
fn every_masked_path_is_below_proc_and_not_nested() {
    let all = [&MASKED_PROC[..], &READ_ONLY_PROC[..]].concat();
    for path in &all {
        assert!(path.starts_with("/proc/"), "{path}");
        assert!(all.iter().filter(|other| path.starts_with(*other)).count() == 1, "{path}");
    }
}
