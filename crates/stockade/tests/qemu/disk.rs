//! A disk of the caller: its files are the machine's, and it is never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Scratch, finish, image, run, tests};

tests![
    disk_of_the_caller_is_the_root_and_stays_as_it_is,
    full_disk_is_an_error_for_programs_and_the_run_ends_with_its_own_outcome,
    disk_that_names_another_file_and_a_disk_without_a_system_are_refused,
];

/// The size of a cluster of a qcow2 file, and of the disks here.
const CLUSTER: usize = 64 << 10;
const DISK_BYTES: usize = 400 << 20;

/// A disk with the system of the image, and a file of its own.
fn system(place: &Scratch) -> PathBuf {
    let tree = place.path().join("tree");
    let mut unpack = Command::new("unsquashfs");
    unpack.args(["-quiet", "-no-progress", "-dest"]).arg(&tree).arg(image().join("root.squashfs"));
    assert_eq!(finish(&mut unpack).code, 0);
    fs::write(tree.join("etc/own"), "from the disk\n").expect("files of the test can be used");
    qcow2(place, &ext4(place, &tree))
}

fn hash(disk: &Path) -> String {
    finish(Command::new("sha256sum").arg(disk)).text().to_owned()
}

fn disk_of_the_caller_is_the_root_and_stays_as_it_is() {
    let place = Scratch::new();
    let disk = system(&place);
    let before = hash(&disk);
    let shown = disk.display().to_string();
    let as_root = ["--vm-disk", &shown, "--image", "default", "--user", "root"];
    let script = "
import os
print(open('/etc/own').read(), end='')
disk = os.open('/dev/vda', os.O_RDWR)
os.pwrite(disk, b'\\xff' * (8 << 20), 0)
os.fsync(disk)
print(os.pread(disk, 1 << 16, 4 << 20).count(255), flush=True)
";
    let wiped = run(&as_root, &["--", "python3", "-c", script]);
    assert_eq!(wiped.text(), "from the disk\n65536\n", "{wiped:?}");
    assert_eq!(hash(&disk), before);
    let clean = run(&["--vm-disk", &shown], &["--", "sh", "-c", "cat /etc/own; id -u"]);
    assert_eq!(clean.text(), "from the disk\n65534\n", "{clean:?}");
    assert_eq!(hash(&disk), before);
}

fn full_disk_is_an_error_for_programs_and_the_run_ends_with_its_own_outcome() {
    let place = Scratch::new();
    let disk = system(&place);
    let before = hash(&disk);
    let shown = disk.display().to_string();
    // The disk is larger than what is kept of changes. The program and its libraries come from
    // memory, because it overwrites the system's.
    let script = "
cd /tmp && cp /bin/dd /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/libc.so.6 .
exec ./ld-linux-x86-64.so.2 --library-path /tmp ./dd if=/dev/zero of=/dev/vda bs=1M oflag=direct
";
    let as_root =
        ["--vm-disk", &shown, "--image", "default", "--user", "root", "--timeout", "100s"];
    let filled = run(&as_root, &["--", "sh", "-c", script]);
    // The program's own code and words; a full device would have another error at its end.
    assert_eq!(filled.code, 1, "{filled:?}");
    assert!(filled.stderr.contains("error writing '/dev/vda': Input/output error"), "{filled:?}");
    let written = filled.stderr.lines().find_map(|line| line.strip_suffix("+0 records out"));
    let written: usize = written.and_then(|blocks| blocks.parse().ok()).unwrap_or_default();
    assert!(0 < written && written < DISK_BYTES >> 20, "{filled:?}");
    assert_eq!(hash(&disk), before);
    let clean = run(&["--vm-disk", &shown], &["--", "cat", "/etc/own"]);
    assert_eq!(clean.text(), "from the disk\n");
}

fn disk_that_names_another_file_and_a_disk_without_a_system_are_refused() {
    let place = Scratch::new();
    let empty = place.path().join("tree");
    fs::create_dir(&empty).expect("files of the test can be used");
    let disk = qcow2(&place, &ext4(&place, &empty));
    let shown = disk.display().to_string();
    let refused = run(&["--vm-disk", &shown], &["--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("no partition has a Linux system"), "{refused:?}");
    let mut bytes = fs::read(&disk).expect("files of the test can be used");
    bytes[15] = 72;
    fs::write(&disk, bytes).expect("files of the test can be used");
    let refused = run(&["--vm-disk", &shown], &["--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("has a backing file"), "{refused:?}");
}

/// A file system with a tree, made without root.
fn ext4(place: &Scratch, tree: &Path) -> Vec<u8> {
    let file = place.path().join("disk.raw");
    let raw = fs::File::create(&file).expect("files of the test can be used");
    raw.set_len(DISK_BYTES as u64).expect("files of the test can be used");
    let mut make = Command::new("mkfs.ext4");
    make.args(["-q", "-F", "-d"]).arg(tree).arg(&file);
    let made = finish(make.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
    assert_eq!(made.code, 0, "{made:?}");
    fs::read(&file).expect("files of the test can be used")
}

/// Writes a disk in version 2 of the format: the header, the table of reference counts and its only
/// block, the first and the only second table of clusters, and then the clusters that have data.
fn qcow2(place: &Scratch, disk: &[u8]) -> PathBuf {
    const DATA: usize = 5;
    const COPIED: u64 = 1 << 63;
    let mut file = vec![0; DATA * CLUSTER];
    let mut table = Vec::new();
    for cluster in disk.chunks(CLUSTER) {
        if cluster.iter().all(|byte| *byte == 0) {
            table.push(0);
        } else {
            table.push(file.len() as u64 | COPIED);
            file.extend_from_slice(cluster);
        }
    }
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x02");
    put(20, &16_u32.to_be_bytes());
    put(24, &(disk.len() as u64).to_be_bytes());
    put(36, &1_u32.to_be_bytes());
    put(40, &(3 * CLUSTER as u64).to_be_bytes());
    put(48, &(CLUSTER as u64).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(CLUSTER, &(2 * CLUSTER as u64).to_be_bytes());
    put(3 * CLUSTER, &((4 * CLUSTER as u64) | COPIED).to_be_bytes());
    let entries: Vec<u8> = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
    put(4 * CLUSTER, &entries);
    for cluster in 0..file.len() / CLUSTER {
        file[2 * CLUSTER + 2 * cluster + 1] = 1;
    }
    let path = place.path().join("disk.qcow2");
    fs::write(&path, file).expect("files of the test can be used");
    path
}
