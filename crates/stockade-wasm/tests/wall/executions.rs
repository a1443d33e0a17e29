use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{ErrorKind, Execution, ProcessEnd, Running, Stdio, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{finish, python, run, sandbox, start};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_is_usable_from_any_thread() {
    let sandbox: Arc<dyn stockade_provider::Sandbox> = sandbox("{}").await.into();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let sandbox = Arc::clone(&sandbox);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let code = format!("print({number})");
                runtime.unwrap().block_on(async { run(sandbox.as_ref(), &code).await.stdout })
            })
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), format!("{number}\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_arrives_while_the_program_runs_and_input_reaches_it() {
    let sandbox = sandbox("{}").await;
    let running = start(sandbox.as_ref(), "print('ready'); print(input() * 2)").await.unwrap();
    let Running { mut stdin, mut stdout, end, .. } = running;
    let mut ready = [0; 6];
    timeout(SOON, stdout.read_exact(&mut ready)).await.unwrap().unwrap();
    assert_eq!(&ready, b"ready\n");
    stdin.write_all(b"ab\n").await.unwrap();
    let mut rest = String::new();
    timeout(SOON, stdout.read_to_string(&mut rest)).await.unwrap().unwrap();
    assert_eq!((rest.as_str(), end.await.unwrap()), ("abab\n", ProcessEnd::Exited { code: 0 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn running_and_waiting_programs_are_killed_at_once() {
    let sandbox = sandbox("{}").await;
    for code in ["while True: pass", "input()", "import time; time.sleep(100)"] {
        let running = start(sandbox.as_ref(), code).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let asked = Instant::now();
        running.control.kill().await.unwrap();
        let end = timeout(SOON, running.end).await.unwrap().unwrap();
        assert_eq!(end, ProcessEnd::Signaled { signal: 9 }, "{code}");
        assert!(asked.elapsed() < Duration::from_secs(2), "{code}: {:?}", asked.elapsed());
    }
    assert_eq!(run(sandbox.as_ref(), "print(1)").await.stdout, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_output_stops_the_program_and_not_the_kill() {
    let sandbox = sandbox("{}").await;
    let running = start(sandbox.as_ref(), "while True: print('x' * 1000)").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let used = running.control.observe().await.cpu_time.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let later = running.control.observe().await.cpu_time.unwrap();
    assert!(later - used < Duration::from_millis(100), "it waits for its reader");
    running.control.kill().await.unwrap();
    timeout(SOON, running.end).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_program_stands_still_and_goes_on() {
    let sandbox = sandbox("{}").await;
    let code = "import time\nfor n in range(10**9):\n    if n % 100_000 == 0: print(n)";
    let running = start(sandbox.as_ref(), code).await.unwrap();
    let Running { mut stdout, control, .. } = running;
    let mut piece = [0; 256];
    timeout(SOON, stdout.read(&mut piece)).await.unwrap().unwrap();
    sandbox.pause().await.unwrap();
    let error = start(sandbox.as_ref(), "print(1)").await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = control.observe().await.cpu_time.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(control.observe().await.cpu_time.unwrap(), before);
    sandbox.resume().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(control.observe().await.cpu_time.unwrap() > before);
    control.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_ends_a_program_at_its_timeout_by_itself() {
    let sandbox = sandbox("{}").await;
    let timeout = Some(Duration::from_millis(200));
    for code in ["while True: pass", "input()"] {
        let running = sandbox.start(Execution { timeout, ..python(code) }).await.unwrap();
        assert_eq!(
            running.end.await.unwrap(),
            ProcessEnd::LimitExceeded { limit: Limit::Timeout },
            "{code}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_beyond_thirty_two_at_once_are_refused_and_later_ones_run() {
    let sandbox = sandbox("defaults: {max_memory_mb: 2048}").await;
    let mut running = Vec::new();
    let error = loop {
        match start(sandbox.as_ref(), "input()").await {
            Ok(one) => running.push(one),
            Err(error) => break error,
        }
    };
    assert_eq!((running.len(), error.kind()), (32, ErrorKind::Busy));
    assert!(error.remedy().is_some());
    for one in running {
        one.control.kill().await.unwrap();
        let _ = one.end.await;
    }
    // Its place is free when its thread has ended.
    let again = loop {
        match start(sandbox.as_ref(), "print(1)").await {
            Ok(running) => break running,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert_eq!(finish(again).await.stdout, "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_sandbox_starts_nothing_and_ends_what_runs() {
    let sandbox = sandbox("{}").await;
    let running = start(sandbox.as_ref(), "while True: pass").await.unwrap();
    sandbox.kill().await;
    timeout(SOON, sandbox.lost()).await.unwrap();
    let end = timeout(SOON, running.end).await.unwrap().unwrap();
    assert_eq!(end, ProcessEnd::SandboxEnded { signal: Some(9) });
    let error = start(sandbox.as_ref(), "print(1)").await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Lost);
    timeout(SOON, sandbox.end()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn terminal_and_signals_are_refused_by_name() {
    let sandbox = sandbox("{}").await;
    let stdio = Stdio::Terminal(TerminalSize { columns: 80, rows: 24 });
    let error = sandbox.start(Execution { stdio, ..python("pass") }).await.err().unwrap();
    assert!(error.to_string().contains("no terminals"), "{error}");
    let running = start(sandbox.as_ref(), "input()").await.unwrap();
    let error = running.control.signal(15).await.unwrap_err();
    assert!(error.to_string().contains("no signals"), "{error}");
    running.control.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn process_has_no_signal_handler_of_the_engine() {
    let sandbox = sandbox("{}").await;
    let ended = run(sandbox.as_ref(), "import os; os.abort()").await;
    assert!(matches!(ended.end, ProcessEnd::Trapped { .. }), "{ended:?}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    // An illegal instruction and an arithmetic error; Rust itself handles a stack overflow.
    for signal in [4, 8] {
        assert_eq!(caught & (1 << (signal - 1)), 0, "{signal}");
    }
}
