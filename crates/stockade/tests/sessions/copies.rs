//! `stockade cp` in both directions.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::support::{Sessions, finish_with};

#[test]
fn files_and_trees_are_copied_in_and_out_as_docker_does() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let place = sessions.place.path();
    let host = |name: &str| place.join(name).display().to_string();
    fs::create_dir_all(place.join("src/sub")).unwrap();
    fs::write(place.join("src/run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(place.join("src/run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(place.join("src/sub/data"), "data").unwrap();
    sessions.text(&["cp", &host("src"), "one:"]);
    assert_eq!(sessions.sh("one", "src/run; cat src/sub/data").text(), "ran\ndata");
    sessions.text(&["cp", &host("src"), "one:/tmp/copy"]);
    sessions.text(&["cp", &host("src/."), "one:/tmp/copy/sub"]);
    sessions.text(&["cp", &host("src/run"), "one:/tmp/copy/other"]);
    let found = "run\nother\nrun\nsub\nsub/data\nsub/run\nsub/sub\nsub/sub/data\n";
    let listed = sessions.sh("one", "cd /tmp/copy; find . -mindepth 1 | sed 's,^./,,' | sort");
    assert_eq!(listed.text(), found.trim_start_matches("run\n"));
    sessions.sh("one", "mkdir out; echo result > out/file; ln -s /etc out/link; mkfifo out/pipe");
    let run = sessions.run(&["cp", "one:out", &host("copied")]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("left out 1 entries"), "{run:?}");
    assert!(run.stderr.contains("out/link: the link leads out of the directory"), "{run:?}");
    assert_eq!(fs::read(place.join("copied/file")).unwrap(), b"result\n");
    assert_eq!(fs::read_dir(place.join("copied")).unwrap().count(), 1);
    sessions.text(&["cp", "one:out", &host("copied")]);
    assert!(place.join("copied/out/file").exists());
    sessions.text(&["cp", "one:out/.", &host("copied/out")]);
    sessions.text(&["cp", "one:out/file", &host("renamed")]);
    assert_eq!(fs::read(place.join("renamed")).unwrap(), b"result\n");
    let counted = sessions.json(&["cp", "one:out/file", &host("renamed")]);
    assert_eq!(counted, json!({ "bytes": 7, "left_out": 0 }));
}

#[test]
fn archive_passes_through_standard_input_and_output() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.sh("one", "mkdir a; echo content > a/file");
    let archive = sessions.place.path().join("a.tar");
    let mut out = sessions.command(&["cp", "one:a", "-"]);
    out.stdout(fs::File::create(&archive).unwrap());
    assert!(out.status().unwrap().success());
    let bytes = fs::read(&archive).unwrap();
    let run = finish_with(sessions.command(&["cp", "-", "one:/tmp/new"]), &bytes);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(sessions.sh("one", "cat /tmp/new/a/file").text(), "content\n");
}

#[test]
fn impossible_copies_are_refused_with_a_remedy_and_never_follow_a_link_of_the_host() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let place = sessions.place.path();
    let host = |name: &str| place.join(name).display().to_string();
    sessions.sh("one", "mkdir -p d/e; echo bad > d/e/canary; echo x > f; mkfifo pipe");
    sessions.refused(&["cp", "a", "b"], "exactly one of the two", "SESSION:PATH");
    sessions.refused(&["cp", "one:none", &host("x")], "no such file", "exec one");
    sessions.refused(&["cp", &host("none"), "one:x"], "No such file", "exists");
    sessions.refused(&["cp", "one:f", &host("x/")], "no such directory", "slash");
    sessions.refused(&["cp", "one:pipe", &host("x")], "device, FIFO or socket", "");
    sessions.refused(&["cp", "one:../f", &host("x")], "`..`", "");
    fs::create_dir_all(place.join("target/d")).unwrap();
    fs::create_dir(place.join("outside")).unwrap();
    fs::write(place.join("outside/canary"), "safe").unwrap();
    symlink(place.join("outside"), place.join("target/d/e")).unwrap();
    sessions.refused(&["cp", "one:d", &host("target")], "the archive is refused", "");
    assert_eq!(fs::read(place.join("outside/canary")).unwrap(), b"safe");
}
