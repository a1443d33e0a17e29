//! Writable mounts: what programs write is copied to the host.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};

use crate::support::{Scratch, Sessions, command, machines, run, start, tests, wait_for};

tests![
    results_arrive_as_the_callers_files_and_removed_files_are_removed,
    hostile_links_and_special_files_stay_inside_and_the_rest_arrives,
    killed_run_leaves_nothing_in_the_directory,
    session_copies_at_the_end_of_each_program_and_keeps_what_the_host_changed,
];

fn output(place: &Scratch) -> (std::path::PathBuf, String) {
    let output = place.path().join("output");
    fs::create_dir(&output).expect("files of the test can be used");
    let mount = format!("{}:/output:rw", output.display());
    (output, mount)
}

fn results_arrive_as_the_callers_files_and_removed_files_are_removed() {
    let place = Scratch::new();
    let (output, mount) = output(&place);
    fs::create_dir(output.join("old-directory")).expect("files of the test can be used");
    for name in ["old", "old-directory/file", "changed", "kept"] {
        fs::write(output.join(name), "old\n").expect("files of the test can be used");
    }
    let inode = |name: &str| fs::metadata(output.join(name)).map(|found| found.ino()).ok();
    let kept = inode("kept");
    let script = "cat old; rm -r old old-directory; echo more >> changed; mkdir deep; \
                  echo result > deep/result; ln -s deep/result way; chmod +x deep/result; id -u";
    let ran = run(&["--mount", &mount], &["--", "sh", "-c", &format!("cd /output; {script}")]);
    assert_eq!(ran.text(), "old\n65534\n", "{ran:?}");
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap_or_default();
    assert_eq!((read("changed"), read("way")), ("old\nmore\n".to_owned(), "result\n".to_owned()));
    assert!(!output.join("old").exists() && !output.join("old-directory").exists());
    assert_eq!(inode("kept"), kept, "what no program changed is not written");
    let found = fs::metadata(output.join("deep/result")).expect("the result is there");
    let caller = fs::metadata(place.path()).expect("files of the test can be used").uid();
    assert_eq!((found.uid(), found.mode() & 0o777), (caller, 0o755));
}

fn hostile_links_and_special_files_stay_inside_and_the_rest_arrives() {
    let place = Scratch::new();
    let (output, mount) = output(&place);
    let outside = place.path().join("outside");
    fs::create_dir(&outside).expect("files of the test can be used");
    fs::write(outside.join("file"), "outside\n").expect("files of the test can be used");
    // A link of the host: the program writes through its copy, and replaces it by a file.
    symlink(outside.join("file"), output.join("link")).expect("files of the test can be used");
    let script = "cd /output; mkfifo pipe; ln -s /etc/passwd out; ln -s ../outside/file up; \
                  echo inside > link || rm link; echo inside > link; echo good > good";
    let ran = run(&["--mount", &mount], &["--", "sh", "-c", script]);
    assert_eq!(ran.code, 125, "{ran:?}");
    for part in ["/output/pipe: it is a device, FIFO or socket", "/output/out: the link leads out"]
    {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap_or_default();
    assert_eq!((read("good"), read("link")), ("good\n".to_owned(), "inside\n".to_owned()));
    for name in ["pipe", "out", "up"] {
        assert!(fs::symlink_metadata(output.join(name)).is_err(), "{name}");
    }
    let kept = fs::read_to_string(outside.join("file")).expect("files of the test can be used");
    assert_eq!(kept, "outside\n");
}

fn killed_run_leaves_nothing_in_the_directory() {
    let place = Scratch::new();
    let (output, mount) = output(&place);
    wait_for("no other machine", || (machines() == 0).then_some(()));
    let script = "echo half > /output/file; echo ready; sleep 600";
    let mut child = start(&mut command(&["--mount", &mount], &["--", "sh", "-c", script]));
    let mut line = [0; 6];
    let printed = child.stdout.as_mut().expect("the output is piped").read_exact(&mut line);
    assert!(printed.is_ok() && &line == b"ready\n", "{line:?}");
    child.kill().expect("the command is ours");
    child.wait().expect("the command is ours");
    wait_for("the end of the machine", || (machines() == 0).then_some(()));
    assert_eq!(fs::read_dir(&output).expect("files of the test can be used").count(), 0);
}

fn session_copies_at_the_end_of_each_program_and_keeps_what_the_host_changed() {
    let sessions = Sessions::new();
    let (output, mount) = output(&sessions.0);
    let text = |words: &[&str]| sessions.run(words).text().to_owned();
    let exec = |script: &str| text(&["exec", "work", "--", "sh", "-c", script]);
    text(&["create", "--provider", "qemu", "--name", "work", "--mount", &mount]);
    // A program that runs is stopped during the copy, and goes on.
    let busy = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; done";
    text(&["exec", "-d", "work", "--", "sh", "-c", busy]);
    exec("echo one > /output/one");
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap_or_default();
    assert_eq!(read("one"), "one\n");
    fs::write(output.join("one"), "host\n").expect("files of the test can be used");
    let count = exec("echo two > /output/two; cat /tmp/count");
    assert_eq!((read("one"), read("two")), ("host\n".to_owned(), "two\n".to_owned()));
    wait_for("the program goes on", || (exec("cat /tmp/count") != count).then_some(()));
    exec("rm /output/two");
    assert!(!output.join("two").exists());
}
