//! Many rounds leave nothing.

use std::process::Command;
use std::time::Duration;

use stockade_testing::{Scratch, finish, finish_with, wait_for};

use crate::support::{is_machine, named, stockade, wall};

named![thousand_executions_leave_no_thread_descriptor_or_mapping];

/// Threads, descriptors and mappings of a process.
fn held(process: u32) -> (usize, usize, usize) {
    let count = |directory: &str| {
        std::fs::read_dir(format!("/proc/{process}/{directory}")).map_or(0, Iterator::count)
    };
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    (count("task"), count("fd"), maps.lines().count())
}

/// The process that holds the only session below a directory.
fn supervisor(home: &Scratch) -> u32 {
    let wanted = home.path().display().to_string();
    wait_for("the supervisor", || {
        let processes = std::fs::read_dir("/proc").ok()?;
        processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(
            |process: &u32| {
                let environment = std::fs::read(format!("/proc/{process}/environ"));
                let environment = environment.unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(&wanted)
            },
        )
    })
}

/// As many rounds in one process as `STOCKADE_LONG` asks for, else a tenth of them, as in a machine.
fn thousand_executions_leave_no_thread_descriptor_or_mapping() {
    let is_long = std::env::var_os("STOCKADE_LONG").is_some() && !is_machine();
    let rounds = if is_long { 1000 } else { 100 };
    let home = Scratch::new();
    let runtime = home.path().join("run");
    std::fs::create_dir(&runtime).expect("new");
    let command = |arguments: &[&str]| -> Command {
        let mut command = stockade();
        command.env("XDG_RUNTIME_DIR", &runtime).env("XDG_STATE_HOME", home.path());
        command.args(arguments);
        command
    };
    let name = finish(command(&["create", "--provider", wall()])).text().trim().to_owned();
    let execute = || {
        let arguments = ["code", "--language", "python", &name, "-"];
        finish_with(command(&arguments), b"print(1)").text().to_owned()
    };
    for _ in 0..10 {
        assert_eq!(execute(), "1\n");
    }
    let process = supervisor(&home);
    std::thread::sleep(Duration::from_millis(300));
    let before = held(process);
    for _ in 0..rounds {
        assert_eq!(execute(), "1\n");
    }
    wait_for("the state before", || {
        let after = held(process);
        let few = |before: usize, after: usize| after <= before + 2;
        (few(before.0, after.0) && few(before.1, after.1) && after.2 <= before.2 + 12).then_some(())
    });
    finish(command(&["rm", "--force", &name])).text();
}
