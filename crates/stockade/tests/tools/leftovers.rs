//! What tools and their servers leave on the host after every kind of end of a run.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::mcp;
use crate::shop::Shop;
use crate::support::{
    DEADLINE, ended, is_alive, numbers, start, wait_until_gone, walls_can_be_built,
};

const PATIENT: &str = "tool_allowlist: [do]\nlimits: {max_tool_seconds: 600}\n";

/// A program that waits for a tool that never responds.
const WAITS: &str = "do('hang')";

/// A server that ignores the end of its input, and a program that waits.
fn stubborn_server() -> Shop {
    mcp::shop("stays", "add")
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the run can be signalled");
}

/// Kills a child of a tool's program, which outlives a killed Stockade.
fn kill(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("it is a process");
    let _ = kill_process(process, Signal::KILL);
}

#[test]
fn calls_are_cancelled_when_the_program_ends_and_their_processes_are_gone() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(PATIENT);
    let code = "
import sys, threading
threading.Thread(target=do, args=['hang'], daemon=True).start()
sys.stdin.readline()
";
    let mut command = shop.command(&["--", "python3", "-c", code]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("the run starts");
    let processes = numbers(&shop.path("pids"));
    assert!(processes.len() == 2 && processes.iter().all(|process| is_alive(*process)));
    writeln!(run.stdin.take().expect("input is piped"), "go").expect("the program reads");
    assert!(run.wait().expect("the run ends").success());
    wait_until_gone(&processes);
    let recorded = shop.recorded();
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["outcome"], "cancelled");
}

#[test]
fn call_whose_program_is_killed_is_cancelled_while_the_run_goes_on() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(PATIENT);
    let script =
        "stockade-tool do '{\"what\":\"hang\"}' & caller=$!; read go; kill -9 $caller; read on";
    let mut command = shop.command(&["--", "sh", "-c", script]);
    let mut run = command.stdin(Stdio::piped()).spawn().expect("the run starts");
    let processes = numbers(&shop.path("pids"));
    let mut input = run.stdin.take().expect("input is piped");
    writeln!(input, "go").expect("the program reads");
    wait_until_gone(&processes);
    assert!(run.try_wait().expect("it can be asked").is_none(), "the run goes on");
    writeln!(input, "on").expect("the program reads");
    assert!(run.wait().expect("the run ends").success());
}

#[test]
fn no_tool_process_is_left_after_the_timeout_of_a_run() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    let began = Instant::now();
    // The host may be slow to start the tool's program.
    let run = shop.run(&["--timeout", "10s", "--", "python3", "-c", WAITS]);
    assert_eq!(run.code, 124, "{run:?}");
    assert!(began.elapsed() < DEADLINE);
    wait_until_gone(&numbers(&shop.path("pids")));
}

#[test]
fn no_tool_process_is_left_after_an_interrupt() {
    if !walls_can_be_built() {
        return;
    }
    for sent in [Signal::INT, Signal::TERM] {
        let shop = Shop::new().policy(PATIENT);
        let run = start(&mut shop.command(&["--", "python3", "-c", WAITS]));
        let processes = numbers(&shop.path("pids"));
        signal(&run, sent);
        let run = ended(run);
        assert_ne!(run.code, 0, "{run:?}");
        wait_until_gone(&processes);
    }
}

#[test]
fn server_that_ignores_sigterm_is_killed_after_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let shop = stubborn_server();
    let began = Instant::now();
    assert_eq!(shop.run(&["--", "true"]).code, 0);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // The children of a server are killed with it.
    wait_until_gone(&numbers(&shop.path("server")));
    let slow = stubborn_server();
    let late = slow.run(&["--timeout", "5s", "--", "sleep", "1000"]);
    assert_eq!(late.code, 124, "{late:?}");
    wait_until_gone(&numbers(&slow.path("server")));
}

#[test]
fn interrupt_ends_a_server() {
    if !walls_can_be_built() {
        return;
    }
    let shop = stubborn_server();
    let mut command = shop.command(&["--", "sh", "-c", "echo up; sleep 1000"]);
    let mut run = start(&mut command);
    let mut said = [0; 3];
    let output = run.stdout.as_mut().expect("output is piped");
    output.read_exact(&mut said).expect("the program runs");
    let servers = numbers(&shop.path("server"));
    assert!(servers.len() == 2 && servers.iter().all(|server| is_alive(*server)));
    signal(&run, Signal::INT);
    ended(run);
    wait_until_gone(&servers);
}

#[test]
fn interrupt_ends_a_server_that_is_still_starting() {
    if !walls_can_be_built() {
        return;
    }
    let shop = mcp::shop("hesitates", "add");
    let run = start(&mut shop.command(&["--", "echo", "it ran"]));
    let servers = numbers(&shop.path("server"));
    assert!(servers.len() == 2 && servers.iter().all(|server| is_alive(*server)));
    signal(&run, Signal::INT);
    let run = ended(run);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    wait_until_gone(&servers);
}

#[test]
fn killed_stockade_leaves_neither_a_server_nor_the_program_of_a_tool() {
    if !walls_can_be_built() {
        return;
    }
    let shop = stubborn_server();
    let run = start(&mut shop.command(&["--", "sleep", "1000"]));
    let servers = numbers(&shop.path("server"));
    signal(&run, Signal::KILL);
    ended(run);
    wait_until_gone(&servers[..1]);
    let shop = Shop::new().policy(PATIENT);
    let run = start(&mut shop.command(&["--", "python3", "-c", WAITS]));
    let processes = numbers(&shop.path("pids"));
    signal(&run, Signal::KILL);
    ended(run);
    wait_until_gone(&processes[..1]);
    // Their own children are reparented and survive, so the test kills them.
    for left in [&servers[1..], &processes[1..]] {
        left.iter().for_each(|process| kill(*process));
    }
}
