//! Terminals of programs.

use std::process::{self, Command};
use std::time::Duration;

use stockade_native::{HostProcess, ReducedProvider, Surroundings};
use stockade_provider::{
    ErrorKind, Execution, ProcessEnd, Program, Provider, Running, Stdio, TerminalSize, chain,
};
use stockade_testing::skipped;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{finished, request, runtime, sandbox, shell, walls_can_be_built};

const LIMIT: Duration = Duration::from_secs(30);
const SIZE: TerminalSize = TerminalSize { columns: 101, rows: 33 };

/// Tries the calls that take terminals over on its controlling terminal, which it opens if it has
/// none; prints the name of each error.
const TAKEOVERS: &str = r#"
import errno, fcntl, os
terminal = 0
if not os.isatty(0):
    os.setsid()
    ours, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x540e, 0)
for name, request in ("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541c), ("TIOCGWINSZ", 0x5413):
    try:
        fcntl.ioctl(terminal, request, bytes(8))
        print(name, "done")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"#;

fn in_terminal(argv: &[&str]) -> Execution {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Execution { stdio: Stdio::Terminal(SIZE), ..Execution::new(Program::Command { argv }) }
}

fn python(script: &str) -> Execution {
    in_terminal(&["python3", "-c", script])
}

/// What a Python program prints without a wall and without input.
fn without_a_wall(script: &str) -> String {
    let mut command = Command::new("python3");
    let output = command.args(["-c", script]).stdin(process::Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Reads the output until `text` was printed, and returns all of it.
async fn until(running: &mut Running, text: &str) -> String {
    let mut printed = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&printed).contains(text) {
            match running.stdout.read_u8().await {
                Ok(byte) => printed.push(byte),
                Err(_) => break,
            }
        }
    };
    let arrived = timeout(LIMIT, read).await.is_ok();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(arrived && printed.contains(text), "{text:?} was not printed: {printed:?}");
    printed
}

async fn typed(running: &mut Running, bytes: &[u8]) {
    running.stdin.write_all(bytes).await.unwrap();
    running.stdin.flush().await.unwrap();
}

async fn end_of(running: Running) -> ProcessEnd {
    let (text, end) = timeout(LIMIT, finished(running)).await.expect("the program ends");
    end.unwrap_or_else(|error| panic!("{}: {text}", chain(&error)))
}

#[test]
fn program_has_a_controlling_terminal_of_the_size_asked_for() {
    if !walls_can_be_built() {
        return;
    }
    let script = r#"
import os, sys
print([os.isatty(fd) for fd in (0, 1, 2)], os.ttyname(0), sorted(os.listdir("/dev/pts")))
print(*os.get_terminal_size(), os.environ["TERM"])
print(os.getsid(0) == os.getpid() == os.tcgetpgrp(0), os.ttyname(os.open("/dev/tty", os.O_RDWR)))
print("error", file=sys.stderr)
"#;
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let mut running = sandbox.start(python(script)).await.unwrap();
        let mut errors = String::new();
        running.stderr.read_to_string(&mut errors).await.unwrap();
        let (text, end) = finished(running).await;
        let expected = "[True, True, True] /dev/pts/0 ['0', 'ptmx']\r\n101 33 xterm\r\nTrue /dev/tty\r\nerror\r\n";
        assert_eq!((text.as_str(), errors.as_str()), (expected, ""));
        assert_eq!(end.unwrap(), ProcessEnd::Exited { code: 0 });
        // A program with pipes has none.
        let script = "cat /dev/tty 2>/dev/null || echo none";
        let piped = sandbox.start(shell(script)).await.unwrap();
        let size = TerminalSize { columns: 1, rows: 1 };
        assert!(piped.control.resize(size).await.is_err());
        assert_eq!(finished(piped).await.0, "none\n");
    });
}

#[test]
fn resize_sets_the_size_and_signals_the_program() {
    if !walls_can_be_built() {
        return;
    }
    let script = r#"
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("ready", flush=True)
signal.sigwait([signal.SIGWINCH])
print(*os.get_terminal_size())
"#;
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let mut running = sandbox.start(python(script)).await.unwrap();
        until(&mut running, "ready").await;
        let size = TerminalSize { columns: 132, rows: 50 };
        timeout(LIMIT, running.control.resize(size)).await.unwrap().unwrap();
        until(&mut running, "132 50").await;
        assert_eq!(end_of(running).await, ProcessEnd::Exited { code: 0 });
    });
}

#[test]
fn control_c_interrupts_the_program_and_closed_input_is_the_end_of_file() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let sleep = ["sh", "-c", "echo up; exec sleep 60"];
        let mut running = sandbox.start(in_terminal(&sleep)).await.unwrap();
        until(&mut running, "up").await;
        typed(&mut running, b"\x03").await;
        assert_eq!(end_of(running).await, ProcessEnd::Signaled { signal: 2 });
        for (input, expected) in [(&b""[..], ""), (b"line\n", "line\r\n"), (b"no end", "no end")] {
            let cat = ["sh", "-c", "stty -echo; echo up; cat; echo \"[$?]\""];
            let mut running = sandbox.start(in_terminal(&cat)).await.unwrap();
            until(&mut running, "up\r\n").await;
            typed(&mut running, input).await;
            running.stdin.shutdown().await.unwrap();
            let (text, end) = timeout(LIMIT, finished(running)).await.expect("the program ends");
            assert_eq!(text, format!("{expected}[0]\r\n"));
            assert_eq!(end.unwrap(), ProcessEnd::Exited { code: 0 });
        }
    });
}

#[test]
fn shell_has_job_control() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let bash = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
        let mut running = sandbox.start(in_terminal(&bash)).await.unwrap();
        typed(&mut running, b"PS1=; stty -echo; echo re''ady\n").await;
        let begun = until(&mut running, "ready\r\n").await;
        assert!(!begun.contains("no job control"), "{begun}");
        // The shell stops the job, continues it, and survives the interrupt that ends it.
        // It starts no process: a parent that waits in vfork(2) for a stopped child does not stop.
        // A handler that prints through `sys.stdout` fails while that prints.
        let job = "import os, signal, time; \
                   signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'back\\n')); \
                   print('up', flush=True); \
                   [time.sleep(0.05) for _ in iter(int, 1)]";
        typed(&mut running, format!("python3 -c \"{job}\"\n").as_bytes()).await;
        until(&mut running, "up\r\n").await;
        typed(&mut running, b"\x1a").await;
        until(&mut running, "Stopped").await;
        typed(&mut running, b"jobs; fg\n").await;
        until(&mut running, "Stopped").await;
        until(&mut running, "back\r\n").await;
        typed(&mut running, b"\x03").await;
        until(&mut running, "\r\n").await;
        typed(&mut running, b"echo code $?\n").await;
        until(&mut running, "code 130\r\n").await;
        typed(&mut running, b"exit 7\n").await;
        assert_eq!(end_of(running).await, ProcessEnd::Exited { code: 7 });
    });
}

#[test]
fn closed_output_hangs_up_the_terminal() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let script = "echo up; while :; do echo more; sleep 0.01; done";
        let mut running = sandbox.start(in_terminal(&["sh", "-c", script])).await.unwrap();
        until(&mut running, "up").await;
        let Running { stdout, stdin, end, .. } = running;
        drop((stdout, stdin));
        let end = timeout(LIMIT, end).await.expect("the program ends").unwrap();
        assert_eq!(end, ProcessEnd::Signaled { signal: 1 });
        let next = sandbox.start(shell("ls /dev/pts")).await.unwrap();
        assert_eq!(finished(next).await.0, "ptmx\n");
    });
}

#[test]
fn number_of_terminals_is_bounded_and_the_next_start_says_so() {
    if !walls_can_be_built() {
        return;
    }
    let script = r#"
import errno, os
opened = []
try:
    while len(opened) < 200:
        opened.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    print(errno.errorcode[error.errno], end=" ")
print(len(opened), flush=True)
input()
"#;
    assert_eq!(without_a_wall(script), "200\n");
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let mut running = sandbox.start(python(script)).await.unwrap();
        until(&mut running, "ENOSPC 127\r\n").await;
        let refused = sandbox.start(python("pass")).await.unwrap();
        let (errno, program) = (28, "/dev/pts/ptmx".to_owned());
        let expected = ProcessEnd::NotStarted { errno, program, refused_call: None };
        assert_eq!(end_of(refused).await, expected);
        typed(&mut running, b"\n").await;
        assert_eq!(end_of(running).await, ProcessEnd::Exited { code: 0 });
        let next = sandbox.start(python("pass")).await.unwrap();
        assert_eq!(end_of(next).await, ProcessEnd::Exited { code: 0 });
    });
}

#[test]
fn calls_that_take_terminals_over_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let outside = without_a_wall(TAKEOVERS);
    assert!(!outside.contains("EPERM") && outside.contains("TIOCGWINSZ done"), "{outside}");
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let running = sandbox.start(python(TAKEOVERS)).await.unwrap();
        let (text, _) = finished(running).await;
        assert_eq!(text, "TIOCSTI EPERM\r\nTIOCLINUX EPERM\r\nTIOCGWINSZ done\r\n");
    });
}

#[test]
fn reduced_wall_refuses_a_terminal_by_name() {
    runtime().block_on(async {
        let reduced = ReducedProvider::new(HostProcess::Continues, Surroundings::default());
        let sandbox = match reduced.create(&request()).await {
            Ok(sandbox) => sandbox,
            Err(error) => return skipped("landlock", &chain(&error)),
        };
        let error = sandbox.start(python("pass")).await.err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Unenforceable);
        assert!(chain(&error).contains("a terminal"), "{}", chain(&error));
        assert!(error.remedy().is_some());
    });
}
