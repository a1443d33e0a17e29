use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stockade_policy::{Context, Limit, Policy};
use stockade_provider::{ProcessEnd, Root, SandboxUsage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::OutputStream;
use crate::Passage;
use crate::scripted::{Inside, Scripted};
use crate::state::Unfinished;

fn request(policy: &str) -> RunRequest {
    let session = SessionRequest {
        policy: Arc::new(Policy::parse_str("test", policy, Path::new("/srv")).unwrap()),
        provider: None,
        root: Root::Standard,
        user: 0,
        protected: Vec::new(),
        environment: Vec::new(),
        credentials: Vec::new(),
        passage: Passage::Allowed,
        tools: stockade_tools::Tools::new(),
        context: Context::default(),
        recorder: None,
    };
    let program = Program::Command { argv: vec!["prog".to_owned()] };
    RunRequest { session, program, working_directory: None }
}

fn captured() -> Streams {
    Streams { capture: true, ..Streams::default() }
}

async fn run(wall: Scripted, policy: &str) -> RunReport {
    let engine = Engine::new(vec![Arc::new(wall)]);
    engine.run(request(policy), captured(), std::future::pending()).await.unwrap()
}

/// A program that prints and then runs until it is killed.
fn stubborn() -> Scripted {
    Scripted::running(|mut inside: Inside| async move {
        inside.stdout.write_all(b"before").await.unwrap();
        inside.killed.wait_for(|killed| *killed).await.unwrap();
        Ok(ProcessEnd::SandboxEnded { signal: Some(9) })
    })
}

#[tokio::test]
async fn program_that_exits_has_its_code_output_and_isolation() {
    let wall = Scripted::running(|mut inside: Inside| async move {
        let mut input = String::new();
        inside.stdin.read_to_string(&mut input).await.unwrap();
        inside.stdout.write_all(input.as_bytes()).await.unwrap();
        inside.stderr.write_all(b"No module named 'x'\n").await.unwrap();
        Ok(ProcessEnd::Exited { code: 7 })
    });
    let engine = Engine::new(vec![Arc::new(wall)]);
    let streams = Streams { stdin: Some(Box::new(&b"hello"[..])), ..captured() };
    let report = engine.run(request("{}"), streams, std::future::pending()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Exited { code: 7 });
    assert_eq!(report.stdout.bytes, b"hello");
    assert_eq!(report.stderr_tail, b"No module named 'x'\n");
    let plan = report.plan.unwrap();
    assert!(plan.controls.iter().all(|held| held.mechanism == "a script"));
    assert!(plan.controls.len() > 10);
}

#[tokio::test(start_paused = true)]
async fn program_is_killed_at_its_deadline_and_its_output_is_kept() {
    let report = run(stubborn(), "defaults: {timeout_seconds: 2}").await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert_eq!(report.stdout.bytes, b"before");
    assert_eq!(report.stderr_tail, b"");
}

#[tokio::test(start_paused = true)]
async fn engine_does_not_wait_for_a_program_that_survives_the_kill() {
    let wall = Scripted::running(|inside: Inside| async move {
        let held = inside;
        std::future::pending::<()>().await;
        drop(held);
        Ok(ProcessEnd::Exited { code: 0 })
    });
    let began = tokio::time::Instant::now();
    let report = run(wall, "defaults: {timeout_seconds: 2}").await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert!(began.elapsed() <= Duration::from_millis(2110), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn endless_output_neither_delays_the_deadline_nor_exceeds_the_limit() {
    let wall = Scripted::running(|mut inside: Inside| async move {
        let mut killed = inside.killed.clone();
        let flood = async {
            loop {
                inside.stdout.write_all(&[b'y'; 4096]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = killed.wait_for(|killed| *killed) => {}
            () = flood => {}
        }
        Ok(ProcessEnd::SandboxEnded { signal: Some(9) })
    });
    let report =
        run(wall, "{defaults: {timeout_seconds: 1}, limits: {max_output_bytes: 10000}}").await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert_eq!((report.stdout.bytes.len(), report.stdout.kept_bytes), (10_000, 10_000));
    assert_eq!((report.stdout.kept_bytes + report.stdout.dropped_bytes) % 4096, 0);
    assert!(report.limits_hit.contains(&Limit::Output));
}

#[tokio::test]
async fn limit_watched_by_the_wall_ends_the_program_by_name() {
    let report = run(stubborn().exceeding(Limit::CpuTime), "{}").await;
    assert_eq!(report.outcome, Outcome::LimitExceeded { limit: Limit::CpuTime });
}

#[tokio::test(start_paused = true)]
async fn execution_that_reaches_the_sandbox_lifetime_has_timed_out() {
    let policy = "{defaults: {timeout_seconds: 5}, limits: {max_lifetime_seconds: 5}}";
    let report = run(stubborn(), policy).await;
    assert_eq!(report.outcome, Outcome::TimedOut);
}

#[tokio::test]
async fn cancelling_kills_the_program_and_keeps_its_output() {
    let engine = Engine::new(vec![Arc::new(stubborn())]);
    let cancel = tokio::time::sleep(Duration::from_millis(20));
    let report = engine.run(request("{}"), captured(), cancel).await.unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert_eq!(report.stdout.bytes, b"before");
}

#[test]
fn run_future_is_send() {
    fn is_send(_: impl Send) {}
    let engine = Engine::new(Vec::new());
    is_send(engine.run(request("{}"), captured(), std::future::pending()));
}

#[tokio::test]
async fn denied_program_builds_nothing() {
    let wall = Scripted::named("wall");
    let (asked, created) = (wall.times_asked(), wall.times_created());
    let report = run(wall, "command_allowlist: [ls]").await;
    assert!(matches!(report.outcome, Outcome::Denied { .. }), "{:?}", report.outcome);
    assert_eq!((report.denials.len(), report.outcome.cli_code()), (1, 126));
    assert_eq!((asked.load(Ordering::SeqCst), created.load(Ordering::SeqCst)), (0, 0));
}

#[tokio::test]
async fn oom_kill_of_a_child_is_a_limit_hit_and_not_the_outcome() {
    let observed = SandboxUsage { oom_kills: 1, ..SandboxUsage::default() };
    let report = run(Scripted::named("wall").observing(observed.clone()), "{}").await;
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
    assert!(report.limits_hit.contains(&Limit::Memory));
    let killed = Scripted::running(|_| async { Ok(ProcessEnd::Signaled { signal: 9 }) });
    let report = run(killed.observing(observed), "{}").await;
    assert_eq!(report.outcome, Outcome::OutOfMemory);
    assert!(report.limits_hit.is_empty(), "{:?}", report.limits_hit);
}

#[tokio::test(start_paused = true)]
async fn closed_reader_cancels_the_run_and_a_full_disk_is_an_error() {
    let engine = Engine::new(vec![Arc::new(stubborn())]);
    let live = |kind: std::io::ErrorKind| {
        let stdout = Failing(kind);
        Streams {
            live: Some((Box::new(stdout), Box::new(tokio::io::sink()))),
            ..Streams::default()
        }
    };
    let gone = live(std::io::ErrorKind::BrokenPipe);
    let report = engine.run(request("{}"), gone, std::future::pending()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Cancelled);
    let full = live(std::io::ErrorKind::StorageFull);
    let error = engine.run(request("{}"), full, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, RunError::Output { stream: OutputStream::Stdout, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn blocked_reader_does_not_delay_the_deadline() {
    let (stuck, held) = tokio::io::duplex(1);
    let engine = Engine::new(vec![Arc::new(stubborn())]);
    let live = Some((Box::new(stuck) as Box<_>, Box::new(tokio::io::sink()) as Box<_>));
    let streams = Streams { live, ..Streams::default() };
    let report = engine
        .run(request("defaults: {timeout_seconds: 1}"), streams, std::future::pending())
        .await
        .unwrap();
    drop(held);
    assert_eq!(report.outcome, Outcome::TimedOut);
    assert_eq!(report.stdout.kept_bytes, 6);
}

/// Sends output to a reader and discards errors.
fn read_by(reader: tokio::io::DuplexStream) -> Streams {
    let live = Some((Box::new(reader) as Box<_>, Box::new(tokio::io::sink()) as Box<_>));
    Streams { live, ..Streams::default() }
}

#[tokio::test(start_paused = true)]
async fn slow_reader_gets_all_output_after_the_sandbox_is_dropped() {
    const BYTES: usize = 60_000;
    let wall = Scripted::running(|mut inside: Inside| async move {
        inside.stdout.write_all(&[b'x'; BYTES]).await.unwrap();
        Ok(ProcessEnd::Exited { code: 0 })
    });
    let mut ended = wall.ended();
    let (live, mut seen) = tokio::io::duplex(16);
    let reader = tokio::spawn(async move {
        ended.wait_for(|ended| *ended).await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mut all = Vec::new();
        seen.read_to_end(&mut all).await.unwrap();
        all.len()
    });
    let engine = Engine::new(vec![Arc::new(wall)]);
    let request = request("defaults: {timeout_seconds: 1}");
    let report = engine.run(request, read_by(live), std::future::pending()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
    assert_eq!(report.stdout.kept_bytes, BYTES as u64);
    assert!(report.duration < Duration::from_secs(1), "{:?}", report.duration);
    assert_eq!(reader.await.unwrap(), BYTES);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_reader_that_never_reads_keeps_the_outcome() {
    let wall = Scripted::running(|mut inside: Inside| async move {
        inside.stdout.write_all(b"unread").await.unwrap();
        Ok(ProcessEnd::Exited { code: 3 })
    });
    let mut ended = wall.ended();
    let cancel = async move {
        ended.wait_for(|ended| *ended).await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
    };
    let (live, held) = tokio::io::duplex(1);
    let engine = Engine::new(vec![Arc::new(wall)]);
    let report = engine.run(request("{}"), read_by(live), cancel).await.unwrap();
    drop(held);
    assert_eq!(report.outcome, Outcome::Exited { code: 3 });
}

#[tokio::test(start_paused = true)]
async fn outcome_is_kept_when_the_reader_closed_before_the_end() {
    let wall = Scripted::running(|mut inside: Inside| async move {
        while inside.stdout.write_all(b"more").await.is_ok() {}
        Ok(ProcessEnd::Exited { code: 3 })
    });
    let (live, mut seen) = tokio::io::duplex(16);
    let reader = tokio::spawn(async move { seen.read_u8().await.unwrap() });
    let engine = Engine::new(vec![Arc::new(wall)]);
    let report = engine.run(request("{}"), read_by(live), std::future::pending()).await.unwrap();
    assert_eq!(reader.await.unwrap(), b'm');
    assert_eq!(report.outcome, Outcome::Exited { code: 3 });
}

#[tokio::test(start_paused = true)]
async fn output_long_after_the_end_is_not_awaited() {
    let wall = |pause: Option<Duration>| {
        Scripted::running(move |mut inside: Inside| async move {
            // This task holds the stream after the program has ended.
            tokio::spawn(async move {
                loop {
                    match pause {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => std::future::pending().await,
                    }
                    if inside.stdout.write_all(b"x").await.is_err() {
                        return;
                    }
                }
            });
            Ok(ProcessEnd::Exited { code: 0 })
        })
    };
    for (pause, seconds) in [(None, 1), (Some(Duration::from_millis(300)), 10)] {
        let began = tokio::time::Instant::now();
        let report = run(wall(pause), "{}").await;
        assert_eq!(report.outcome, Outcome::Exited { code: 0 });
        let waited = began.elapsed().as_millis();
        assert!((seconds * 1000..seconds * 1000 + 100).contains(&waited), "{pause:?}: {waited}");
    }
}

#[tokio::test]
async fn sandbox_lost_at_the_start_is_an_outcome() {
    let report = run(Scripted::named("wall").losing(), "{}").await;
    assert_eq!(report.outcome, Outcome::EngineLost);
    assert!(report.plan.is_some());
}

#[tokio::test(start_paused = true)]
async fn hanging_start_is_abandoned_and_leaves_nothing() {
    let wall = Scripted::named("wall").hanging();
    let ended = wall.ended();
    let engine = Engine::new(vec![Arc::new(wall)]);
    let began = tokio::time::Instant::now();
    let error = engine.run(request("{}"), captured(), std::future::pending()).await.unwrap_err();
    assert!(matches!(error, RunError::StartTooLong { .. }), "{error}");
    let waited = began.elapsed();
    assert!(waited >= MOST_START && waited < MOST_START * 2, "{waited:?}");
    assert!(*ended.borrow());
}

/// A writer that always fails.
struct Failing(std::io::ErrorKind);

impl tokio::io::AsyncWrite for Failing {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::task::Poll::Ready(Err(self.0.into()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// The wall used, or the error, when the native wall fails with `kind` and a reduced wall follows.
async fn with_a_reduced_wall(
    kind: ErrorKind,
    policy: &str,
    asked: Option<&str>,
) -> Result<&'static str, String> {
    let native = Scripted::named("native").failing(kind);
    let engine =
        Engine::new(vec![Arc::new(native), Arc::new(Scripted::named("reduced").reduced())]);
    let mut request = request(policy);
    request.session.provider = asked.map(str::to_owned);
    let run = engine.run(request, captured(), std::future::pending()).await;
    run.map(|report| report.plan.unwrap().provider.as_str()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn wall_that_the_host_cannot_build_is_skipped_for_the_next_that_the_policy_accepts() {
    let unavailable = ErrorKind::Unavailable;
    let accepted = with_a_reduced_wall(unavailable, "isolation: reduced", None).await;
    assert_eq!(accepted, Ok("reduced"));
    let native = Err("native".to_owned());
    // The default floor, an explicit floor, and a wall requested by name.
    assert_eq!(with_a_reduced_wall(unavailable, "{}", None).await, native);
    assert_eq!(with_a_reduced_wall(unavailable, "isolation: process", None).await, native);
    let by_name = with_a_reduced_wall(unavailable, "isolation: reduced", Some("native")).await;
    assert_eq!(by_name, native);
    // The caller gets every other failure; the engine tries no other wall.
    for kind in [ErrorKind::Invalid, ErrorKind::Internal, ErrorKind::Unenforceable] {
        assert_eq!(with_a_reduced_wall(kind, "isolation: reduced", None).await, native);
    }
}

#[tokio::test]
async fn first_error_is_reported_when_no_wall_can_be_built() {
    let fails = |name| Scripted::named(name).failing(ErrorKind::Unavailable).reduced();
    let (first, second) = (fails("first"), fails("second"));
    let tried = second.times_created();
    let engine = Engine::new(vec![Arc::new(first), Arc::new(second)]);
    let run = engine.run(request("isolation: reduced"), captured(), std::future::pending()).await;
    assert_eq!(run.unwrap_err().to_string(), "first");
    assert_eq!(tried.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn sandbox_between_two_states_ends_and_one_that_was_replaced_is_let_go() {
    let engine = Engine::new(vec![Arc::new(stubborn())]);
    let RunRequest { session, program, .. } = request("version: \"2\"\n");
    let entry = crate::session::entry(&program);
    let opened = engine.open(session, entry, std::future::pending()).await.unwrap();
    let session = opened.unwrap();
    let request = crate::ExecutionRequest::new(program);
    let mut running = std::pin::pin!(session.execute(request, captured(), std::future::pending()));
    Unfinished::of(&session.sandbox()).release();
    let still = tokio::time::timeout(Duration::from_millis(100), &mut running).await;
    assert!(still.is_err(), "a released sandbox goes on: {still:?}");
    drop(Unfinished::of(&session.sandbox()));
    let report = tokio::time::timeout(Duration::from_secs(10), running).await.unwrap().unwrap();
    assert_eq!(report.outcome, Outcome::EngineLost);
}
