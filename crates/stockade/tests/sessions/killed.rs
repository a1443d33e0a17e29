//! Nothing that was reported is lost, and nothing half-made is seen, whatever is killed when.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::support::{Sessions, kill, start, wait_for_end};

/// Different numbers in every round, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

#[test]
fn interrupted_apply_leaves_the_old_or_the_new_file() {
    const BYTES: usize = 300_000;
    const FILES: usize = 40;
    let Some(sessions) = Sessions::new() else { return };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (old, new) = (vec![b'o'; BYTES], vec![b'n'; BYTES]);
    let mut interrupted = 0;
    for round in 0..20 {
        let project = sessions.place.path().join(format!("project-{round}"));
        fs::create_dir(&project).unwrap();
        for number in 0..FILES {
            fs::write(project.join(format!("f{number}")), &old).unwrap();
        }
        let name = format!("s{round}");
        let workspace = project.to_str().unwrap();
        sessions.text(&["create", "--name", &name, "--workspace", workspace]);
        assert_eq!(sessions.sh(&name, "sed -i s/o/n/g f*").code, 0);
        sessions.text(&["checkpoint", &name, "edited"]);
        let source = format!("{name}/edited");
        let mut client = start(&mut sessions.command(&["apply", &source]));
        // Half of the kills come after the first file, however slow this host is.
        if round % 2 == 1 {
            crate::support::wait_for("a file is written", || {
                (fs::read(project.join("f0")).unwrap() == new).then_some(())
            });
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
        } else {
            std::thread::sleep(Duration::from_millis(5 + random.below(60)));
        }
        // Fails if it has ended.
        let _ = client.kill();
        client.wait().unwrap();
        let mut written = 0;
        for number in 0..FILES {
            let found = fs::read(project.join(format!("f{number}"))).unwrap();
            assert!(found == old || found == new, "round {round}: f{number} is half made");
            written += usize::from(found == new);
        }
        interrupted += usize::from((1..FILES).contains(&written));
        // A later call brings the rest, and nothing of the killed one is left.
        assert_eq!(sessions.run(&["apply", &source]).code, 0);
        let names = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().path());
        let names: Vec<_> = names.collect();
        assert_eq!(names.len(), FILES, "{names:?}");
        assert!(names.iter().all(|name| fs::read(name).unwrap() == new), "round {round}");
        sessions.text(&["rm", "-f", &name]);
    }
    assert!(interrupted > 0, "no kill came between the first and the last file");
}

#[test]
fn hundred_kills_lose_nothing_and_show_nothing_half_made() {
    let Some(sessions) = Sessions::new() else { return };
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    sessions.create("base");
    let fill = "for i in $(seq 60); do head -c 30000 /dev/urandom > f$i; done";
    assert_eq!(sessions.sh("base", fill).code, 0);
    sessions.text(&["checkpoint", "base", "kept"]);
    let sums = sessions.sh("base", "md5sum f*").stdout;
    let mut made = BTreeSet::from(["base/kept".to_owned()]);
    let mut maybe = BTreeSet::new();
    let target = sessions.place.path().join("target");
    fs::create_dir(&target).unwrap();
    let applied = ["apply", "base/kept", "--to", target.to_str().unwrap()];
    let mut counts = [0; 4];
    // Adapts to this host, so that about half of the kills of each kind come in time.
    let mut longest = [60_000_u64; 4];
    for round in 0..100_u64 {
        let kind = (round % 4) as usize;
        let pause = Duration::from_micros(random.below(longest[kind]));
        let done_before = counts[kind];
        match kind {
            // The supervisor makes checkpoints and restores.
            0 | 1 => {
                let victim = sessions.text(&["fork", "base", "--from", "kept"]);
                let victim = victim.trim();
                let name = format!("c{round}");
                let words: [&str; 3] = match kind {
                    0 => ["checkpoint", victim, &name],
                    _ => ["restore", victim, "base/kept"],
                };
                if kind == 0 {
                    assert_eq!(sessions.sh(victim, "head -c 2000000 /dev/urandom > own").code, 0);
                }
                let supervisor = sessions.supervisor(victim);
                let client = start(&mut sessions.command(&words));
                std::thread::sleep(pause);
                kill(supervisor);
                let is_done = client.wait_with_output().unwrap().status.success();
                wait_for_end(supervisor);
                counts[kind] += usize::from(is_done);
                if kind == 0 {
                    let reference = format!("{victim}/{name}");
                    maybe.insert(reference.clone());
                    if is_done {
                        made.insert(reference);
                    }
                }
            }
            2 => {
                let mut client = start(&mut sessions.command(&applied));
                std::thread::sleep(pause);
                // Fails if it has ended.
                let _ = client.kill();
                counts[kind] += usize::from(client.wait().unwrap().success());
                for entry in fs::read_dir(&target).unwrap() {
                    let entry = entry.unwrap();
                    let name = entry.file_name().into_string().unwrap();
                    let is_whole = entry.metadata().unwrap().len() == 30_000;
                    assert!(is_whole || name.starts_with(".stockade-apply-"), "{name}");
                }
                if round % 8 == 2 {
                    assert_eq!(sessions.run(&applied).code, 0);
                    let names = fs::read_dir(&target).unwrap().count();
                    assert_eq!(names, 60, "a later call removes what a killed one left");
                }
                fs::remove_dir_all(&target).unwrap();
                fs::create_dir(&target).unwrap();
            }
            _ => {
                if let Some(gone) = made.iter().find(|it| !it.starts_with("base/")).cloned() {
                    sessions.text(&["checkpoint", "rm", &gone]);
                    made.remove(&gone);
                    maybe.remove(&gone);
                }
                let mut client = start(&mut sessions.command(&["store", "gc"]));
                std::thread::sleep(pause);
                let _ = client.kill();
                counts[kind] += usize::from(client.wait().unwrap().success());
            }
        }
        longest[kind] = match counts[kind] > done_before {
            true => (longest[kind] * 3 / 4).max(100),
            false => (longest[kind] * 4 / 3).min(1_000_000),
        };
        let listed: BTreeSet<String> =
            sessions.text(&["checkpoints", "-q"]).lines().map(str::to_owned).collect();
        assert!(made.is_subset(&listed), "round {round}: lost {:?}", made.difference(&listed));
        let unknown = listed.iter().find(|it| !made.contains(*it) && !maybe.contains(*it));
        assert_eq!(unknown, None, "round {round}");
        if round % 5 == 0 || round == 99 {
            let verified = sessions.json(&["store", "verify"]);
            assert_eq!(verified["problems"], serde_json::json!([]), "round {round}");
        }
    }
    assert!(counts.iter().all(|done| *done < 25), "some were killed in time: {counts:?}");
    sessions.text(&["restore", "base", "kept"]);
    assert_eq!(sessions.sh("base", "md5sum f*").stdout, sums);
    sessions.text(&["store", "gc"]);
    assert_eq!(sessions.json(&["store", "verify"])["problems"], serde_json::json!([]));
    assert_eq!(fs::read_dir(sessions.store().join("new")).unwrap().count(), 0);
}

#[test]
fn killed_diff_leaves_its_checkpoint_only_until_the_next_sweep() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    assert_eq!(sessions.sh("work", "seq 100000 > file").code, 0);
    // More than a pipe takes, so that it waits for its reader.
    let mut diff = sessions.start(&["diff", "work"]);
    let made = || -> Vec<String> {
        sessions.text(&["checkpoints", "-q"]).lines().map(str::to_owned).collect()
    };
    let left = crate::support::wait_for("diff makes its checkpoint", || {
        Some(made()).filter(|made| !made.is_empty())
    });
    assert!(left.len() == 1 && left[0].starts_with("work/look-"), "{left:?}");
    // One that is used stays.
    sessions.text(&["checkpoint", "work", "mine"]);
    sessions.text(&[
        "apply",
        "work",
        "--dry-run",
        "--to",
        &sessions.place.path().to_string_lossy(),
    ]);
    assert_eq!(made().len(), 2);
    diff.kill().unwrap();
    diff.wait().unwrap();
    assert_eq!(made().len(), 2);
    sessions.text(&["store", "gc"]);
    assert_eq!(made(), ["work/mine"]);
}
