//! What a fork gets from its session, and what it does not.

use std::fs;

use crate::support::Sessions;

/// The rights, mounts and limits of a program.
pub(crate) const POSTURE: &str = "id -u; cat /proc/self/status | grep -E 'Cap|NoNewPrivs|Seccomp:'; \
     cat /proc/mounts | cut -d' ' -f2-4 | sed -E 's/[ug]id=[0-9]*//g' | sort; ulimit -a";

#[test]
fn fork_has_the_tools_of_its_session_and_calls_them() {
    let Some(sessions) = Sessions::new() else { return };
    let count = "import json, sys\nprint(len(json.load(sys.stdin)['text'].split()))";
    sessions.place.file("count.py", count);
    let text = "tools:\n  - name: word_count\n    description: Counts words.\n    \
                command: [python3, ./count.py]\n    input_schema:\n      type: object\n      \
                properties: {text: {type: string}}\n      required: [text]\n";
    let tools = sessions.place.file("tools.yaml", text);
    sessions.text(&["create", "--name", "work", "--tools", &tools]);
    let call = "stockade-tool word_count '{\"text\": \"to be or not\"}'";
    assert_eq!(sessions.sh("work", call).stdout, "4\n");
    sessions.text(&["checkpoint", "work", "base"]);
    // The tools are those of the checkpoint, whatever becomes of their file.
    fs::remove_file(&tools).unwrap();
    let forks = sessions.text(&["fork", "work", "-n", "2", "--from", "base"]);
    for fork in forks.lines() {
        assert_eq!(sessions.sh(fork, call).stdout, "4\n");
        assert_eq!(sessions.sh(fork, "stockade-tool --list | wc -l").stdout, "1\n");
    }
    // A session without tools has none.
    sessions.create("other");
    assert_ne!(sessions.sh("other", call).code, 0);
}

#[test]
fn posture_of_a_fork_is_that_of_its_session() {
    let Some(sessions) = Sessions::new() else { return };
    sessions
        .text(&["create", "--name", "work", "--memory", "128m", "--disk", "20m", "--pids", "50"]);
    let before = sessions.sh("work", POSTURE);
    assert!(before.code == 0 && before.stdout.contains("NoNewPrivs:\t1"), "{before:?}");
    sessions.text(&["checkpoint", "work", "first"]);
    let forks = sessions.text(&["fork", "work", "-n", "2", "--from", "first"]);
    for fork in forks.lines() {
        let after = sessions.sh(fork, POSTURE);
        assert_eq!((after.code, &after.stdout), (before.code, &before.stdout));
        let full = sessions.sh(fork, "dd if=/dev/zero of=big bs=1M count=30 2>&1");
        assert!(full.stdout.contains("No space left"), "{full:?}");
    }
    // The comparison sees a difference: another session has another limit.
    sessions.text(&["create", "--name", "wide", "--memory", "128m", "--disk", "30m"]);
    assert_ne!(sessions.sh("wide", POSTURE).stdout, before.stdout);
}

#[test]
fn forks_share_no_random_numbers() {
    let Some(sessions) = Sessions::new() else { return };
    // Every source that programs use, with the seed that the kernel gives to a new process.
    let code = "import hashlib, os, random, tempfile, uuid\n\
                seed = os.urandom(8).hex()\n\
                print(hash('seed'), random.random(), uuid.uuid4(), seed, tempfile.mktemp())\n\
                print(hashlib.sha256(open('/proc/self/auxv', 'rb').read()).hexdigest())";
    let file = sessions.place.file("seed.py", code);
    let values = |name: &str| -> Vec<String> {
        let run = sessions.run(&["code", name, &file]);
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout.split_whitespace().map(str::to_owned).collect()
    };
    sessions.create("work");
    sessions.text(&["checkpoint", "work", "base"]);
    sessions.text(&["fork", "work", "-n", "2", "--from", "base", "--name", "idea"]);
    let (one, two) = (values("idea-1"), values("idea-2"));
    assert_eq!((one.len(), two.len()), (6, 6), "{one:?} {two:?}");
    for (number, (one, two)) in one.iter().zip(&two).enumerate() {
        assert_ne!(one, two, "value {number}");
    }
    // The comparison sees equal seeds: with a fixed one the first value is the same.
    sessions.text(&["create", "--name", "fixed", "--env", "PYTHONHASHSEED=7"]);
    sessions.text(&["checkpoint", "fixed", "base"]);
    sessions.text(&["fork", "fixed", "-n", "2", "--from", "base", "--name", "same"]);
    assert_eq!(values("same-1")[0], values("same-2")[0]);
}

#[test]
fn fork_of_a_large_base_copies_none_of_it() {
    let Some(sessions) = Sessions::new() else { return };
    let project = sessions.place.path().join("project");
    fs::create_dir(&project).unwrap();
    // Real bytes, which cannot be compressed, and a hole up to a gibibyte.
    let mut file = fs::File::create(project.join("large")).unwrap();
    let mut random = fs::File::open("/dev/urandom").unwrap();
    let mut bytes = std::io::Read::take(&mut random, 64 << 20);
    std::io::copy(&mut bytes, &mut file).unwrap();
    file.set_len(1 << 30).unwrap();
    let workspace = format!("{}:overlay", project.display());
    let limits = ["--disk", "1200m", "--memory", "2g"];
    let words = ["create", "--name", "work", "--workspace", &workspace];
    sessions.text(&[&words[..], &limits].concat());
    assert_eq!(sessions.sh("work", "echo own > own").code, 0);
    sessions.text(&["checkpoint", "work", "base"]);
    let stored = || sessions.json(&["store", "ls"])["bytes"].as_u64().unwrap();
    let before = stored();
    let fork = sessions.text(&["fork", "work", "--from", "base"]);
    let fork = fork.trim();
    let sum = "head -c 67108864 large | md5sum";
    assert_eq!(sessions.sh(fork, sum).stdout, sessions.sh("work", sum).stdout);
    // What the layers over the base take, of the fork and of the session.
    let taken = |name: &str| -> u64 {
        let run = sessions.sh(name, "df -k --output=used /workspace | tail -1");
        run.stdout.trim().parse().unwrap_or_else(|error| panic!("{error}: {run:?}"))
    };
    assert!(taken(fork) < 1000 && taken("work") < 1000, "{} {}", taken(fork), taken("work"));
    assert!(before < 100_000 && stored() == before, "{before} {}", stored());
    // Both measures see a copy: a program that opens the file for writing makes one.
    assert_eq!(sessions.sh(fork, ": >> large; echo more >> large").code, 0);
    assert!(taken(fork) >= 64 << 10, "{}", taken(fork));
    sessions.text(&["checkpoint", fork, "copied"]);
    assert!(stored() >= 64 << 20, "{}", stored());
}

#[test]
fn store_is_used_by_several_processes_at_once() {
    let Some(sessions) = Sessions::new() else { return };
    let names = ["one", "two", "three", "four"];
    for name in names {
        sessions.create(name);
        // Half of it is the same everywhere, half is its own.
        let fill = format!("seq 200000 > same; seq 200000 | sed s/^/{name}/ > own");
        assert_eq!(sessions.sh(name, &fill).code, 0);
    }
    let mut expected: Vec<String> = Vec::new();
    for round in 0..6 {
        let checkpoint = format!("c{round}");
        let mut running: Vec<_> = names
            .iter()
            .map(|name| sessions.start(&["checkpoint", name, &checkpoint]))
            .chain([sessions.start(&["store", "gc"]), sessions.start(&["store", "verify"])])
            .collect();
        if round % 2 == 1 {
            running.push(sessions.start(&["checkpoint", "rm", &expected.remove(0)]));
        }
        for child in running {
            let run = crate::support::ended(child);
            assert_eq!(run.code, 0, "round {round}: {run:?}");
        }
        for name in names {
            assert_eq!(sessions.sh(name, &format!("echo {round} >> own")).code, 0);
            expected.push(format!("{name}/{checkpoint}"));
        }
    }
    let listed = sessions.text(&["checkpoints", "-q"]);
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(sessions.json(&["store", "verify"])["problems"], serde_json::json!([]));
    for name in names {
        let last = sessions.sh(name, "md5sum own").stdout;
        sessions.text(&["restore", name, "c5"]);
        let restored = sessions.sh(name, "echo 5 >> own; md5sum own").stdout;
        assert_eq!(restored, last, "{name}");
    }
}
