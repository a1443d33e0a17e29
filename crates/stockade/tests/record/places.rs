//! Where records are kept, and that programs inside cannot see them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::support::{Records, binary, finish, not_run, walls_can_be_built};

#[test]
fn records_go_to_the_users_state_directory_unless_no_record_is_set() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let run = |words: &[&str]| {
        let mut command = Command::new(binary());
        finish(command.args(words).env("XDG_STATE_HOME", records.scratch()))
    };
    let report = run(&["run", "--json", "--", "true"]).json();
    let kept = records.scratch().join("stockade/sessions");
    assert!(report["record"].as_str().unwrap().starts_with(kept.to_str().unwrap()), "{report}");
    let count = || fs::read_dir(&kept).unwrap().count();
    assert_eq!(count(), 1);
    let session = report["session"].clone();
    let report = run(&["run", "--no-record", "--json", "--", "true"]).json();
    assert_eq!((&report["record"], &report["session"]), (&().into(), &().into()));
    assert_eq!(count(), 1);
    let listed = run(&["audit", "ls", "--json"]).json();
    let ours = |one: &&serde_json::Value| one["session"] == session;
    assert_eq!(listed.as_array().unwrap().iter().filter(ours).count(), 1, "{listed}");
    assert_eq!(run(&["run", "--no-record", "--record", "/x", "--", "true"]).code, 125);
}

#[test]
fn directory_that_is_a_link_or_open_to_others_is_refused_before_anything_runs() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let words = ["run", "--", "echo", "it ran"];
    assert_eq!(records.stockade(&words).stdout, "it ran\n");
    fs::set_permissions(records.path(), Permissions::from_mode(0o777)).unwrap();
    let run = records.stockade(&words);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    assert!(run.stderr.contains("chmod 700"), "{run:?}");
    fs::remove_dir_all(records.path()).unwrap();
    let elsewhere = records.scratch().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).unwrap();
    symlink(&elsewhere, records.path()).unwrap();
    let run = records.stockade(&words);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    assert!(run.stderr.contains("is a link"), "{run:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn record_directory_that_the_program_could_change_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let writable = format!("{}:/data:rw", records.scratch().display());
    let list = ["--", "ls", "/data"];
    // With records elsewhere the same mount is allowed.
    let other = Records::new();
    assert_eq!(other.stockade(&[&["run", "--mount", &writable], &list[..]].concat()).code, 0);
    for shown in [writable, format!("{}:/data", records.path().join("below").display())] {
        fs::create_dir_all(records.path().join("below")).unwrap();
        fs::set_permissions(records.path(), Permissions::from_mode(0o700)).unwrap();
        let run = records.stockade(&[&["run", "--mount", &shown], &list[..]].concat());
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains("--record DIR"), "{run:?}");
    }
}

#[test]
fn record_directory_that_the_program_could_read_is_hidden() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    assert_eq!(records.stockade(&["run", "--", "true"]).code, 0);
    fs::write(records.scratch().join("seen"), "").unwrap();
    let shown = format!("{}:/data", records.scratch().display());
    let overlay = records.scratch().display().to_string();
    for (option, value, inside) in
        [("--mount", shown.as_str(), "/data"), ("--workspace", overlay.as_str(), "/workspace")]
    {
        let run = records.stockade(&["run", option, value, "--", "find", inside, "-type", "f"]);
        assert_eq!(run.stdout, format!("{inside}/seen\n"), "{option}: {run:?}");
        // With records elsewhere this directory is visible.
        let other = Records::new();
        let run = other.stockade(&["run", option, value, "--", "find", inside, "-type", "f"]);
        assert!(run.stdout.contains(".jsonl"), "{option}: {run:?}");
    }
}

#[test]
fn records_visible_through_another_mount_are_hidden_or_refused() {
    if !walls_can_be_built() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("only root mounts one directory over another");
    }
    // A second mount of the visible directory, and one of a part of it.
    for bound in [".", "below"] {
        let records = Records::new();
        let (work, alias) = (records.scratch().join("work"), records.scratch().join("alias"));
        for directory in [&work, &alias, &work.join("below")] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(work.join("seen"), "").unwrap();
        let run = |kept: &str, kind: &str, option: &str| {
            let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", script, "sh"]);
            command.arg(work.join(bound)).arg(&alias).arg(binary());
            command.args(["run", "--record"]).arg(records.scratch().join(kept));
            let shown = format!("{}:{option}", work.display());
            finish(command.args([kind, &shown, "--", "find", ".", "/data", "-type", "f"]))
        };
        let kept = run("elsewhere", "--workspace", "write");
        assert!(kept.stdout.contains("./seen"), "elsewhere it is shown: {kept:?}");
        for (kind, option) in [("--workspace", "write"), ("--mount", "/data:rw")] {
            let refused = run("alias/records", kind, option);
            assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{refused:?}");
            assert!(refused.stderr.contains("could be changed from inside"), "{refused:?}");
        }
        for (kind, option, seen) in
            [("--workspace", "read", "./seen\n"), ("--mount", "/data", "/data/seen\n")]
        {
            let hidden = run("alias/records", kind, option);
            assert_eq!(hidden.stdout, seen, "{bound}: {hidden:?}");
        }
    }
}

#[test]
fn directory_of_another_user_in_tmp_does_not_block_audit() {
    if !walls_can_be_built() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("only root makes what belongs to somebody else");
    }
    let records = Records::new();
    let state = records.scratch().join("state");
    let run =
        finish(Command::new(binary()).args(["run", "--", "true"]).env("XDG_STATE_HOME", &state));
    assert_eq!(run.code, 0, "{run:?}");
    let audit = |planted: &str| {
        // The command may itself be beneath /tmp.
        let script = format!(
            "exec 9<\"$2\" && mount --bind \"$1\" /tmp && {planted} && shift 2 && \
             exec /proc/self/fd/9 \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]).arg(records.scratch()).arg(binary());
        finish(command.args(["audit", "verify", "--all"]).env("XDG_STATE_HOME", "/tmp/state"))
    };
    let alone = audit("true");
    assert_eq!((alone.code, alone.stderr.as_str()), (0, ""), "{alone:?}");
    for planted in [
        "mkdir /tmp/stockade-0 && chown 65534 /tmp/stockade-0",
        "rmdir /tmp/stockade-0 && ln -s /proc /tmp/stockade-0",
    ] {
        let beside = audit(planted);
        assert_eq!((beside.code, beside.stdout), (0, alone.stdout.clone()), "{planted}");
        assert!(beside.stderr.contains("/tmp/stockade-0"), "{}", beside.stderr);
    }
}

#[test]
fn concurrent_sessions_have_separate_records() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let children: Vec<_> =
        (0..8).map(|_| records.command(&["run", "--", "true"]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let all = records.audit(&["verify", "--all", "--json"]);
    assert_eq!(all.code, 0, "{all:?}");
    let all = all.json();
    assert_eq!(all.as_array().unwrap().len(), 8);
    assert!(all.as_array().unwrap().iter().all(|one| one["complete"] == true), "{all}");
}
