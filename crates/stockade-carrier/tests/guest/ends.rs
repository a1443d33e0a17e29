//! How programs and the guest end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use stockade_provider::ProcessEnd;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::time::timeout;

use crate::support::{Guest, LIMIT, Outcome, Transport, command, run, run_alone, shell};

#[tokio::test]
async fn exit_code_and_signal_are_those_of_the_program() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        for code in [0, 1, 42, 255] {
            let ended = run(&link, &shell(&format!("exit {code}")), b"").await;
            assert_eq!(ended, Outcome::exited(code, "", ""));
        }
        let killed = run(&link, &shell("kill -TERM $$"), b"").await;
        assert_eq!(killed.end, ProcessEnd::Signaled { signal: 15 });
    }
}

#[tokio::test]
async fn leftover_process_that_holds_the_output_is_killed_and_the_end_is_reported() {
    let begun = Instant::now();
    let ended = run_alone(&shell("sleep 1000 & sleep 1000 & echo parent"), b"").await;
    assert_eq!(ended, Outcome::exited(0, "parent\n", ""));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn end_is_reported_before_the_output_is_read_and_the_output_stays_readable() {
    for transport in Transport::BOTH {
        const BYTES: usize = 300_000;
        let (_guest, link) = Guest::linked(transport);
        let script = format!("head -c {BYTES} /dev/zero; exit 3");
        let mut running = link.execute(shell(&script)).unwrap().1;
        let end = timeout(LIMIT, running.end).await.expect("the end waits for no reader").unwrap();
        assert_eq!(end, ProcessEnd::Exited { code: 3 });
        // The next program can start although the output of the first is unread.
        let next = run(&link, &shell("echo next"), b"").await;
        assert_eq!(next, Outcome::exited(0, "next\n", ""));
        let mut output = Vec::new();
        timeout(LIMIT, running.stdout.read_to_end(&mut output)).await.unwrap().unwrap();
        assert_eq!(output.len(), BYTES);
    }
}

#[tokio::test]
async fn first_process_of_a_namespace_kills_processes_that_left_the_session() {
    let Some((mut guest, link)) = Guest::linked_as_first_process() else { return };
    assert_eq!(link.hello().await.unwrap().pid, 1);
    let escape = shell("setsid sh -c 'setsid sleep 1000 & sleep 1000' & echo parent");
    for _ in 0..3 {
        assert_eq!(run(&link, &escape, b"").await, Outcome::exited(0, "parent\n", ""));
    }
    drop(link);
    assert_eq!(guest.exit(Duration::from_secs(1)).await, Some(0));
}

#[tokio::test]
async fn guest_and_its_programs_end_within_a_second_of_the_host() {
    for transport in Transport::BOTH {
        let (mut guest, link) = Guest::linked(transport);
        let mut running = link.execute(shell("echo $$; exec sleep 1000")).unwrap().1;
        let mut line = String::new();
        BufReader::new(&mut running.stdout).read_line(&mut line).await.unwrap();
        let program = PathBuf::from(format!("/proc/{}", line.trim()));
        assert!(program.exists());
        drop(link);
        assert_eq!(guest.exit(Duration::from_secs(1)).await, Some(0));
        let deadline = Instant::now() + Duration::from_secs(1);
        // Its new parent reaps it, at an unknown time.
        while std::fs::read_to_string(program.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
        {
            assert!(Instant::now() < deadline, "the program outlived its guest");
            tokio::task::yield_now().await;
        }
        let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
        assert_eq!(end, ProcessEnd::SandboxEnded { signal: None });
    }
}

#[tokio::test]
async fn death_of_the_guest_is_the_end_of_the_sandbox() {
    for transport in Transport::BOTH {
        let (mut guest, link) = Guest::linked(transport);
        let mut running = link.execute(shell("echo ready; exec cat")).unwrap().1;
        let mut ready = [0; 6];
        running.stdout.read_exact(&mut ready).await.unwrap();
        guest.process.kill().unwrap();
        let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
        assert_eq!(end, ProcessEnd::SandboxEnded { signal: None });
        assert!(link.execute(command(&["true"])).is_err());
    }
}

#[tokio::test]
async fn paused_program_stops_until_it_is_resumed() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let mut running = link.execute(shell("echo $$; exec cat /dev/zero")).unwrap().1;
        let mut pid = Vec::new();
        while pid.last() != Some(&b'\n') {
            pid.push(running.stdout.read_u8().await.unwrap());
        }
        let pid = String::from_utf8(pid).unwrap();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next().unwrap()
        };
        link.pause().unwrap();
        timeout(LIMIT, async {
            while state() != 'T' {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap();
        link.resume().unwrap();
        timeout(LIMIT, async {
            while state() == 'T' {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn hundred_programs_run_one_after_the_other_in_one_guest() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        for index in 0..100 {
            let ended = run(&link, &shell(&format!("echo {index}")), b"").await;
            assert_eq!(ended, Outcome::exited(0, &format!("{index}\n"), ""));
        }
    }
}
