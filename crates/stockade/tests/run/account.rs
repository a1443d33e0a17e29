//! `--as-user`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::scratch::{Scratch, set_mode};
use crate::support::{Conversation, command, not_run, report, stockade, walls_can_be_built};

/// An account that every host has, without a login shell.
const NOBODY: &str = "nobody";
const ID: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this is root, who alone can become another user.
fn only_root() -> bool {
    if !is_root() {
        not_run("only root can become another user");
    }
    is_root() && walls_can_be_built()
}

#[test]
fn account_that_is_missing_or_has_the_rights_of_root_is_refused_with_the_command_that_makes_one() {
    let run = stockade(&["--as-user", "stockade-nowhere", "--", "true"]);
    assert_eq!(run.code, 125);
    let create = "adduser --system --group --no-create-home --shell /usr/sbin/nologin \
                  stockade-nowhere`";
    assert!(run.stderr.contains("there is no such account"), "{}", run.stderr);
    assert!(run.stderr.contains(create), "{}", run.stderr);
    let run = stockade(&["--as-user", "root", "--", "true"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("rights of root"), "{}", run.stderr);
    assert!(run.stderr.contains("nologin stockade`"), "{}", run.stderr);
}

#[test]
fn only_root_can_become_another_account() {
    if is_root() {
        not_run("root can become any account");
        return;
    }
    let run = stockade(&["--as-user", "daemon", "--", "true"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("only root can become another user"), "{}", run.stderr);
    if rustix::process::geteuid().as_raw() == ID && walls_can_be_built() {
        assert_eq!(
            stockade(&["--as-user", NOBODY, "--no-record", "--", "echo", "ran"]).text(),
            "ran\n"
        );
    }
}

/// A process and everything that it has started, as `/proc/PID/status`.
fn family(process: u32) -> Vec<String> {
    let directory = format!("/proc/{process}");
    let Ok(status) = std::fs::read_to_string(format!("{directory}/status")) else {
        return Vec::new();
    };
    let mut family = vec![status];
    for task in std::fs::read_dir(format!("{directory}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            family.extend(family_of(child));
        }
    }
    family
}

fn family_of(process: &str) -> Vec<String> {
    process.parse().map(family).unwrap_or_default()
}

#[test]
fn supervisor_wall_and_program_have_the_ids_of_the_account_and_nothing_of_root() {
    if !only_root() {
        return;
    }
    let words = ["--no-record", "--", "sh", "-c", "cat /proc/self/uid_map; read line"];
    let mut as_root = Conversation::start(command(&words));
    assert!(!as_root.hear().split_whitespace().any(|id| id == "65534"), "root has other ids");
    assert!(as_root.0.id() > 0 && family(as_root.0.id())[0].contains("Uid:\t0\t0\t0\t0"));
    assert_eq!(as_root.end(), 1);
    let mut as_account = command(&[&["--as-user", NOBODY], &words[..]].concat());
    as_account.env("SUDO_USER", "canary");
    let mut run = Conversation::start(as_account);
    let map = run.hear();
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["1000", "65534", "1"]);
    let environment =
        std::fs::read(format!("/proc/{}/environ", run.0.id())).expect("root reads it");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let own = ["HOME=/var/lib/stockade/nobody", "USER=nobody"];
    assert!(own.iter().all(|own| environment.split('\0').any(|it| it == *own)), "{environment}");
    assert!(!environment.contains("SUDO_USER"), "{environment}");
    let family = family(run.0.id());
    assert!(family.len() >= 4, "supervisor, launcher, guest and shell: {}", family.len());
    for status in &family {
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("it is there");
            line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        let ids = format!("{ID} {ID} {ID} {ID}");
        assert_eq!((field("Uid:"), field("Gid:")), (ids.clone(), ids), "{status}");
        assert_eq!(field("Groups:"), "", "{status}");
        assert_eq!(field("CapEff:"), "0000000000000000", "{status}");
        assert_eq!(field("CapPrm:"), "0000000000000000", "{status}");
    }
    assert_eq!(run.end(), 1);
}

#[test]
fn policy_and_mounts_are_opened_with_the_rights_of_the_account() {
    if !only_root() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o755);
    let policy = scratch.file("policy.yaml", "{}\n");
    let secret = scratch.file("secret", "s\n");
    set_mode(Path::new(&policy), 0o600);
    let as_root = stockade(&["--no-record", "--policy", &policy, "--", "echo", "ran"]);
    assert_eq!(as_root.text(), "ran\n");
    let words = ["--as-user", NOBODY, "--no-record"];
    let run = stockade(&[&words[..], &["--policy", &policy, "--", "true"]].concat());
    assert!(run.code == 125 && run.stderr.contains("ermission denied"), "{}", run.stderr);
    set_mode(Path::new(&secret), 0o600);
    let mount = format!("{secret}:/data/secret");
    let read = ["--mount", &mount, "--", "cat", "/data/secret"];
    assert_eq!(stockade(&[&["--no-record"], &read[..]].concat()).text(), "s\n");
    let run = stockade(&[&words[..], &read[..]].concat());
    assert!(run.code != 0 && !run.stdout.contains('s'), "{}", run.stdout);
}

#[test]
fn record_of_an_account_is_kept_in_a_directory_of_its_own() {
    if !only_root() {
        return;
    }
    let words = ["--as-user", NOBODY, "--", "true"];
    let (code, report) = report(&words);
    assert_eq!(code, 0, "{report}");
    let record = report["record"].as_str().expect("a record is kept");
    assert!(record.starts_with("/var/lib/stockade/nobody/"), "{record}");
    let file = std::fs::metadata(record).expect("the record is there");
    assert_eq!((file.uid(), file.gid()), (ID, ID));
    let directory = std::fs::metadata("/var/lib/stockade/nobody").expect("it was made");
    assert_eq!((directory.uid(), directory.mode() & 0o777), (ID, 0o700));
    std::fs::remove_file(record).expect("root may remove it");
}
