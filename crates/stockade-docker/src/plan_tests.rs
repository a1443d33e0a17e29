use std::path::PathBuf;

use serde_json::{Value, json};
use stockade_hostfiles::Shown;

use super::*;

fn policy(text: &str) -> Policy {
    Policy::parse_str("p", text, Path::new("/srv")).unwrap()
}

fn files(shown: Vec<Shown>, user: (u32, u32)) -> Files {
    Files { shown, user }
}

fn shown_directory(host: &str, guest: &str, mode: Mode) -> Shown {
    Shown {
        host: PathBuf::from(host),
        guest: PathBuf::from(guest),
        kind: stockade_hostfiles::TreeKind::Directory,
        mode,
    }
}

fn planned(text: &str, facts: &EngineFacts, runtime: Runtime, files: &Files) -> Value {
    let labels = HashMap::from([("stockade.owner".to_owned(), "1.2.3".to_owned())]);
    let image = Image { id: "sha256:00".to_owned(), ..Image::default() };
    let policy = policy(text);
    let declared = ["/var/lib/data/".to_owned(), "/workspace".to_owned()];
    let volumes = Volumes::of(&declared, &policy, files).unwrap();
    let inputs = Inputs {
        policy: &policy,
        facts,
        runtime,
        image: &image,
        volumes: &volumes,
        files,
        has_network: true,
        has_tools: true,
        bundles: &[Bundle { directory: "/etc/ssl/certs".to_owned(), name: "x.crt".to_owned() }],
        labels: &labels,
        seccomp: "{}",
    };
    serde_json::to_value(plan(&inputs)).unwrap()
}

#[test]
fn whole_configuration_of_a_container_is_as_hard_as_it_can_be() {
    let text = "{ network_allowlist: [files.test, 'db.test:5432'], \
                  filesystem: { hide: [/opt/x], workspace: { host: /srv/w, mode: write } } }";
    let shown = vec![
        shown_directory("/srv/data", "/data", Mode::Read),
        shown_directory("/srv/w", "/workspace", Mode::Write),
    ];
    let facts = crate::host::example();
    let found = planned(text, &facts, Runtime::Runc, &files(shown, (1000, 1001)));
    let scratch = "rw,exec,nosuid,nodev,size=256m,nr_inodes=100000,";
    let everyone = format!("{scratch}mode=1777");
    let own = format!("{scratch}mode=0755,uid=1000,gid=1001");
    let labels = json!({"stockade.owner": "1.2.3"});
    let bind = |source: &str, target: &str, read_only: bool| {
        json!({
            "Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only,
            "BindOptions": {"Propagation": "rprivate", "NonRecursive": true},
        })
    };
    let limit = |name: &str, amount: u64| json!({"Name": name, "Soft": amount, "Hard": amount});
    let expected = json!({
        "Image": "sha256:00",
        "Hostname": "sandbox",
        "User": "1000:1001",
        "Entrypoint": [
            "/run/stockade/guest", "stdio", "kernel", "files=1024", "network=80,443,5432",
            "tools=/run/stockade-guest/tools.sock",
        ],
        "Cmd": [],
        "Env": [],
        "WorkingDir": "/",
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStdin": true,
        "AttachStdout": true,
        "AttachStderr": true,
        "OpenStdin": true,
        "StdinOnce": true,
        "Tty": false,
        "StopSignal": "SIGKILL",
        "StopTimeout": 0,
        "Labels": labels,
        "HostConfig": {
            "Runtime": "runc",
            "AutoRemove": true,
            "RestartPolicy": {"Name": "no"},
            "Privileged": false,
            "CapDrop": ["ALL"],
            "CapAdd": [],
            "SecurityOpt": ["no-new-privileges", "seccomp={}"],
            "ReadonlyRootfs": true,
            "MaskedPaths": [
                "/proc/acpi", "/proc/kcore", "/proc/latency_stats", "/proc/sched_debug",
                "/proc/sys/kernel/random/boot_id", "/proc/timer_list", "/proc/timer_stats", "/sys",
                "/proc/cmdline",
                "/proc/keys", "/proc/kallsyms", "/proc/modules", "/proc/interrupts", "/proc/irq",
                "/proc/bus", "/proc/fs", "/proc/driver", "/proc/diskstats", "/proc/partitions",
                "/proc/scsi", "/proc/asound",
            ],
            "NetworkMode": "none",
            "IpcMode": "none",
            "CgroupnsMode": "private",
            "Init": false,
            "LogConfig": {"Type": "none"},
            "Devices": [],
            "Dns": ["127.0.0.53"],
            "DnsOptions": ["edns0", "ndots:1"],
            "DnsSearch": ["."],
            "Memory": 512 << 20,
            "MemorySwap": 512 << 20,
            "NanoCpus": 1_000_000_000,
            "PidsLimit": 257,
            "Ulimits": [
                limit("core", 1),
                limit("memlock", 8 << 20),
                limit("msgqueue", 819_200),
                limit("nofile", 2112),
                limit("sigpending", 4096),
            ],
            "Tmpfs": {
                "/tmp": everyone,
                "/var/tmp": everyone,
                "/dev/shm": everyone,
                "/run": own,
                "/var/lib/data": own,
            },
            "Mounts": [
                {
                    "Type": "volume", "Target": "/run/stockade", "ReadOnly": false,
                    "VolumeOptions": {"NoCopy": true, "Labels": labels},
                },
                {
                    "Type": "volume", "Target": "/etc/ssl/certs", "ReadOnly": false,
                    "VolumeOptions": {"NoCopy": false, "Labels": labels},
                },
                bind("/srv/data", "/data", true),
                bind("/srv/w", "/workspace", false),
                {
                    "Type": "tmpfs", "Target": "/opt/x", "ReadOnly": true,
                    "TmpfsOptions": {"SizeBytes": 4096, "Mode": 0o555},
                },
            ],
            "Sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
        },
    });
    assert_eq!(found, expected);
}

#[test]
fn gvisor_counts_processes_inside_and_the_engine_only_as_a_backstop() {
    let nobody = files(Vec::new(), (65534, 65534));
    let facts = crate::host::example();
    let of = |runtime| {
        let found = planned("limits: { max_pids: 100 }", &facts, runtime, &nobody);
        let limits = found["HostConfig"]["Ulimits"].as_array().unwrap().clone();
        let inside = limits.into_iter().find(|limit| limit["Name"] == "nproc");
        (found["HostConfig"]["PidsLimit"].clone(), inside.map(|limit| limit["Hard"].clone()))
    };
    assert_eq!(of(Runtime::Runsc), (json!(4224), Some(json!(101))));
    assert_eq!(of(Runtime::Runc), (json!(101), None));
    assert_eq!(of(Runtime::Kata), (json!(101), None));
}

#[test]
fn engine_decides_about_apparmor_and_swappiness() {
    let nobody = files(Vec::new(), (65534, 65534));
    let old = EngineFacts { cgroups: 1, has_apparmor: true, ..crate::host::example() };
    let found = planned("{}", &old, Runtime::Runc, &nobody);
    let host = &found["HostConfig"];
    assert_eq!((&host["MemorySwappiness"], &host["OomKillDisable"]), (&json!(0), &json!(false)));
    let options = ["no-new-privileges", "seccomp={}", "apparmor=docker-default"];
    assert_eq!(host["SecurityOpt"], json!(options));
    assert_eq!(found["User"], "65534:65534");
    let workspace = host["Tmpfs"]["/workspace"].as_str().unwrap();
    assert!(workspace.ends_with("mode=0755,uid=65534,gid=65534"), "{workspace}");
}

#[test]
fn at_most_sixteen_ports_have_listeners() {
    let ports: Vec<String> = (1000..1030).map(|port| port.to_string()).collect();
    let text = format!("{{ network_ports: [{}], network_allowlist: [a.test] }}", ports.join(", "));
    let nobody = files(Vec::new(), (65534, 65534));
    let found = planned(&text, &crate::host::example(), Runtime::Runc, &nobody).to_string();
    let expected: Vec<String> = (1000..1016).map(|port| port.to_string()).collect();
    assert!(found.contains(&format!("\"network={}\"", expected.join(","))), "{found}");
}
