//! Checkpoints, restores and forks of sessions.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;

use crate::forks::POSTURE;
use crate::support::{Sessions, is_root, not_run};

/// Makes a tree with every kind of entry below the working directory.
const MAKE: &str = include_str!("../every-entry/make.py");

/// Prints every entry with everything that a checkpoint keeps.
const LIST: &str = include_str!("../every-entry/list.py");

fn python(sessions: &Sessions, name: &str, code: &str) -> String {
    let run = sessions.run(&["exec", name, "--", "python3", "-c", code]);
    assert_eq!(run.code, 0, "{run:?}");
    run.stdout
}

#[test]
fn session_comes_back_to_a_checkpoint_with_every_kind_of_entry() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    python(&sessions, "work", MAKE);
    let before = python(&sessions, "work", LIST);
    assert!(before.lines().count() > 14, "{before}");
    let made = sessions.json(&["checkpoint", "work", "first"]);
    assert_eq!(made["reference"], "work/first");
    assert!(made["paused_us"].as_u64().unwrap() > 0, "{made}");
    assert!(made["bytes"].as_u64().unwrap() < 1 << 20, "holes are not kept: {made}");
    let broken = "chmod -R u+rwx .; rm -rf ./* /tmp/* /dev/shm/*; echo new > file; mkdir run";
    assert_eq!(sessions.sh("work", broken).code, 0);
    assert_ne!(python(&sessions, "work", "import os; print(os.listdir())"), before);
    assert_eq!(sessions.text(&["restore", "work", "first"]), "work\n");
    assert_eq!(python(&sessions, "work", LIST), before);
    assert_eq!(sessions.text(&["checkpoints", "-q"]), "work/first\n");
    assert_eq!(sessions.text(&["checkpoints", "-q", "other"]), "");
    // Through a file, into an empty store.
    let parcel = sessions.place.path().join("first.tar.zst");
    sessions.text(&["export", "work/first", parcel.to_str().unwrap()]);
    sessions.text(&["checkpoint", "rm", "work/first"]);
    sessions.text(&["store", "gc"]);
    sessions.text(&["import", parcel.to_str().unwrap()]);
    assert_eq!(sessions.sh("work", broken).code, 0);
    sessions.text(&["restore", "work", "first"]);
    assert_eq!(python(&sessions, "work", LIST), before);
    // By the whole reference too, and after more work.
    assert_eq!(sessions.sh("work", "rm -f file; echo more > more").code, 0);
    sessions.text(&["restore", "work", "work/first"]);
    assert_eq!(python(&sessions, "work", LIST), before);
    assert_eq!(sessions.json(&["store", "verify"])["problems"], serde_json::json!([]));
    assert_eq!(sessions.text(&["checkpoint", "rm", "work/first"]), "work/first\n");
    sessions.text(&["store", "gc"]);
    assert_eq!(sessions.json(&["store", "ls"])["bytes"], 0);
}

#[test]
fn overlay_keeps_only_what_changed_and_comes_back() {
    let Some(sessions) = Sessions::new() else { return };
    let project = sessions.place.path().join("project");
    fs::create_dir_all(project.join("sub/inner")).unwrap();
    for name in ["kept", "changed", "deleted", "sub/gone", "sub/inner/deep"] {
        fs::write(project.join(name), name.repeat(1000)).unwrap();
    }
    fs::File::create(project.join("large")).unwrap().set_len(1 << 30).unwrap();
    let workspace = format!("{}:overlay", project.display());
    sessions.text(&["create", "--name", "work", "--workspace", &workspace]);
    let script = "echo new > changed; rm deleted; rm -rf sub; mkdir sub; echo own > sub/own; echo add > added";
    assert_eq!(sessions.sh("work", script).code, 0);
    let made = sessions.json(&["checkpoint", "work", "edited"]);
    assert!(made["entries"].as_u64().unwrap() < 12, "only changes: {made}");
    let list = "find . | sort; cat changed sub/own added";
    let before = sessions.sh("work", list).stdout;
    assert_eq!(sessions.text(&["discard", "work"]), "work\n");
    let fresh = sessions.sh("work", "find . | sort; cat deleted");
    assert!(fresh.stdout.contains("./sub/inner/deep"), "{fresh:?}");
    sessions.text(&["restore", "work", "edited"]);
    assert_eq!(sessions.sh("work", list).stdout, before);
    // A fork shows the base, and the store has none of its gibibyte.
    let fork = sessions.text(&["fork", "work", "--from", "edited", "--name", "fork"]);
    assert_eq!(sessions.sh(fork.trim(), list).stdout, before);
    assert_eq!(sessions.sh(fork.trim(), "stat -c %s large").stdout, "1073741824\n");
    assert!(sessions.json(&["store", "ls"])["bytes"].as_u64().unwrap() < 100_000);
    let again = sessions.json(&["checkpoint", "work", "again"]);
    assert_eq!(again["entries"], made["entries"], "a restored overlay has the same changes");
    assert_eq!(fs::read_to_string(project.join("changed")).unwrap(), "changed".repeat(1000));
}

#[test]
fn forks_share_nothing_that_can_be_written() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "work", "--env", "COLOUR=blue", "--memory", "256m"]);
    assert_eq!(sessions.sh("work", "echo base > file").code, 0);
    sessions.text(&["checkpoint", "work", "base"]);
    let names = sessions.text(&["fork", "work", "-n", "2", "--from", "base", "--name", "idea"]);
    assert_eq!(names, "idea-1\nidea-2\n");
    assert_eq!(sessions.sh("idea-1", "echo one > file; flock file true").code, 0);
    assert_eq!(sessions.sh("idea-2", "cat file; echo $COLOUR").stdout, "base\nblue\n");
    assert_eq!(sessions.sh("work", "cat file").stdout, "base\n");
    // A lock and a socket of one are nothing to the other, and each has its own ids on the host.
    let hold = "import fcntl, os, socket, time\nf = open('file'); fcntl.flock(f, fcntl.LOCK_EX)\n\
                s = socket.socket(socket.AF_UNIX); s.bind('\\0name')\nopen('held', 'w')\ntime.sleep(60)";
    sessions.text(&["exec", "-d", "idea-1", "--", "python3", "-c", hold]);
    crate::support::wait_for("the lock is held", || {
        (sessions.sh("idea-1", "ls held").code == 0).then_some(())
    });
    let reach = "import socket\nsocket.socket(socket.AF_UNIX).bind('\\0name')";
    let tried = ["flock -n file true", &format!("python3 -c \"{reach}\"")].map(str::to_owned);
    for words in &tried {
        assert_ne!(sessions.sh("idea-1", words).code, 0, "{words} fails next to the holder");
        assert_eq!(sessions.sh("idea-2", words).code, 0, "{words}");
    }
    sessions.text(&["kill", "idea-1"]);
    if is_root() {
        let ids = |name: &str| sessions.sh(name, "cat /proc/self/uid_map").stdout;
        assert_ne!(ids("idea-1"), ids("idea-2"));
    }
    let view = |name: &str| sessions.json(&["inspect", name])[0].clone();
    let (first, second) = (view("work"), view("idea-1"));
    for field in ["policy_text", "provider", "isolation"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    let mechanism = |view: &serde_json::Value, control: &serde_json::Value| {
        let all = view["controls"].as_array().unwrap();
        let found = all.iter().find(|it| it["control"] == *control).unwrap();
        (found["asks"].clone(), found["mechanism"].clone(), found["precision"].clone())
    };
    for control in first["controls"].as_array().unwrap().iter().map(|it| &it["control"]) {
        assert_eq!(mechanism(&first, control), mechanism(&second, control), "{control}");
    }
    // A fork knows the checkpoints of the session that it comes from.
    sessions.text(&["restore", "idea-1", "base"]);
    assert_eq!(sessions.sh("idea-1", "cat file; echo one > file").stdout, "base\n");
    // Of a session as it is now, and of one that has ended.
    assert_eq!(sessions.sh("idea-1", "echo later > more").code, 0);
    let fork = sessions.text(&["fork", "idea-1"]);
    assert_eq!(sessions.sh(fork.trim(), "cat file more").stdout, "one\nlater\n");
    sessions.text(&["rm", "-f", "work"]);
    let late = sessions.text(&["fork", "work", "--from", "base"]);
    assert_eq!(sessions.sh(late.trim(), "cat file").stdout, "base\n");
}

#[test]
fn programs_are_frozen_during_the_copy_and_go_on() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    // Two files that every moment agree, unless a copy sees a program between them.
    let script = "i=0; while true; do i=$((i+1)); echo $i > a; echo $i > b; done";
    sessions.text(&["exec", "-d", "work", "--", "sh", "-c", script]);
    for number in 0..5 {
        sessions.text(&["checkpoint", "work", &format!("c{number}")]);
    }
    let before = sessions.sh("work", "cat a").stdout;
    crate::support::wait_for("the program goes on", || {
        (sessions.sh("work", "cat a").stdout != before).then_some(())
    });
    // Programs must have ended, or are ended.
    sessions.refused(&["restore", "work", "c0"], "programs run in the session", "--force");
    sessions.text(&["restore", "--force", "work", "c0"]);
    assert_eq!(sessions.text(&["ps", "-q", "work"]), "");
    let both = sessions.sh("work", "cat a b").stdout;
    let numbers: Vec<u64> = both.lines().map(|line| line.parse().unwrap()).collect();
    // A file may be empty: the shell truncates it before it writes.
    assert!(numbers.len() < 2 || numbers[0] - numbers[1] <= 1, "{both}");
}

#[test]
fn restore_rewrites_only_what_differs_and_leaves_every_other_file_as_it_is() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    let fill = "mkdir -p d/e; for i in $(seq 300); do echo $i > d/f$i; done; echo one > d/e/one; \
                ln d/f7 d/seven; echo shm > /dev/shm/kept; echo tmp > /tmp/kept";
    assert_eq!(sessions.sh("work", fill).code, 0);
    sessions.text(&["checkpoint", "work", "first"]);
    // The number of a file and the time of its last change, which no program can set.
    let look = "find /workspace /tmp /dev/shm -type f -printf '%p %i %C@\\n' | sort";
    let before = sessions.sh("work", look).stdout;
    let old = sessions.sh("work", "sum d/* d/e/* /tmp/kept 2>/dev/null").stdout;
    // The same length and the same time of modification.
    let change = "touch -r d/f3 time; printf 9 | dd of=d/f3 conv=notrunc 2>/dev/null; \
                  touch -r time d/f3; rm -r d/e time; echo new > d/new; rm /dev/shm/kept";
    assert_eq!(sessions.sh("work", change).code, 0);
    assert_ne!(sessions.sh("work", "cat d/f3").stdout, "3\n");
    sessions.text(&["restore", "work", "first"]);
    let after = sessions.sh("work", look).stdout;
    let is_changed = |line: &&str| !before.lines().any(|other| other == *line);
    let changed: Vec<&str> = after.lines().filter(is_changed).collect();
    let names: Vec<&str> = changed.iter().map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["/dev/shm/kept", "/workspace/d/e/one", "/workspace/d/f3"]);
    assert_eq!(before.lines().count(), after.lines().count());
    assert_eq!(sessions.sh("work", "sum d/* d/e/* /tmp/kept 2>/dev/null").stdout, old);
    // The comparison sees rewritten files: a fresh sandbox has other ones.
    sessions.text(&["discard", "work"]);
    sessions.text(&["restore", "work", "first"]);
    let fresh = sessions.sh("work", look).stdout;
    assert_eq!(fresh.lines().filter(is_changed).count(), before.lines().count());
}

#[test]
fn restored_session_has_no_process_mapping_or_open_file_from_before() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    assert_eq!(sessions.sh("work", "echo kept > file").code, 0);
    sessions.text(&["checkpoint", "work", "first"]);
    // A daemon in a session of its own writes through a mapping, which changes no time.
    let code = "import mmap, os, time\nfile = open('file', 'r+b')\nmap = mmap.mmap(file.fileno(), 0)\n\
                if os.fork() == 0:\n    os.setsid()\n    while True:\n        map[0] = 33\n        \
                time.sleep(0.001)\ntime.sleep(0.1)";
    let daemon = sessions.place.file("daemon.py", code);
    assert_eq!(sessions.run(&["code", "work", &daemon]).code, 0);
    assert_eq!(sessions.sh("work", "cat file").stdout, "!ept\n");
    sessions.text(&["restore", "work", "first"]);
    assert_eq!(sessions.sh("work", "sleep 0.05; cat file").stdout, "kept\n");
    // One that runs is ended by force.
    let running = format!("{code}\ntime.sleep(60)");
    let running = sessions.place.file("running.py", &running);
    let mut child = sessions.start(&["code", "work", &running]);
    sessions.wait_for_programs("work", 1);
    sessions.text(&["restore", "--force", "work", "first"]);
    child.wait().unwrap();
    assert_eq!(sessions.sh("work", "sleep 0.05; cat file").stdout, "kept\n");
}

#[test]
fn restore_after_shared_memory_of_system_v_leaves_none() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    assert_eq!(sessions.sh("work", "echo kept > file").code, 0);
    sessions.text(&["checkpoint", "work", "first"]);
    let count = "wc -l < /proc/sysvipc/shm; cat file";
    assert_eq!(sessions.sh("work", count).stdout, "1\nkept\n");
    let make = "import ctypes\nprint(ctypes.CDLL(None).shmget(7, 4096, 0o1600) >= 0)";
    if python(&sessions, "work", make) == "False\n" {
        return not_run("without a memory cgroup no program can make System V objects");
    }
    assert_eq!(sessions.sh("work", "echo lost > file").code, 0);
    assert_eq!(sessions.sh("work", count).stdout, "2\nlost\n");
    sessions.text(&["restore", "work", "first"]);
    assert_eq!(sessions.sh("work", count).stdout, "1\nkept\n");
}

#[test]
fn restore_that_does_not_fit_next_to_what_it_replaces_gets_a_fresh_sandbox() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "work", "--disk", "20m"]);
    let look = "ls; md5sum a";
    assert_eq!(sessions.sh("work", "head -c 15000000 /dev/urandom > a").code, 0);
    let before = sessions.sh("work", look).stdout;
    sessions.text(&["checkpoint", "work", "first"]);
    // In the order of the names the first is written before the second is removed.
    assert_eq!(sessions.sh("work", "rm a; head -c 15000000 /dev/urandom > b").code, 0);
    sessions.text(&["restore", "work", "first"]);
    assert_eq!(sessions.sh("work", look).stdout, before);
}

#[test]
fn posture_and_limits_are_those_of_the_session_after_a_restore() {
    let Some(sessions) = Sessions::new() else { return };
    sessions
        .text(&["create", "--name", "work", "--memory", "128m", "--disk", "20m", "--pids", "50"]);
    let before = sessions.sh("work", POSTURE);
    let plan = sessions.json(&["inspect", "work"])[0].clone();
    sessions.text(&["checkpoint", "work", "first"]);
    sessions.text(&["restore", "work", "first"]);
    let after = sessions.sh("work", POSTURE);
    assert_eq!((after.code, &after.stdout), (before.code, &before.stdout));
    let again = sessions.json(&["inspect", "work"])[0].clone();
    for field in ["policy_text", "controls", "created", "ttl_seconds", "name", "record"] {
        assert_eq!(plan[field], again[field], "{field}");
    }
    let full = sessions.sh("work", "dd if=/dev/zero of=big bs=1M count=30 2>&1");
    assert!(full.stdout.contains("No space left"), "{full:?}");
}

#[test]
fn processor_time_goes_on_counting_after_a_restore() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.path().join("policy.yaml");
    fs::write(&policy, "version: \"2\"\nlimits: { max_cpu_seconds: 2 }\n").unwrap();
    let created = sessions.run(&["create", "--name", "work", "--policy", policy.to_str().unwrap()]);
    assert_eq!(created.code, 0, "{created:?}");
    sessions.text(&["checkpoint", "work", "first"]);
    let burn = "import time\nwhile time.process_time() < 1.2: pass";
    python(&sessions, "work", burn);
    sessions.text(&["restore", "work", "first"]);
    let used = sessions.json(&["stats", "work"]);
    // Without a cgroup the kernel counts in ticks of 10 ms.
    assert!(used[0]["cpu_ms"].as_u64().unwrap() >= 1100, "{used}");
    let run = sessions.run(&["exec", "work", "--", "python3", "-c", burn]);
    assert_ne!(run.code, 0, "1.2 s and 1.2 s are more than 2 s: {run:?}");
}

#[test]
fn program_that_cannot_be_stopped_prevents_a_checkpoint() {
    if !is_root() {
        return not_run("only root can compare a user without cgroups");
    }
    let Some(sessions) = Sessions::new() else { return };
    let copy = sessions.place.path().join("stockade");
    fs::copy(crate::support::binary(), &copy).unwrap();
    let home = sessions.place.path().join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(65_534), Some(65_534)).unwrap();
    // Without cgroups the guest stops programs with a signal.
    let own = |words: &[&str]| {
        let mut command = std::process::Command::new(&copy);
        command.args(words).uid(65_534).gid(65_534).env("HOME", &home).current_dir("/");
        command.env("STOCKADE_STATE", home.join("state"));
        crate::support::finish(command.env("STOCKADE_STORE", home.join("store")))
    };
    assert_eq!(own(&["create", "--name", "one"]).text(), "one\n");
    // The parent of a child that has not executed its program yet waits without an interruption,
    // and the child waits until the FIFO is opened.
    let stuck = "import os\nos.mkfifo('pipe')\nopen('ready', 'w').close()\n\
                 os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, \
                 'pipe', os.O_RDONLY, 0)])\nopen('free', 'w').close()\nimport time\ntime.sleep(60)";
    assert_eq!(own(&["exec", "-d", "one", "--", "python3", "-c", stuck]).code, 0);
    let has = |name: &str| own(&["exec", "one", "--", "test", "-e", name]).code == 0;
    let waits = ["exec", "one", "--", "sh", "-c", "grep -qs '^State:.D' /proc/[0-9]*/status"];
    let is_stuck = || (has("ready") && own(&waits).code == 0).then_some(());
    crate::support::wait_for("the program is in its system call", is_stuck);
    let refused = own(&["checkpoint", "one", "first"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("stop"), "{refused:?}");
    assert_eq!(own(&["checkpoints", "-q"]).stdout, "");
    // The session goes on, and once the program can be stopped the checkpoint is made.
    assert_eq!(own(&["exec", "one", "--", "sh", "-c", ": > pipe"]).code, 0);
    crate::support::wait_for("the program goes on", || has("free").then_some(()));
    let made = own(&["checkpoint", "one", "first"]);
    assert_eq!(made.stdout, "one/first\n", "{made:?}");
    own(&["rm", "-f", "one"]);
}

#[test]
fn reduced_wall_refuses_checkpoints_by_name() {
    let Some(sessions) = Sessions::new() else { return };
    let reduced = ["--provider", "reduced", "--isolation", "reduced"];
    let mut create = sessions.command(&[&["create", "--name", "one"][..], &reduced].concat());
    // As root the sandbox has a user of its own, which cannot enter root's home.
    let created = crate::support::finish(create.env("PATH", "/usr/local/bin:/usr/bin:/bin"));
    assert_eq!(created.text(), "one\n");
    assert_eq!(sessions.sh("one", "echo text > file").code, 0);
    let message = "the reduced wall has no checkpoints: it does not keep apart what programs write";
    for words in [
        &["checkpoint", "one", "first"][..],
        &["fork", "one"],
        &["diff", "one"],
        &["export", "one", "/dev/null"],
    ] {
        sessions.refused(words, message, "native");
    }
    assert_eq!(sessions.sh("one", "cat file").stdout, "text\n");
    assert_eq!(sessions.text(&["checkpoints", "-q"]), "");
    // The same works behind the native wall.
    sessions.create("two");
    assert_eq!(sessions.text(&["checkpoint", "two", "first"]), "two/first\n");
}

#[test]
fn mistakes_are_refused_with_a_remedy() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    sessions.text(&["checkpoint", "work", "first"]);
    for (words, message, remedy) in [
        (&["checkpoint", "work", "first"][..], "work/first exists already", "checkpoint rm"),
        (&["checkpoint", "work", "../x"], "not a valid name", "letters"),
        (&["checkpoint", "other", "x"], "no session named other", "stockade ls"),
        (&["restore", "work", "second"], "no checkpoint work/second", "stockade checkpoints"),
        (&["checkpoint", "rm", "work/second"], "no checkpoint work/second", "stockade checkpoints"),
        (
            &["fork", "work", "--from", "second"],
            "no checkpoint work/second",
            "stockade checkpoints",
        ),
    ] {
        sessions.refused(words, message, remedy);
    }
    sessions.text(&["create", "--name", "other", "--memory", "300m"]);
    let other = ["restore", "other", "work/first"];
    sessions.refused(&other, "made under another policy", "--any-policy");
    // Only the files are taken; the session keeps its own limits.
    assert_eq!(sessions.sh("work", "echo kept > file").code, 0);
    sessions.text(&["checkpoint", "work", "with-file"]);
    sessions.text(&["restore", "--any-policy", "other", "work/with-file"]);
    assert_eq!(sessions.sh("other", "cat file").stdout, "kept\n");
    // Without a cgroup the watchdog sees only what is there when it looks.
    let fill = "import time; text = b'x' * (400 << 20); time.sleep(1)";
    assert_eq!(sessions.run(&["exec", "work", "--", "python3", "-c", fill]).code, 0);
    assert_ne!(sessions.run(&["exec", "other", "--", "python3", "-c", fill]).code, 0);
    sessions.text(&["checkpoint", "rm", "work/with-file"]);
    assert_eq!(sessions.sh("work", "head -c 5000000 /dev/urandom > random").code, 0);
    let mut small = sessions.command(&["checkpoint", "work", "large"]);
    let run = crate::support::finish(small.env("STOCKADE_STORE_MB", "1"));
    assert!(run.stderr.contains("more than 1048576 bytes"), "{run:?}");
    assert_eq!(sessions.text(&["checkpoints", "-q"]), "work/first\n");
    assert_eq!(sessions.sh("work", "echo still there").stdout, "still there\n");
}

#[test]
fn many_deep_and_long_names_are_kept_and_too_deep_ones_refused() {
    let Some(sessions) = Sessions::new() else { return };
    let policy = sessions.place.path().join("policy.yaml");
    let text = "version: \"2\"\ndefaults: { max_memory_mb: 1024, timeout_seconds: 120 }\n\
                limits: { max_inodes: 150000 }\n";
    fs::write(&policy, text).unwrap();
    sessions.text(&["create", "--name", "work", "--policy", policy.to_str().unwrap()]);
    let make = r#"
import os
os.mkdir('many')
for i in range(100_000): os.close(os.open(f'many/{i}', os.O_CREAT | os.O_WRONLY))
for i in range(200): os.mkdir(b'\xfe' * 255); os.chdir(b'\xfe' * 255)
open('deepest', 'w').write('here')
"#;
    python(&sessions, "work", make);
    let made = sessions.json(&["checkpoint", "work", "large"]);
    assert_eq!(made["entries"], 100_202, "{made}");
    let deep = r#"
import os
for i in range(200): os.chdir(b'\xfe' * 255)
print(open('deepest').read(), len(os.listdir('/workspace/many')))
"#;
    sessions.text(&["restore", "work", "large"]);
    assert_eq!(python(&sessions, "work", deep), "here 100000\n");
    let deeper = "import os\nfor i in range(600): os.mkdir('d'); os.chdir('d')";
    python(&sessions, "work", deeper);
    sessions.refused(&["checkpoint", "work", "deep"], "it is larger than allowed", "");
    assert_eq!(sessions.sh("work", "echo still there").stdout, "still there\n");
}

#[test]
fn restore_removes_names_of_the_wall_and_devices_that_a_program_made() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    assert_eq!(sessions.sh("one", "echo kept > /tmp/kept").code, 0);
    sessions.text(&["checkpoint", "one", "good"]);
    // The directory is the wall's own in a sandbox with tools. A whiteout needs no privilege.
    let whiteout = "import os, stat; os.mknod('/tmp/made', stat.S_IFCHR | 0o600, 0)";
    let script = format!(
        "mkdir -p /run/stockade; echo x > /run/stockade/made; python3 -c '{}'; ls -d /run/stockade/made /tmp/made",
        whiteout.replace('\'', "\"")
    );
    let made = sessions.sh("one", &script);
    let is_native = std::env::var_os("STOCKADE_TEST_PROVIDER").is_none();
    assert!(!is_native || made.stdout.contains("/run/stockade/made"), "{made:?}");
    sessions.text(&["restore", "one", "good"]);
    let left = sessions.sh("one", "cat /tmp/kept; ls -d /run/stockade/made /tmp/made");
    assert_eq!(left.stdout, "kept\n", "{left:?}");
}
