//! Programs, their outcomes and limits.

use crate::support::{
    Scratch, accelerator, binary, data, examples, finish, machines, report, root_hash, run, tests,
    wait_for,
};

tests![
    hello_runs_on_a_kernel_of_its_own_and_the_report_names_the_accelerator,
    doctor_tries_kvm_with_a_machine_and_names_the_reason_if_it_fails,
    machine_has_the_memory_and_processors_of_the_policy_and_no_network_device,
    program_beyond_the_memory_limit_is_out_of_memory,
    program_beyond_its_time_ends_with_its_machine,
    wiped_disk_and_panic_leave_the_image_unchanged_and_the_next_machine_clean,
    translated_machine_needs_a_policy_that_accepts_translation,
    what_this_wall_lacks_is_refused_by_name,
];

fn hello_runs_on_a_kernel_of_its_own_and_the_report_names_the_accelerator() {
    let hello = examples().join("hello.py");
    let report = report(&[], &[&hello.display().to_string()]);
    assert_eq!(report["outcome"], "exited", "{report}");
    let printed = report["stdout"].as_str().unwrap_or_default();
    assert!(printed.contains("of user 65534, in /workspace"), "{report}");
    let text = report["isolation"].to_string();
    let (by, level) = match accelerator().0.as_str() {
        "kvm" => ("by kvm: ", "vm"),
        _ => ("by tcg: ", "translated-vm"),
    };
    assert!(text.contains(by), "{text}");
    assert_eq!(report["isolation"]["level"], level, "{text}");
}

fn doctor_tries_kvm_with_a_machine_and_names_the_reason_if_it_fails() {
    let (name, obstacle) = accelerator();
    assert_eq!(name == "kvm", obstacle.is_null(), "{name}: {obstacle}");
    // Without the device no machine can have started with it.
    let script = "mount -t tmpfs tmpfs /dev && \"$0\" doctor --json";
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script]).arg(binary()).env("XDG_DATA_HOME", data());
    let without = finish(&mut unshare).json();
    let machines = &without["machine"]["machines"];
    assert_eq!(machines["accelerator"], "tcg", "{machines}");
    assert_eq!(machines["kvm_obstacle"]["reason"], "there is no /dev/kvm", "{machines}");
    if name == "tcg" && std::path::Path::new("/dev/kvm").exists() {
        let reason = obstacle["reason"].as_str().unwrap_or_default();
        // QEMU's own words, or the deadline of the machine that was tried.
        let is_tried = reason.starts_with("qemu-system-x86_64: ") || reason.contains("with KVM");
        assert!(is_tried && obstacle["remedy"].is_string(), "{obstacle}");
    }
}

fn machine_has_the_memory_and_processors_of_the_policy_and_no_network_device() {
    let script = "
import os
limit = int(open('/sys/fs/cgroup/sandbox/memory.max').read()) >> 20
print(limit, os.cpu_count(), os.listdir('/sys/class/net'), os.uname().nodename)
print(open('/proc/self/status').read().split('CapEff:')[1].split()[0])
";
    let run = run(&["--memory", "256m", "--cpus", "2"], &["--", "python3", "-c", script]);
    assert_eq!(run.text(), "256 2 ['lo'] sandbox\n0000000000000000\n");
}

fn program_beyond_the_memory_limit_is_out_of_memory() {
    let script = "x = bytearray(1 << 30); print(len(x))";
    let report = report(&["--memory", "128m"], &["--", "python3", "-c", script]);
    assert_eq!(report["outcome"], "out_of_memory", "{report}");
}

fn program_beyond_its_time_ends_with_its_machine() {
    let run = run(&["--timeout", "2s"], &["--", "sleep", "600"]);
    assert_eq!(run.code, 124, "{run:?}");
    wait_for("the end of the machine", || (machines() == 0).then_some(()));
}

fn wiped_disk_and_panic_leave_the_image_unchanged_and_the_next_machine_clean() {
    let before = root_hash();
    let script = "
import os
disk = os.open('/dev/vda', os.O_RDWR)
end = os.lseek(disk, 0, os.SEEK_END)
for place in (0, end - (1 << 20)):
    os.pwrite(disk, b'\\0' * (1 << 20), place)
os.fsync(disk)
print('wiped', flush=True)
for path in ('/tmp/left', '/workspace/left', '/run/left', '/dev/shm/left'):
    open(path, 'w').write('left')
open('/proc/sysrq-trigger', 'w').write('c')
";
    let root = ["--image", "default", "--user", "root"];
    let wiped = run(&root, &["--", "python3", "-c", script]);
    assert!(wiped.stdout.contains("wiped"), "{wiped:?}");
    assert_ne!(wiped.code, 0, "{wiped:?}");
    assert!(wiped.stderr.contains("Kernel panic - not syncing: sysrq"), "{wiped:?}");
    assert_eq!(root_hash(), before);
    let look = "ls /tmp /workspace /run /dev/shm; head -c 4 /dev/vda";
    let clean = run(&root, &["--", "sh", "-c", look]);
    assert!(clean.text().ends_with("hsqs"), "{clean:?}");
    assert!(!clean.stdout.contains("left"), "{clean:?}");
}

fn translated_machine_needs_a_policy_that_accepts_translation() {
    if accelerator().0 == "kvm" {
        assert_eq!(run(&["--isolation", "vm"], &["--", "true"]).code, 0);
        return;
    }
    let refused = run(&["--isolation", "vm"], &["--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    let reason = "the qemu wall gives translated-vm isolation and the policy wants vm";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    assert!(refused.stderr.contains("--isolation translated-vm"), "{refused:?}");
    let accepted = report(&["--isolation", "translated-vm"], &["--", "echo", "ran"]);
    assert_eq!(accepted["stdout"], "ran\n", "{accepted}");
    assert_eq!(accepted["isolation"]["level"], "translated-vm", "{accepted}");
    assert!(accepted["isolation"].to_string().contains("by tcg: "), "{accepted}");
}

fn what_this_wall_lacks_is_refused_by_name() {
    let place = Scratch::new();
    let file = format!("{}:/srv/file:rw", place.file("file", ""));
    for (flags, message, remedy) in [
        (&["--mount", &file][..], "a writable file", "the directory above"),
        (&["--workspace", "/srv:write"], "a workspace with the mode write", "stockade apply"),
        (&["--root", "/usr"], "--root", "stockade image build --vm"),
        (&["--image", "nowhere"], "no machine image nowhere", "image build --vm nowhere"),
        (&["--vm-disk", "disk.qcow2"], "cannot use --vm-disk disk.qcow2", "a qcow2 file"),
        (&["--cloud-init", "user-data"], "--cloud-init", "stockade image build --vm"),
        (&["--vm-iso", "debian.iso"], "--vm-iso", "stockade image build --vm"),
    ] {
        let refused = run(flags, &["--", "true"]);
        assert_eq!(refused.code, 125, "{flags:?}: {refused:?}");
        assert!(refused.stderr.contains(message), "{flags:?}: {refused:?}");
        assert!(refused.stderr.contains(remedy), "{flags:?}: {refused:?}");
    }
}
