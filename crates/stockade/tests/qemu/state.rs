//! Checkpoints and ports of sessions in machines.

use std::fs;
use std::io::Read;
use std::net::TcpStream;

use crate::support::{Scratch, Sessions, finish, stockade, tests, wait_for};

tests![
    files_in_a_machine_come_back_and_are_forked,
    overlay_workspace_keeps_and_shows_only_what_changed,
    kept_run_shows_what_it_changed,
    server_in_a_machine_answers_the_host_through_its_port,
];

fn files_in_a_machine_come_back_and_are_forked() {
    let sessions = Sessions::new();
    let text = |words: &[&str]| sessions.run(words).text().to_owned();
    let exec = |name: &str, script: &str| text(&["exec", name, "--", "sh", "-c", script]);
    text(&["create", "--provider", "qemu", "--name", "work"]);
    let list = "find . /tmp /dev/shm -mindepth 1 | sort; cat file /tmp/other";
    let make = "echo one > file; mkdir deep; ln -s file way; echo two > /tmp/other; chmod 600 file";
    exec("work", make);
    let before = exec("work", list);
    text(&["checkpoint", "work", "first"]);
    exec("work", "rm -r file deep way /tmp/other; echo new > new");
    assert_eq!(exec("work", "ls"), "new\n");
    text(&["restore", "work", "first"]);
    assert_eq!(exec("work", list), before);
    let fork = text(&["fork", "work", "--from", "first"]);
    exec("work", "echo changed > file");
    assert_eq!(exec(fork.trim(), list), before);
    let diff = text(&["diff", "work", "--from", "first"]);
    assert!(diff.contains("-one\n+changed\n"), "{diff}");
}

fn overlay_workspace_keeps_and_shows_only_what_changed() {
    let sessions = Sessions::new();
    let project = sessions.0.path().join("project");
    fs::create_dir_all(project.join("sub/inner")).expect("files of the test can be used");
    for name in ["kept", "changed", "deleted", "sub/gone", "sub/inner/deep"] {
        fs::write(project.join(name), "old\n").expect("files of the test can be used");
    }
    let text = |words: &[&str]| sessions.run(words).text().to_owned();
    let exec = |script: &str| text(&["exec", "work", "--", "sh", "-c", script]);
    let workspace = format!("{}:overlay", project.display());
    text(&["create", "--provider", "qemu", "--name", "work", "--workspace", &workspace]);
    assert_eq!(text(&["diff", "work"]), "");
    exec("echo new > changed; rm deleted; rm -r sub; mkdir sub; echo own > sub/own");
    let list = "find . | sort; cat changed sub/own";
    let before = exec(list);
    let made = sessions.run(&["--json", "checkpoint", "work", "edited"]).json();
    let entries = made["entries"].as_u64().expect("a checkpoint counts its entries");
    assert!(entries < 12, "only changes: {made}");
    text(&["discard", "work"]);
    assert!(exec("find .").contains("./sub/inner/deep"));
    text(&["restore", "work", "edited"]);
    assert_eq!(exec(list), before);
    let lines = sessions.run(&["--json", "diff", "work"]).json();
    let lines = lines.as_array().expect("changes are a list").iter();
    let changes: Vec<String> =
        lines.map(|line| format!("{} {}", line["change"], line["path"]).replace('"', "")).collect();
    let expected = [
        "modified changed",
        "deleted deleted",
        "deleted sub/gone",
        "deleted sub/inner",
        "deleted sub/inner/deep",
        "added sub/own",
    ];
    assert_eq!(changes, expected);
    assert_eq!(sessions.run(&["apply", "work"]).code, 0);
    let read = |name: &str| fs::read_to_string(project.join(name)).unwrap_or_default();
    assert_eq!((read("changed"), read("sub/own")), ("new\n".to_owned(), "own\n".to_owned()));
    assert_eq!(read("kept"), "old\n");
    assert!(!project.join("deleted").exists() && !project.join("sub/inner").exists());
}

fn kept_run_shows_what_it_changed() {
    let place = Scratch::new();
    let with_store = |words: &[&str]| {
        let mut command = stockade(words);
        command.env("STOCKADE_STORE", place.path().join("store"));
        finish(command.env("XDG_STATE_HOME", place.path().join("records")))
    };
    let words =
        ["run", "--provider", "qemu", "--keep", "first", "--", "sh", "-c", "echo one > file"];
    assert_eq!(with_store(&words).code, 0);
    assert!(with_store(&["diff", "run/first"]).text().contains("+one\n"));
}

fn server_in_a_machine_answers_the_host_through_its_port() {
    let sessions = Sessions::new();
    let text = |words: &[&str]| sessions.run(words).text().to_owned();
    text(&["create", "--provider", "qemu", "--name", "work"]);
    let server = "
import socket
server = socket.create_server(('127.0.0.1', 8000))
while True:
    connection, _ = server.accept()
    connection.sendall(b'from the machine')
    connection.close()
";
    text(&["exec", "-d", "work", "--", "python3", "-c", server]);
    let address = text(&["port", "work", "8000"]);
    let answer = wait_for("the answer of the server", || {
        let mut answer = String::new();
        TcpStream::connect(address.trim()).ok()?.read_to_string(&mut answer).ok()?;
        (!answer.is_empty()).then_some(answer)
    });
    assert_eq!(answer, "from the machine");
    text(&["port", "work", "8000", "--close"]);
    assert!(TcpStream::connect(address.trim()).is_err());
}
