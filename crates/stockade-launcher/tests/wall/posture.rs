//! What a program sees from inside. Each test first shows that a denied act works outside.

use crate::support::{Ended, USER, carry_out, inside, outside, plan, walls_can_be_built};

#[test]
fn program_runs_and_its_exit_code_comes_back() {
    if !walls_can_be_built() {
        return;
    }
    assert!(
        matches!(carry_out(&plan("echo hello; exit 7")), Ended::Ran(7, text) if text == "hello\n")
    );
}

#[test]
fn only_attached_host_paths_are_visible() {
    if !walls_can_be_built() {
        return;
    }
    assert!(outside("ls /").contains("home"));
    let names = inside("ls /");
    for name in names.split_whitespace() {
        let known =
            ["bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "tmp", "usr", "workspace"];
        assert!(known.contains(&name), "{name} in {names}");
    }
    assert_eq!(inside("ls /etc"), "hostname\n");
    assert_eq!(inside("ls /dev").split_whitespace().count(), 7);
}

#[test]
fn environment_is_exactly_the_plans() {
    if !walls_can_be_built() {
        return;
    }
    let canary = "STOCKADE_CANARY=canary-in-the-environment sh -c 'env; cat /proc/self/environ'";
    assert!(outside(canary).contains("canary"), "without the wall it is inherited");
    let text = inside("env; cat /proc/self/environ && echo read; cat /proc/1/environ");
    assert!(text.contains('=') && text.contains("read\n"), "both are looked at: {text}");
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn ids_are_unprivileged_and_every_capability_set_is_empty() {
    if !walls_can_be_built() {
        return;
    }
    let status = inside("cat /proc/self/status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.unwrap_or_default().split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(field("Uid:"), format!("{USER} {USER} {USER} {USER}"));
    assert_eq!(field("Gid:"), format!("{USER} {USER} {USER} {USER}"));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
}

#[test]
fn read_only_paths_stay_read_only_and_scratch_is_bounded() {
    if !walls_can_be_built() {
        return;
    }
    let allowed = inside("for f in /tmp/x /workspace/x /dev/shm/x; do touch $f && echo made; done");
    assert_eq!(allowed, "made\nmade\nmade\n", "the same act where it is allowed");
    let denied =
        inside("for f in /usr/x /x /etc/x /proc/sys/x /dev/x; do touch $f && echo made $f; done");
    assert!(!denied.contains("made"), "{denied}");
    let text = inside(
        "echo fits > /tmp/a && cat /tmp/a; dd if=/dev/zero of=/tmp/big bs=1M count=64 2>&1; \
         ls -l /tmp/big | cut -d' ' -f5",
    );
    assert!(text.starts_with("fits\n") && text.contains("No space left"), "{text}");
    let shared = inside(
        "dd if=/dev/zero of=/tmp/a bs=1M count=7 2>/dev/null; dd if=/dev/zero of=/workspace/b bs=1M count=7 2>&1",
    );
    assert!(shared.contains("No space left"), "one limit holds for all writable places: {shared}");
}

#[test]
fn only_the_loopback_interface_exists() {
    if !walls_can_be_built() {
        return;
    }
    let count = |text: String| text.lines().skip(2).count();
    assert!(count(outside("cat /proc/net/dev")) >= 1);
    let text = inside("cat /proc/net/dev");
    assert_eq!(text.lines().skip(2).count(), 1, "{text}");
    assert!(text.contains("lo:"), "{text}");
}

#[test]
fn host_processes_are_not_visible() {
    if !walls_can_be_built() {
        return;
    }
    assert!(outside("ls /proc | grep -c '^[0-9]*$'").trim().parse::<u32>().unwrap() > 3);
    let count = inside("ls /proc | grep -c '^[0-9]*$'");
    assert!(count.trim().parse::<u32>().unwrap() <= 4, "{count}");
}

#[test]
fn namespaces_cannot_be_created_inside() {
    if !walls_can_be_built() {
        return;
    }
    // Proves that a program inside can try it.
    let attempt =
        "unshare --help >/dev/null && echo can try; unshare -U true 2>/dev/null && echo made";
    assert_eq!(outside(attempt), "can try\nmade\n");
    assert_eq!(inside(attempt), "can try\n");
}

#[test]
fn descriptors_are_the_three_standard_ones() {
    if !walls_can_be_built() {
        return;
    }
    let count = |text: String| text.trim().parse::<u32>().unwrap();
    // Without close-on-exec, so that every child of this process inherits it.
    let leaked = rustix::io::dup(std::io::stderr()).unwrap();
    assert!(count(outside("ls /proc/self/fd | wc -l")) > 4, "without the wall it is inherited");
    // `ls` itself holds one more.
    assert_eq!(count(inside("ls /proc/self/fd | wc -l")), 4);
    drop(leaked);
}

#[test]
fn host_name_and_session_are_private() {
    if !walls_can_be_built() {
        return;
    }
    assert_ne!(outside("cat /proc/sys/kernel/hostname").trim(), "sandbox");
    let text = inside("cat /proc/sys/kernel/hostname; cut -d' ' -f6 /proc/self/stat");
    assert_eq!(text, "sandbox\n1\n");
}

#[test]
fn masked_files_are_empty() {
    if !walls_can_be_built() {
        return;
    }
    assert_ne!(outside("wc -c < /proc/cmdline"), "0\n");
    assert_eq!(inside("wc -c < /proc/cmdline"), "0\n");
}
