//! Secrets planted outside the wall, and a program that looks for all of them.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Conversation, binary, command, finish, outside, walls_can_be_built};
use stockade_testing::Scratch;

/// Plants the secrets that its argument names, prints `ready`, and keeps them until its input ends.
pub(crate) const PLANT: &str = include_str!("programs/plant.py");

/// Looks for the secrets that its argument names and prints a list of those that it finds.
pub(crate) const LOOK: &str = include_str!("programs/look.py");

/// Unique names of secrets, encoded so that the argument does not contain them as text.
pub(crate) struct Canaries {
    /// The secret that no program inside may print.
    pub(crate) token: String,
    /// The argument of both programs.
    pub(crate) argument: String,
}

impl Canaries {
    /// Creates the names of secrets below a directory, unique for each `number`.
    pub(crate) fn new(directory: &str, number: u32) -> Canaries {
        let token = format!("canary{}x{number}", std::process::id());
        let port = 20_000 + (std::process::id() % 10_000) + number;
        let names = json!({ "token": token, "directory": directory, "port": port });
        let argument = names.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
        Canaries { token, argument }
    }
}

const ALL: [&str; 9] = [
    "abstract socket",
    "environment",
    "file",
    "process",
    "shared memory",
    "socket",
    "system v shared memory",
    "tcp",
    "udp",
];

#[test]
fn nothing_planted_on_the_host_is_found_inside() {
    if !walls_can_be_built() {
        return;
    }
    let mut inside = Command::new(binary());
    inside.args(["run", "--json"]);
    nothing_planted_is_found(1, inside);
}

/// Plants every secret and asserts that a program finds all of them without a wall and none when
/// `inside` runs it. Each test passes its own `number`.
pub(crate) fn nothing_planted_is_found(number: u32, mut inside: Command) {
    let scratch = Scratch::new();
    let canaries = Canaries::new(scratch.text(), number);
    let look = ["python3", "-c", LOOK, &canaries.argument];
    let mut planter = Command::new("python3");
    planter.args(["-c", PLANT, &canaries.argument]).env("PLANTED", &canaries.token);
    let mut planted = Conversation::start(planter);
    assert_eq!(planted.hear(), "ready");
    let mut found = Command::new(look[0]);
    found.args(&look[1..]).env("PLANTED", &canaries.token);
    assert_eq!(finish(found).json(), json!(ALL), "without the wall everything is found");
    inside.arg("--").args(look).env("PLANTED", &canaries.token);
    let run = finish(inside);
    let report = run.json();
    assert_eq!((run.code, &report["stdout"]), (0, &json!("[]\n")), "{report}");
    assert!(!run.stdout.contains(&canaries.token));
    assert_eq!(planted.end(), 0);
}

#[test]
fn descriptors_of_the_caller_do_not_reach_the_program() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let secret = scratch.file("secret", "canary-behind-a-descriptor");
    let read = "import os
for number in range(3, 64):
    try: text = os.pread(number, 100, 0).decode()
    except (OSError, ValueError): continue
    if 'canary' in text: print(text)";
    let hand_over = format!("exec 7<{secret} 9<{secret}; exec \"$@\"");
    let handed = |words: &[&str]| {
        let start = ["sh", "-c", &hand_over, "sh"];
        outside(&[&start[..], words, &["python3", "-c", read]].concat())
    };
    assert_eq!(handed(&[]).text(), "canary-behind-a-descriptor\n".repeat(2));
    let stockade = binary();
    assert_eq!(handed(&[stockade.to_str().unwrap(), "run", "--"]).text(), "");
}

#[test]
fn working_directory_and_host_name_of_the_caller_stay_outside() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    scratch.file("canary-in-the-directory", "");
    let look = "import json, os, socket
print(json.dumps([os.getcwd(), sorted(os.listdir('.')), socket.gethostname(), os.getuid()]))";
    let mut host = Command::new("python3");
    host.args(["-c", look]).current_dir(scratch.path());
    let found: Value = finish(host).json();
    assert_eq!(found[1], json!(["canary-in-the-directory"]));
    let mut inside = command(&["--", "python3", "-c", look]);
    inside.current_dir(scratch.path());
    let seen: Value = finish(inside).json();
    assert_eq!((&seen[0], &seen[1], &seen[3]), (&json!("/workspace"), &json!([]), &json!(1000)));
    assert_ne!(seen[2], found[2], "the host's name is seen");
}

#[test]
fn first_process_inside_shows_nothing_of_the_host() {
    if !walls_can_be_built() {
        return;
    }
    let read = "for name in environ cwd root exe maps mem fd/0; do cat /proc/1/$name; done 2>&1; \
                cat /proc/1/cmdline /proc/cmdline /proc/keys /proc/kcore /proc/sysrq-trigger 2>&1";
    let mut inside = command(&["--", "sh", "-c", read]);
    inside.env("PLANTED", "canary-of-the-first-process");
    let seen = finish(inside);
    let text = [seen.stdout.as_str(), seen.stderr.as_str()].concat();
    assert!(!text.contains("canary-of-the-first-process"), "{text}");
    let host = std::fs::read_to_string("/proc/cmdline").unwrap();
    assert!(host.trim().is_empty() || !text.contains(host.trim()), "{text}");
}

#[test]
fn private_files_and_system_secrets_are_missing_inside() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let secret = scratch.file("key", "canary-in-a-key");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(outside(&["cat", &secret]).text(), "canary-in-a-key");
    let script = format!(
        "cat {secret} /etc/shadow /proc/1/root{secret} /proc/self/root{secret}; ls /home /root"
    );
    // A Python of the caller in a home would be visible there.
    let mut inside = command(&["--quiet", "--", "sh", "-c", &script]);
    inside.env("PATH", "/usr/bin:/bin").env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    let run = finish(inside);
    assert_eq!(run.stdout, "", "{}", run.stderr);
    assert_ne!(run.code, 0);
}
