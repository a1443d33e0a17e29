//! Concurrent executions, and the control of each.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use stockade_provider::{Command, ErrorKind, ProcessEnd, Running, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{Guest, LIMIT, Outcome, SETTINGS, Transport, command, finish, run, shell};

/// Reads one line of a program's output.
async fn line(running: &mut Running) -> String {
    let mut line = Vec::new();
    let read = async {
        while line.last() != Some(&b'\n') {
            line.push(running.stdout.read_u8().await.unwrap());
        }
    };
    timeout(LIMIT, read).await.unwrap();
    String::from_utf8(line).unwrap().trim().to_owned()
}

/// Whether a process with this argument runs.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut words =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let named =
        |words: Vec<u8>| words.split(|byte| *byte == 0).any(|word| word == argument.as_bytes());
    words.any(named)
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn nine_executions_run_concurrently_and_the_tenth_is_refused() {
    for transport in Transport::BOTH {
        let folder = tempfile::tempdir().unwrap();
        let (_guest, link) = Guest::linked(transport);
        let mut running = Vec::new();
        for number in 0..SETTINGS.executions {
            let mut cat = command(&["sh", "-c", "cat /dev/fd/3 - 3< \"$0\"", "CODE"]);
            let path = folder.path().join(number.to_string()).display().to_string();
            cat.arguments[3] = path.clone();
            cat.code = Some((path, format!("{number}: ").into_bytes()));
            running.push(link.execute(cat).unwrap());
        }
        let ids: Vec<u64> = running.iter().map(|(control, _)| control.id()).collect();
        assert_eq!(ids, (1..=9).collect::<Vec<u64>>());
        let refused = link.execute(command(&["true"])).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert_eq!(refused.to_string(), "too many executions, at most 9");
        let inputs: Vec<String> = (0..9).map(|number| format!("input {number}")).collect();
        let all = running.into_iter().zip(&inputs);
        let ended = join_all(all.map(|((_, one), input)| finish(one, input.as_bytes()))).await;
        for (number, outcome) in ended.into_iter().enumerate() {
            assert_eq!(outcome, Outcome::exited(0, &format!("{number}: input {number}"), ""));
        }
        assert_eq!(run(&link, &shell("echo next"), b"").await, Outcome::exited(0, "next\n", ""));
    }
}

#[tokio::test]
async fn end_of_one_execution_leaves_the_others_running() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let (_, other) = link.execute(command(&["cat"])).unwrap();
        for _ in 0..3 {
            let ended = run(&link, &shell("sleep 1000 & exit 5"), b"").await;
            assert_eq!(ended, Outcome::exited(5, "", ""));
        }
        assert_eq!(finish(other, b"still here").await, Outcome::exited(0, "still here", ""));
    }
}

#[tokio::test]
async fn group_dies_with_its_execution_and_other_processes_with_the_last() {
    let Some((_guest, link)) = Guest::linked_as_first_process() else { return };
    let (_, mut other) = link.execute(shell("echo ready; exec cat")).unwrap();
    assert_eq!(line(&mut other).await, "ready");
    let escape = "sleep 98761 & setsid sh -c 'echo out; exec sleep 98762' & read line";
    let (control, mut running) = link.execute(shell(escape)).unwrap();
    assert_eq!(line(&mut running).await, "out");
    timeout(LIMIT, until(|| runs("98761") && runs("98762"))).await.unwrap();
    control.kill().unwrap();
    let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
    assert_eq!(end, ProcessEnd::Signaled { signal: 9 });
    assert!(!runs("98761") && runs("98762"), "what left its group stays while another runs");
    assert_eq!(finish(other, b"x").await, Outcome::exited(0, "x", ""));
    assert!(!runs("98762"));
}

#[tokio::test]
async fn signal_and_kill_reach_the_execution_they_name() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let trap = "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.01; done";
        let (first, mut one) = link.execute(shell(trap)).unwrap();
        let (second, mut two) = link.execute(shell("echo ready; exec sleep 1000")).unwrap();
        assert_eq!((line(&mut one).await, line(&mut two).await), ("ready".into(), "ready".into()));
        first.signal(10).unwrap();
        assert_eq!(finish(one, b"").await, Outcome::exited(7, "caught\n", ""));
        second.kill().unwrap();
        let killed = timeout(LIMIT, two.end).await.unwrap().unwrap();
        assert_eq!(killed, ProcessEnd::Signaled { signal: 9 });
        // Both have ended: the calls have no effect and no error.
        first.kill().unwrap();
        second.signal(15).unwrap();
        assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
        let wrong = second.signal(0).unwrap_err();
        assert_eq!(wrong.to_string(), "cannot send signal 0: signals have the numbers 1 to 31");
    }
}

#[tokio::test]
async fn kill_that_comes_before_the_start_is_delivered_after_it() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let begun = Instant::now();
        let (control, running) = link.execute(command(&["sleep", "1000"])).unwrap();
        control.kill().unwrap();
        let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
        assert_eq!(end, ProcessEnd::Signaled { signal: 9 });
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn execution_is_observed_while_it_runs_and_has_no_terminal_to_resize() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let (control, mut running) = link.execute(shell("echo $$; exec cat")).unwrap();
        let process: i32 = line(&mut running).await.parse().unwrap();
        let observed = timeout(LIMIT, control.observe()).await.unwrap().unwrap();
        assert_eq!((observed.execution, observed.process), (control.id(), Some(process)));
        let size = TerminalSize { columns: 80, rows: 24 };
        let refused = timeout(LIMIT, control.resize(size)).await.unwrap().unwrap_err();
        assert_eq!(refused.to_string(), "cannot resize execution 1: it has no terminal");
        running.stdin.shutdown().await.unwrap();
        timeout(LIMIT, running.end).await.unwrap().unwrap();
        let ended = timeout(LIMIT, control.observe()).await.unwrap().unwrap_err();
        assert_eq!(ended.to_string(), "execution 1 does not run");
    }
}

#[tokio::test]
async fn terminal_has_both_outputs_and_its_size_over_either_transport() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let size = |columns, rows| TerminalSize { columns, rows };
        let script = "stty -echo; stty size; echo error >&2; read line; stty size; cat";
        let program = Command { terminal: Some(size(80, 24)), ..shell(script) };
        let (control, mut running) = link.execute(program).unwrap();
        assert_eq!(line(&mut running).await, "24 80");
        assert_eq!(line(&mut running).await, "error");
        timeout(LIMIT, control.resize(size(132, 50))).await.unwrap().unwrap();
        running.stdin.write_all(b"\n").await.unwrap();
        assert_eq!(line(&mut running).await, "50 132");
        let outcome = finish(running, b"to the end").await;
        assert_eq!(outcome, Outcome::exited(0, "to the end", ""));
    }
}

#[tokio::test]
async fn execution_is_refused_while_too_many_ended_ones_have_unread_output() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let mut unread = Vec::new();
        let refused = loop {
            match link.execute(shell("echo unread")) {
                Ok((_, mut running)) => {
                    let end = timeout(LIMIT, &mut running.end).await.unwrap().unwrap();
                    assert_eq!(end, ProcessEnd::Exited { code: 0 });
                    unread.push(running);
                    assert!(unread.len() < 100);
                }
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert!(refused.to_string().contains("too many streams of executions, at most"));
        unread.clear();
        assert_eq!(run(&link, &shell("echo next"), b"").await, Outcome::exited(0, "next\n", ""));
    }
}
