//! Many sandboxes in one long-lived process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_backends::{ContainerChoice, HostProcess, Surroundings};
use stockade_engine::{
    Engine, ExecutionRequest, Outcome, Passage, RunRequest, Session, SessionRequest, Streams,
};
use stockade_policy::{Context, Policy};
use stockade_provider::{
    EntryProgram, Execution, ProcessEnd, Program, Provider, Root, SandboxRequest,
};
use tokio::runtime::{Builder, Runtime};

use crate::leftovers::{Host, descendants, kill, named, walls_can_be_built};
use crate::rounds::is_long;

const PATIENCE: Duration = Duration::from_secs(3);

/// The default number of rounds.
fn rounds() -> u32 {
    if is_long() { 200 } else { 80 }
}

/// The number of descriptors and threads of this process.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    threads: usize,
}

impl Held {
    fn now() -> Held {
        let count = |path: &str| std::fs::read_dir(path).expect("/proc can be listed").count();
        Held { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
    }
}

/// Waits until this process has no child, not even a zombie, and holds no more than before. It does
/// not reap children, because the product must.
fn holds_no_more_than(before: &Held) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (left, held) = (descendants(), Held::now());
        if left.is_empty()
            && held.descriptors <= before.descriptors
            && held.threads <= before.threads
        {
            return;
        }
        assert!(Instant::now() < deadline, "left {}, {held:?} instead of {before:?}", named(&left));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn runtime() -> Runtime {
    // Idle threads of the blocking pool end early, so that they are not counted.
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_all().thread_keep_alive(Duration::from_millis(10));
    builder.build().expect("a runtime can be made")
}

fn policy() -> Arc<Policy> {
    let policy = Policy::parse_str("test", "{}", Path::new("/"));
    Arc::new(policy.expect("an empty policy takes every default"))
}

fn request(argv: &[&str]) -> RunRequest {
    let session = SessionRequest {
        policy: policy(),
        provider: Some("native".to_owned()),
        root: Root::Standard,
        user: 0,
        protected: Vec::new(),
        environment: Vec::new(),
        credentials: Vec::new(),
        passage: Passage::Allowed,
        tools: stockade_engine::Tools::new(),
        context: Context::default(),
        recorder: None,
    };
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    RunRequest { session, program: Program::Command { argv }, working_directory: None }
}

fn providers() -> Vec<Arc<dyn Provider>> {
    stockade_backends::providers(
        HostProcess::Continues,
        &Surroundings::default(),
        &ContainerChoice::default(),
    )
}

fn provider() -> Arc<dyn Provider> {
    providers().into_iter().next().expect("there is a wall")
}

fn wanted() -> SandboxRequest {
    SandboxRequest {
        policy: policy(),
        root: Root::Standard,
        entry: EntryProgram::Program("true".to_owned()),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    }
}

/// Runs `round` many times on one runtime; the first three rounds may allocate permanent resources.
fn leaves_nothing(rounds: u32, mut round: impl AsyncFnMut(u32)) {
    let host = Host::alone();
    let runtime = runtime();
    (0..3).for_each(|number| runtime.block_on(round(number)));
    let settled = Instant::now() + PATIENCE;
    while !descendants().is_empty() && Instant::now() < settled {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = Held::now();
    (0..rounds).for_each(|number| runtime.block_on(round(number)));
    holds_no_more_than(&before);
    host.is_as_before(&[std::process::id()]).unwrap_or_else(|left| panic!("{left}"));
}

#[test]
fn two_hundred_runs_leave_no_process_descriptor_or_thread() {
    if !walls_can_be_built() {
        return;
    }
    let engine = Engine::new(providers());
    leaves_nothing(200, async |_| {
        let streams = Streams { capture: true, ..Streams::default() };
        let report = engine.run(request(&["echo", "ran"]), streams, std::future::pending()).await;
        assert_eq!(report.unwrap().outcome, Outcome::Exited { code: 0 });
    });
}

#[test]
fn runs_cancelled_at_any_moment_leave_no_process_descriptor_or_thread() {
    if !walls_can_be_built() {
        return;
    }
    let engine = Engine::new(providers());
    leaves_nothing(rounds(), async |round| {
        let moment = tokio::time::sleep(Duration::from_micros(u64::from(round % 80) * 250));
        let report = engine.run(request(&["sleep", "60"]), Streams::default(), moment).await;
        assert_eq!(report.unwrap().outcome, Outcome::Cancelled);
    });
}

#[test]
fn sandboxes_ended_or_dropped_leave_no_process_descriptor_or_thread() {
    if !walls_can_be_built() {
        return;
    }
    let (provider, wanted) = (provider(), wanted());
    leaves_nothing(rounds(), async |round| {
        let sandbox = provider.create(&wanted).await.unwrap();
        match round % 2 {
            0 => sandbox.end().await.unwrap(),
            _ => drop(sandbox),
        }
    });
}

#[test]
fn start_after_the_first_process_was_killed_reports_the_signal() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let own = std::process::id();
    let provider = provider();
    runtime().block_on(async {
        let sandbox = provider.create(&wanted()).await.unwrap();
        let below = descendants();
        let first = below.iter().find(|(_, it)| it.parent != own).expect("there is a guest").0;
        kill(*first);
        let mut ends = Vec::new();
        // The first start is still sent; the second finds the stream closed.
        for _ in 0..2 {
            let argv = vec!["true".to_owned()];
            let started = sandbox.start(Execution::new(Program::Command { argv })).await;
            match started {
                Ok(running) => ends.push(running.end.await.unwrap()),
                Err(error) => assert_eq!(ends.len(), 1, "{error}"),
            }
        }
        assert_eq!(ends, [ProcessEnd::SandboxEnded { signal: Some(9) }]);
        sandbox.end().await.unwrap();
    });
    host.is_as_before(&[own]).unwrap_or_else(|left| panic!("{left}"));
}

/// Runs one program of a session for at most a quarter of a second.
async fn execute(session: &Session, argv: &[&str]) -> Outcome {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let program = ExecutionRequest::new(Program::Command { argv });
    let request = ExecutionRequest { timeout: Some(Duration::from_millis(250)), ..program };
    let report = session.execute(request, Streams::default(), std::future::pending()).await;
    report.expect("the engine reports an outcome").outcome
}

#[test]
fn session_goes_on_after_a_timeout_and_leaves_nothing() {
    const HIDING: &str = "echo kept > /workspace/file; (setsid sleep 1000 &); sleep 1000";
    if !walls_can_be_built() {
        return;
    }
    let engine = Engine::new(providers());
    leaves_nothing(5, async |_| {
        let RunRequest { session, .. } = request(&["true"]);
        let entry = EntryProgram::Program("sh".to_owned());
        let session = engine.open(session, entry, std::future::pending()).await.unwrap().unwrap();
        let hiding = execute(&session, &["sh", "-c", HIDING]);
        let (hidden, beside) = tokio::join!(hiding, execute(&session, &["sh", "-c", "exit 3"]));
        assert_eq!((hidden, beside), (Outcome::TimedOut, Outcome::Exited { code: 3 }));
        // The file is still there, and the hidden process is not.
        let look = "grep -q kept /workspace/file && ! grep -qs sleep /proc/[0-9]*/comm";
        assert_eq!(execute(&session, &["sh", "-c", look]).await, Outcome::Exited { code: 0 });
        session.end("removed").await.unwrap();
    });
}

#[test]
fn execution_that_runs_out_of_memory_is_the_only_one_with_that_outcome() {
    if !walls_can_be_built() {
        return;
    }
    let engine = Engine::new(providers());
    let host = Host::alone();
    runtime().block_on(async {
        let policy = "{defaults: {max_memory_mb: 64, timeout_seconds: 30}}";
        let policy = Policy::parse_str("test", policy, Path::new("/")).unwrap();
        let RunRequest { session, .. } = request(&["true"]);
        let session = SessionRequest { policy: Arc::new(policy), ..session };
        let entry = EntryProgram::Program("sh".to_owned());
        let session = engine.open(session, entry, std::future::pending()).await.unwrap().unwrap();
        let execute = async |script: &str| {
            let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
            let request = ExecutionRequest::new(Program::Command { argv });
            let report = session.execute(request, Streams::default(), std::future::pending()).await;
            report.unwrap().outcome
        };
        let waits = "until [ -e /workspace/over ]; do sleep 0.01; done; kill -9 $$";
        let hungry = async {
            let outcome = execute("exec tail /dev/zero").await;
            // Refused if a watchdog has ended the sandbox.
            let _ = execute("touch /workspace/over").await;
            outcome
        };
        let (hungry, killed) = tokio::join!(hungry, execute(waits));
        match session.usage().await.oom_kills {
            // Without a cgroup a watchdog ends the sandbox.
            0 => {}
            _ => assert_eq!(
                (hungry, killed),
                (Outcome::OutOfMemory, Outcome::Signaled { signal: 9 })
            ),
        }
        session.end("removed").await.unwrap();
    });
    host.is_as_before(&[std::process::id()]).unwrap_or_else(|left| panic!("{left}"));
}
