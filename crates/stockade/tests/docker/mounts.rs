//! Host files in a container: read-only input, and output that belongs to the caller.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;

use stockade_testing::{Scratch, engine, set_mode, wait_for};

use crate::support::{command, directory, docker, finish, run, tests};

tests![
    callers_files_are_read_and_written_as_the_caller,
    roots_files_are_read_and_written_as_root_by_a_program_that_is_not,
    killed_start_leaves_no_mount_of_roots_files,
];

/// An ordinary user, whose files no other user may read.
const USER: u32 = 31_415;

fn callers_files_are_read_and_written_as_the_caller(runtime: &'static str) {
    let place = Scratch::new();
    let (input, output) = (place.directory("in"), place.directory("out"));
    fs::write(format!("{input}/data"), "input").expect("a file can be written");
    for path in [&input, &output, &format!("{input}/data")] {
        chown(path, Some(USER), Some(USER)).expect("root gives files away");
        set_mode(path.as_ref(), 0o700);
    }
    let script = "
import os
print(open('/input/data').read(), os.getuid())
try:
    open('/input/new', 'w')
except OSError as error:
    print(error.errno)
os.mkdir('/output/made')
with open('/output/made/file', 'w') as file: file.write('output')
os.chmod('/output/made/file', 0o640)
";
    let (read, write) = (format!("{input}:/input"), format!("{output}:/output:rw"));
    let flags = ["--no-record", "--mount", &read, "--mount", &write];
    let mut command = command(runtime, &flags, &["python3", "-c", script]);
    command.uid(USER).gid(USER).env("HOME", place.path());
    assert_eq!(finish(command).text(), format!("input {USER}\n30\n"));
    assert_eq!(fs::read_dir(&input).expect("it exists").count(), 1);
    let made = format!("{output}/made/file");
    assert_eq!(fs::read_to_string(&made).expect("the program wrote it"), "output");
    let found = fs::metadata(&made).expect("it exists");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (USER, USER, 0o640));
    assert_eq!(fs::metadata(format!("{output}/made")).expect("it exists").uid(), USER);
}

/// Where root's files are attached for the engine during a start.
const LENT: &str = "/run/stockade-mounts";

/// The names of what is attached there.
fn lent() -> BTreeSet<OsString> {
    let all = fs::read_dir(LENT).into_iter().flatten().flatten();
    all.map(|entry| entry.file_name()).collect()
}

/// Waits until nothing is attached that was not before.
fn wait_until_only(before: &BTreeSet<OsString>) {
    wait_for("no mount of root's files is left", || lent().is_subset(before).then_some(()));
}

fn roots_files_are_read_and_written_as_root_by_a_program_that_is_not(runtime: &'static str) {
    let (place, before) = (Scratch::new(), lent());
    let output = place.directory("out");
    let input = place.file("secret", "for root only");
    for (path, mode) in [(&input, 0o600), (&output, 0o700)] {
        set_mode(path.as_ref(), mode);
    }
    let script = "
import os
print(open('/input').read(), os.getuid())
os.mkdir('/output/made', 0o750)
with open('/output/made/file', 'w') as file: file.write('output')
try:
    os.chmod('/output/made/file', 0o4755)
    print('set-id')
except OSError as error:
    print(error.errno)
os.rename('/output/made/file', '/output/made/moved')
try:
    open('/input', 'a')
except OSError as error:
    print(error.errno)
";
    // In a plain container the same user can do neither.
    let mut plain = engine::client(&directory());
    plain.args(["run", "--rm", "--network", "none", "--user", "65534:65534"]);
    plain.args(["--volume", &format!("{input}:/input"), "--volume", &format!("{output}:/output")]);
    let acts = "cat /input || echo closed; mkdir /output/made || echo closed";
    let plain = finish(plain.args(["python:3.11-slim", "sh", "-c", acts]));
    assert_eq!(plain.text(), "closed\nclosed\n", "{plain:?}");
    let (read, write) = (format!("{input}:/input"), format!("{output}:/output:rw"));
    let flags = ["--mount", &read, "--mount", &write];
    let ended = run(runtime, &flags, &["python3", "-c", script]);
    assert_eq!(ended.text(), "for root only 65534\n1\n30\n", "{ended:?}");
    let made = format!("{output}/made/moved");
    assert_eq!(fs::read_to_string(&made).expect("the program wrote it"), "output");
    for (path, kind) in [(&made, 0o644), (&format!("{output}/made"), 0o750)] {
        let found = fs::metadata(path).expect("it exists");
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, 0, kind), "{path}");
    }
    assert_eq!(fs::metadata(&input).expect("it exists").mode() & 0o7777, 0o600);
    wait_until_only(&before);
}

fn killed_start_leaves_no_mount_of_roots_files(runtime: &'static str) {
    let (place, before) = (Scratch::new(), lent());
    let write = format!("{}:/output:rw", place.directory("out"));
    let mut command = command(runtime, &["--mount", &write], &["true"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let child = command.stderr(std::process::Stdio::null()).spawn().expect("stockade starts");
    let child = std::cell::RefCell::new(child);
    wait_for("the files are lent, or the run has ended", || {
        let is_lent = !lent().is_subset(&before);
        (is_lent || child.borrow_mut().try_wait().is_ok_and(|ended| ended.is_some())).then_some(())
    });
    let mut child = child.into_inner();
    let _ = child.kill();
    child.wait().expect("it is a child");
    wait_until_only(&before);
    // A later start removes what the engine was creating.
    let owner = format!("stockade.owner={}.", child.id());
    wait_for("nothing of the killed start is left", || {
        assert_eq!(run(runtime, &[], &["true"]).code, 0);
        let left = [&["ps", "--all"][..], &["volume", "ls"]]
            .map(|words| docker(&[words, &["--format", "{{.Labels}}"]].concat()).join(" "));
        (!left.iter().any(|labels| labels.contains(&owner))).then_some(())
    });
}
