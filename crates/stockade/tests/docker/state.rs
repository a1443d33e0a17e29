//! Checkpoints of sessions in containers.

use stockade_testing::Scratch;

use crate::support::{Run, finish, stockade, tests};

tests![files_in_a_container_come_back_through_a_file_entry_by_entry];

/// The sessions of one test; dropping it ends them.
pub(crate) struct Sessions(Scratch);

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions(Scratch::new())
    }

    /// Creates a session in a container.
    #[track_caller]
    pub(crate) fn create(&self, name: &str, runtime: &str, flags: &[&str]) {
        let create = ["create", "--name", name, "--provider", "docker", "--runtime", runtime];
        assert_eq!(self.text(&[&create[..], flags].concat()), format!("{name}\n"));
    }

    pub(crate) fn run(&self, words: &[&str]) -> Run {
        let mut command = stockade();
        command.env("STOCKADE_STATE", self.0.path().join("state"));
        command.env("STOCKADE_STORE", self.0.path().join("store"));
        command.env("XDG_STATE_HOME", self.0.path().join("records"));
        finish(command.args(words))
    }

    #[track_caller]
    pub(crate) fn text(&self, words: &[&str]) -> String {
        self.run(words).text().to_owned()
    }

    #[track_caller]
    fn python(&self, name: &str, code: &str) -> String {
        self.text(&["exec", name, "--", "python3", "-c", code])
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for name in self.run(&["ls", "-q"]).stdout.lines() {
            self.run(&["rm", "-f", name]);
        }
    }
}

fn files_in_a_container_come_back_through_a_file_entry_by_entry(runtime: &'static str) {
    const LIST: &str = include_str!("../every-entry/list.py");
    let sessions = Sessions::new();
    sessions.create("work", runtime, &[]);
    sessions.python("work", include_str!("../every-entry/make.py"));
    let before = sessions.python("work", LIST);
    assert!(before.lines().count() > 14, "{before}");
    // Even if the copy comes before the program's first step.
    sessions.text(&["exec", "work", "--", "sh", "-c", "echo 0 > /run/a; echo 0 > /run/b"]);
    // A program that runs is stopped during the copy, and goes on.
    let busy = "i=0; while true; do i=$((i+1)); echo $i > /run/a; echo $i > /run/b; done";
    let busy = sessions.text(&["exec", "-d", "work", "--", "sh", "-c", busy]);
    sessions.text(&["checkpoint", "work", "first"]);
    let number = || sessions.text(&["exec", "work", "--", "cat", "/run/a"]);
    // On gVisor no second program starts while one runs, with or without a checkpoint.
    if runtime == "runc" {
        let then = number();
        stockade_testing::wait_for("the program goes on", || (number() != then).then_some(()));
    }
    sessions.text(&["kill", "work", busy.trim()]);
    let parcel = sessions.0.path().join("first.tar.zst");
    let parcel = parcel.to_str().expect("it is text");
    sessions.text(&["export", "work/first", parcel]);
    sessions.text(&["checkpoint", "rm", "work/first"]);
    sessions.text(&["store", "gc"]);
    sessions.text(&["import", parcel]);
    let broken = "chmod -R u+rwx .; rm -rf ./* /tmp/* /dev/shm/*; echo new > file; mkdir run";
    sessions.text(&["exec", "work", "--", "sh", "-c", broken]);
    sessions.text(&["restore", "--force", "work", "first"]);
    assert_eq!(sessions.python("work", LIST), before);
    let both = sessions.text(&["exec", "work", "--", "cat", "/run/a", "/run/b"]);
    let numbers: Vec<u64> = both.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.len() < 2 || numbers[0] - numbers[1] <= 1, "{both}");
    let fork = sessions.text(&["fork", "work", "--from", "first", "--trust-import"]);
    assert_eq!(sessions.python(fork.trim(), LIST), before);
}
