//! Machines that continue a saved one: their identity, and what happens without a usable state.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{
    Run, Scratch, Sessions, binary, command, finish, image, image_copy, report, root_hash, tests,
};

tests![
    machines_that_continue_differ_in_every_identity,
    machine_that_continues_has_the_time_within_a_second,
    saved_machine_contains_nothing_of_a_policy,
    damaged_state_is_replaced_by_a_boot_that_names_the_reason,
    state_that_qemu_refuses_is_replaced_by_a_boot_that_names_the_reason,
    disk_without_space_is_a_boot_that_names_the_reason,
];

/// A command with images of its own.
fn with(place: &Scratch, words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.args(["run", "--provider", "qemu", "--no-record"]).args(words);
    finish(command.env("XDG_DATA_HOME", place.path()))
}

/// How a program's machine started.
fn how(report: &Value) -> (&str, &str) {
    let start = &report["isolation"]["start"];
    (start["how"].as_str().unwrap_or_default(), start["because"].as_str().unwrap_or_default())
}

/// The only saved state of the image in a place.
fn state(place: &Scratch) -> PathBuf {
    let directory = place.path().join("stockade/machines/default/saved");
    let entries = fs::read_dir(directory).expect("files of the test can be used");
    let paths = entries.map(|entry| entry.expect("files of the test can be used").path());
    let mut states = paths.filter(|path| path.extension().is_some_and(|it| it == "state"));
    let state = states.next().expect("there is a saved state");
    assert_eq!(states.next(), None);
    state
}

fn machines_that_continue_differ_in_every_identity() {
    let script = "
import uuid
print(open('/etc/machine-id').read().strip())
print(open('/proc/sys/kernel/random/boot_id').read().strip())
print(open('/dev/urandom', 'rb').read(16).hex())
print(uuid.uuid4())
";
    let before = root_hash();
    let printed = || {
        let report = report(&[], &["--", "python3", "-c", script]);
        assert_eq!(how(&report), ("continued", ""), "{report}");
        let text = report["stdout"].as_str().unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The first may have to save the machine.
    let all = [printed(), printed(), printed()];
    assert_eq!(all[0].len(), 4, "{all:?}");
    for line in 0..4 {
        let [a, b, c] = &all;
        assert!(a[line].len() >= 32, "{all:?}");
        assert!(a[line] != b[line] && b[line] != c[line] && a[line] != c[line], "{all:?}");
    }
    assert_eq!(root_hash(), before);
}

fn machine_that_continues_has_the_time_within_a_second() {
    let sessions = Sessions::new();
    let created = sessions.run(&["create", "--provider", "qemu", "--name", "clock"]);
    assert_eq!(created.text(), "clock\n");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let before = now();
    let ran = sessions.run(&["exec", "--json", "clock", "--", "date", "+%s.%N"]);
    let after = now();
    let report = ran.json();
    assert_eq!(how(&report), ("continued", ""), "{report}");
    let inside: f64 = report["stdout"].as_str().unwrap_or_default().trim().parse().unwrap_or(0.0);
    assert!(before - 1.0 < inside && inside < after + 1.0, "{before} {inside} {after}");
}

fn saved_machine_contains_nothing_of_a_policy() {
    let place = Scratch::new();
    image_copy(&place);
    // Not as one text here: this process's memory is not what is looked at, but its files might be.
    let marker = ["the-secret-of", "-this-policy"].concat();
    let file = place.path().join("file");
    fs::write(&file, &marker).expect("files of the test can be used");
    let mount = format!("{}:/shown", file.display());
    let variable = format!("SHOWN={marker}");
    let words = ["--mount", &mount, "--env", &variable, "--", "sh", "-c", "cat /shown; env"];
    let ran = with(&place, &words);
    assert_eq!(ran.text().matches(&marker).count(), 2, "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
    let state = fs::read(state(&place)).expect("files of the test can be used");
    let has = |text: &str| state.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("Linux version ") && has("stockade"), "the memory of the machine is readable");
    assert!(!has(&marker));
}

fn damaged_state_is_replaced_by_a_boot_that_names_the_reason() {
    let place = Scratch::new();
    image_copy(&place);
    assert_eq!(with(&place, &["--", "true"]).stderr, "");
    let state_before = state(&place);
    let mut bytes = fs::read(&state_before).expect("files of the test can be used");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&state_before, bytes).expect("files of the test can be used");
    let booted = with(&place, &["--", "echo", "ran"]);
    assert_eq!(booted.text(), "ran\n");
    let reason = "the sandbox booted: the saved machine cannot be used: its state is damaged";
    assert!(booted.stderr.contains(reason), "{booted:?}");
    // The next start saves it again.
    let again = with(&place, &["--json", "--", "true"]).json();
    assert_eq!(how(&again), ("continued", ""), "{again}");
    state(&place);
}

fn state_that_qemu_refuses_is_replaced_by_a_boot_that_names_the_reason() {
    let place = Scratch::new();
    image_copy(&place);
    assert_eq!(with(&place, &["--", "true"]).stderr, "");
    // The state of another version, which its description does not betray.
    let state = state(&place);
    fs::write(&state, "QEVM of another version").expect("files of the test can be used");
    let hash = finish(Command::new("sha256sum").arg(&state));
    let hash = hash.text().split(' ').next().unwrap_or_default().to_owned();
    let description = state.with_extension("json");
    let text = fs::read(&description).expect("files of the test can be used");
    let mut text: Value = serde_json::from_slice(&text).expect("descriptions are JSON");
    text["sha256"] = Value::from(hash);
    fs::write(&description, text.to_string()).expect("files of the test can be used");
    let booted = with(&place, &["--json", "--", "echo", "ran"]).json();
    assert_eq!(booted["stdout"], "ran\n", "{booted}");
    let (how, because) = how(&booted);
    assert_eq!(how, "booted", "{booted}");
    assert!(
        because.contains("the saved machine did not continue: qemu-system-x86_64: "),
        "{because}"
    );
}

fn disk_without_space_is_a_boot_that_names_the_reason() {
    let place = Scratch::new();
    // In a mount namespace of its own, with the image on a file system that it nearly fills.
    let script = "mount -t tmpfs -o size=200m tmpfs \"$1\" && mkdir -p \"$1/stockade/machines\" \
                  && mkdir \"$1/stockade/machines/default\" && cd \"$2\" \
                  && cp kernel modules.cpio root.squashfs passwd manifest.json \
                  \"$1/stockade/machines/default\" && shift 2 && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(place.path()).arg(image());
    let run = command(&[], &["--", "echo", "ran"]);
    unshare.arg(run.get_program()).args(run.get_args());
    let booted = finish(unshare.env("XDG_DATA_HOME", place.path()));
    assert_eq!(booted.text(), "ran\n");
    let reason = "the sandbox booted: no machine can be saved: less than 512 MiB are free in";
    assert!(booted.stderr.contains(reason), "{booted:?}");
}
