//! Files of the host as copies, sessions, and tools.

use std::fs;

use crate::support::{Scratch, Sessions, examples, finish, run, stockade, tests};

tests![
    mounted_files_are_read_only_copies_and_an_overlay_keeps_its_changes,
    session_keeps_its_files_and_copies_them_in_and_out,
    tools_of_the_host_are_called_from_inside,
];

fn mounted_files_are_read_only_copies_and_an_overlay_keeps_its_changes() {
    let place = Scratch::new();
    let data = place.path().join("data");
    fs::create_dir(&data).expect("files of the test can be used");
    fs::write(data.join("file"), "content\n").expect("files of the test can be used");
    let shown = data.display();
    let (mount, one) = (format!("{shown}:/data"), format!("{shown}/file:/one"));
    let workspace = format!("{shown}:overlay");
    let flags = ["--mount", &mount, "--mount", &one, "--workspace", &workspace];
    let script = "cat /data/file /one file; echo more > file && cat file; \
                  touch /data/new /data/file /one || echo refused";
    let run = run(&flags, &["--", "sh", "-c", script]);
    assert_eq!(run.text(), "content\ncontent\ncontent\nmore\nrefused\n", "{run:?}");
    assert_eq!(
        fs::read_to_string(data.join("file")).expect("files of the test can be used"),
        "content\n"
    );
    assert_eq!(fs::read_dir(&data).expect("files of the test can be used").count(), 1);
}

fn session_keeps_its_files_and_copies_them_in_and_out() {
    let sessions = Sessions::new();
    let created = sessions.run(&["create", "--provider", "qemu", "--name", "machine"]);
    assert_eq!(created.text(), "machine\n");
    let exec = |script: &str| sessions.run(&["exec", "machine", "--", "sh", "-c", script]);
    assert_eq!(exec("echo one > kept; sleep 600 & echo $?").text(), "0\n");
    assert_eq!(exec("cat kept").text(), "one\n");
    assert_eq!(exec("exit 7").code, 7);
    let file = sessions.0.path().join("file");
    fs::write(&file, "from the host\n").expect("files of the test can be used");
    let file = file.display().to_string();
    assert_eq!(sessions.run(&["cp", &file, "machine:/workspace/up"]).code, 0);
    assert_eq!(exec("cat up").text(), "from the host\n");
    let down = sessions.0.path().join("down");
    let to = down.display().to_string();
    assert_eq!(sessions.run(&["cp", "machine:/workspace/kept", &to]).code, 0);
    assert_eq!(fs::read_to_string(down).expect("files of the test can be used"), "one\n");
    assert_eq!(sessions.run(&["rm", "machine"]).code, 0);
}

fn tools_of_the_host_are_called_from_inside() {
    let folder = examples().join("tools");
    let mut command =
        stockade(&["run", "--provider", "qemu", "--no-record", "--tools", "tools.yaml"]);
    let run = finish(command.arg("agent.sh").current_dir(folder));
    assert!(run.text().starts_with("2 notes on walls\n"), "{run:?}");
}
