//! A disk without room for the record.

use std::process::Command;

use crate::support::{Records, Run, binary, finish, not_run, walls_can_be_built};

/// Runs a program with its record on a disk of this size, in its own mount namespace. Also returns
/// whether the program ran, which a file shows.
fn on_a_disk_of(kibibytes: u32, records: &Records, word: &str) -> (Run, bool) {
    let (disk, out) = (records.scratch().join("disk"), records.scratch().join("out"));
    for directory in [&disk, &out] {
        std::fs::create_dir_all(directory).expect("a directory can be made");
    }
    let script = "mount -t tmpfs -o mode=700,size=\"$1\"k none \"$2\"; shift 2; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(kibibytes.to_string()).arg(&disk).arg(binary());
    command.args(["run", "--record"]).arg(disk.join("records"));
    command.arg("--mount").arg(format!("{}:/out:rw", out.display()));
    command.args(["--", "sh", "-c", "echo > /out/ran", word]);
    let run = finish(&mut command);
    let ran = out.join("ran").exists();
    (run, ran)
}

#[test]
fn full_disk_ends_the_session_with_a_reason_and_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("only root mounts a small disk");
    }
    // It runs with enough room, so the failures below are caused by the disk.
    let (run, ran) = on_a_disk_of(64, &Records::new(), "x");
    assert_eq!((run.code, ran), (0, true), "{run:?}");
    // A page is too small for the first events of a command with a long argument: nothing starts.
    let long = "x".repeat(4000);
    let (run, ran) = on_a_disk_of(4, &Records::new(), &long);
    assert_eq!((run.code, ran), (125, false), "{run:?}");
    assert!(run.stderr.contains("the record cannot be written: No space left"), "{run:?}");
    assert!(run.stderr.contains("--record DIR"), "{run:?}");
    // Room for the first events, but not for the last: the run ends with an error.
    let (run, ran) = on_a_disk_of(4, &Records::new(), &long[..900]);
    assert_eq!((run.code, ran), (125, true), "{run:?}");
    assert!(run.stderr.contains("the record cannot be written: No space left"), "{run:?}");
}
