//! Many programs at once.

use std::thread;

use crate::support::Sessions;

/// The size of each output.
const BYTES: usize = 10 << 20;

#[test]
fn fifty_programs_at_once_with_ten_megabytes_each_come_back_right() {
    let Some(sessions) = Sessions::new() else { return };
    let words = ["create", "--name", "one", "--max-output", "16m", "--timeout", "10m"];
    sessions.text(&[&words[..], &["--pids", "512"]].concat());
    thread::scope(|scope| {
        let programs: Vec<_> = (0..50)
            .map(|number| {
                let sessions = &sessions;
                scope.spawn(move || {
                    let script = format!("yes {number:07} | head -c {BYTES}; echo {number} >&2");
                    (number, sessions.sh("one", &script))
                })
            })
            .collect();
        for program in programs {
            let (number, run) = program.join().unwrap();
            assert_eq!((run.code, run.bytes.len()), (0, BYTES), "{number}: {}", run.stderr);
            let line = format!("{number:07}\n");
            let is_right = run.bytes.chunks(8).all(|chunk| chunk == line.as_bytes());
            assert!(is_right, "{number}: another program's output");
            assert_eq!(run.stderr, format!("{number}\n"));
        }
    });
    assert_eq!(sessions.json(&["inspect", "one"])[0]["executions"], 50);
}
