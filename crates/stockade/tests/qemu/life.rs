//! What is left when a part dies or is missing.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    Scratch, binary, command, data, ended, finish, image_copy, machine, machines, start, tests,
    wait_for,
};

tests![
    qemu_runs_without_rights_and_behind_filters,
    killed_command_leaves_nothing,
    killed_qemu_ends_the_run_with_its_console_and_leaves_nothing,
    missing_qemu_is_named_with_its_package,
];

/// The mounts of this test, which runs in mount and network namespaces of its own.
fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted").lines().count()
}

/// The sockets of Stockade in this test's network namespace.
fn sockets() -> usize {
    fs::read_to_string("/proc/net/unix").expect("/proc is mounted").matches("stockade").count()
}

/// The paths below a directory, sorted.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the directory can be read").path())
        .flat_map(|path| [below(&path), vec![path]].concat())
        .collect();
    found.sort();
    found
}

/// The cgroups of a process that belong to a sandbox.
fn cgroups(process: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(process.join("cgroup")).expect("the process runs");
    let places = text.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next().unwrap_or_default().to_owned();
        let path = fields.next().unwrap_or_default().trim_start_matches('/').to_owned();
        ["", "unified", &controllers].map(|base| Path::new("/sys/fs/cgroup").join(base).join(&path))
    });
    places.filter(|path| path.to_string_lossy().contains("stockade") && path.is_dir()).collect()
}

/// Starts a program that prints a line and then runs for long; returns its machine's process.
fn running(place: &Scratch, flags: &[&str], script: &str) -> (Child, PathBuf) {
    let mut command =
        command(flags, &["--", "sh", "-c", &format!("{script}; echo ready; sleep 600")]);
    let mut child = start(command.env("XDG_DATA_HOME", place.path()));
    let mut line = [0; 6];
    let output = child.stdout.as_mut().expect("the output is piped");
    output.read_exact(&mut line).expect("the program runs");
    assert_eq!(&line, b"ready\n");
    (child, machine().expect("no other machine runs"))
}

/// A copy of the image with a saved machine, which is meant to stay, and what there was before
/// another machine runs.
struct Before {
    place: Scratch,
    files: Vec<PathBuf>,
    mounts: usize,
}

impl Before {
    fn look() -> Before {
        wait_for("no other machine", || (machines() == 0).then_some(()));
        let mounts = mounts();
        let place = Scratch::new();
        image_copy(&place);
        let mut first = command(&[], &["--", "true"]);
        assert_eq!(finish(first.env("XDG_DATA_HOME", place.path())).code, 0);
        let files = below(&place.path().join("stockade"));
        Before { place, files, mounts }
    }

    /// Waits until nothing more is there than before.
    fn comes_back(&self, cgroups: &[PathBuf]) {
        wait_for("the end of the machine", || (machines() == 0).then_some(()));
        let is_gone = || !cgroups.iter().any(|path| path.exists());
        wait_for("the end of its cgroups", || is_gone().then_some(()));
        wait_for("the end of its sockets", || (sockets() == 0).then_some(()));
        // Fewer if something of an earlier test was still ending.
        wait_for("the end of its mounts", || (mounts() <= self.mounts).then_some(()));
        assert_eq!(below(&self.place.path().join("stockade")), self.files);
    }
}

fn qemu_runs_without_rights_and_behind_filters() {
    let before = Before::look();
    let (mut child, machine) = running(&before.place, &[], ":");
    let status = fs::read_to_string(machine.join("status")).expect("the machine runs");
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let namespaces = |process: &Path| {
        ["net", "pid", "mnt", "ipc", "user"]
            .map(|name| fs::read_link(process.join("ns").join(name)).expect("the process runs"))
    };
    let (inside, ours) = (namespaces(&machine), namespaces(Path::new("/proc/self")));
    child.kill().expect("the command is ours");
    child.wait().expect("the command is ours");
    assert!(of("Uid:").split(' ').all(|user| user != "0"), "{status}");
    assert_eq!((of("Seccomp:").as_str(), of("NoNewPrivs:").as_str()), ("2", "1"), "{status}");
    // The wall's filter and QEMU's own.
    assert!(of("Seccomp_filters:").parse::<u32>().is_ok_and(|count| count >= 2), "{status}");
    for name in ["CapEff:", "CapPrm:"] {
        assert_eq!(of(name), "0000000000000000", "{name} {status}");
    }
    for (inside, ours) in inside.iter().zip(&ours) {
        assert_ne!(inside, ours);
    }
    wait_for("the end of the machine", || (machines() == 0).then_some(()));
}

fn killed_command_leaves_nothing() {
    let before = Before::look();
    let (mut child, machine) = running(&before.place, &[], ":");
    let cgroups = cgroups(&machine);
    assert!(!cgroups.is_empty(), "QEMU is in a cgroup of its own");
    child.kill().expect("the command is ours");
    child.wait().expect("the command is ours");
    before.comes_back(&cgroups);
}

fn killed_qemu_ends_the_run_with_its_console_and_leaves_nothing() {
    let before = Before::look();
    // Only root may write to the kernel's log, which is on the console.
    let flags = ["--image", "default", "--user", "root"];
    let (child, machine) = running(&before.place, &flags, "echo '<1>the last words' > /dev/kmsg");
    let cgroups = cgroups(&machine);
    let pid = machine.file_name().and_then(|name| name.to_str()?.parse().ok());
    let pid = Pid::from_raw(pid.expect("a process has a number")).expect("it is not zero");
    kill_process(pid, Signal::KILL).expect("the machine is ours");
    let run = ended(child);
    assert_eq!(run.code, 134, "{run:?}");
    let reason = "QEMU ended while the program ran; the console's last lines:";
    assert!(run.stderr.contains(reason) && run.stderr.contains("the last words"), "{run:?}");
    before.comes_back(&cgroups);
}

fn missing_qemu_is_named_with_its_package() {
    // In a mount namespace of its own: QEMU is covered by a device, which is no program.
    let script = "mount --bind /dev/null /usr/bin/qemu-system-x86_64 && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(binary());
    unshare.args(["run", "--provider", "qemu", "--no-record", "--", "true"]);
    let refused = finish(unshare.env("XDG_DATA_HOME", data()));
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("there is no qemu-system-x86_64 in"), "{refused:?}");
    assert!(refused.stderr.contains("apt-get install"), "{refused:?}");
}
