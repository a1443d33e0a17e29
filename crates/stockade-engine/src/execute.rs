//! Runs a program in a sandbox: its inputs, why it ended, and its report.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_policy::{Limit, Policy};
use stockade_provider::{Error, ErrorKind, ExecutionControl, Running, Sandbox, SandboxUsage};
use tokio::time::{sleep, timeout};

use crate::outcome::{self, Reader};
use crate::output::Output;
use crate::services::Services;
use crate::stopping::Asked;
use crate::wait::{Deadlines, Held, Stop, Unwritable, Waited, wait};
use crate::{Live, Outcome, OutputStream, RunError, RunReport, Streams, Usage};

/// Longer than any limit of a policy: the deadline if no limit applies.
const FOREVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long a killed sandbox may take to disappear.
const GONE: Duration = Duration::from_millis(300);

/// The limits in time of one program.
pub(crate) struct Clocks {
    /// When the caller requested it.
    pub(crate) asked: Instant,
    /// How long it may run.
    pub(crate) timeout: Duration,
    /// How long its sandbox may still exist.
    pub(crate) lifetime: Duration,
    /// How long it may go on after SIGTERM when the caller cancels it.
    pub(crate) cancel_grace: Duration,
    /// How long it may go on after SIGTERM when its time is over.
    pub(crate) timeout_grace: Duration,
}

/// Waits for a program, and ends its sandbox unless that belongs to a session. Returns the report
/// without a plan.
pub(crate) async fn execute(
    held: Held<'_>,
    running: Result<Running, Error>,
    services: &Services,
    policy: &Policy,
    streams: Streams,
    mut cancel: Pin<&mut impl Future<Output = Asked>>,
    clocks: Clocks,
) -> Result<RunReport, RunError> {
    let output = Output::new(policy.limits.value(Limit::Output).unwrap_or(0), &streams);
    let mut passing = pin!(pass_on(&output, streams.live));
    let lifetime = pin!(sleep(clocks.lifetime));
    let start = clocks.asked.elapsed();
    let began = Instant::now();
    let mut control = None;
    let waited = match running {
        Ok(running) => {
            control = Some(Arc::clone(&running.control));
            let cancel = cancel.as_mut();
            let exceeded = exceeded(held.sandbox(), services);
            let deadlines = Deadlines { cancel, lifetime, exceeded, clocks };
            let passing = passing.as_mut();
            wait(running, &held, &output, passing, streams.stdin, deadlines).await
        }
        // The sandbox ended before the program started; the sandbox's end explains why.
        Err(error) if error.kind() == ErrorKind::Lost => {
            held.sandbox().kill().await;
            let (end, stop) = (Some(Err(error)), None);
            Waited { end, stop, at: began, is_reader_left: false, is_passed: true }
        }
        Err(error) => return Err(error.into()),
    };
    if waited.stop.is_none() {
        services.drain().await;
    }
    let observed = match held {
        Held::Once(sandbox) => {
            let mut observed = sandbox.observe().await;
            let denials = services.decided(sandbox.decided().await);
            observed.denials.extend(denials);
            services.close(&mut observed).await;
            // Before waiting for a reader. After a kill, waits until the processes are gone, unless
            // the kernel takes too long; otherwise teardown continues in the background.
            match waited.stop {
                Some(_) => _ = timeout(GONE, sandbox.end()).await,
                None => drop(sandbox),
            }
            observed
        }
        Held::Session(sandbox) => {
            // The session adds their denials to the report of the execution.
            let _ = services.decided(sandbox.decided().await);
            of_execution(control).await
        }
    };
    if waited.stop.is_none() && !waited.is_passed {
        tokio::select! {
            passed = passing => passed.map_err(|(stream, source)| RunError::Output { stream, source })?,
            _ = cancel => {}
        }
    }
    let duration = waited.at.duration_since(began);
    let outcome = of(waited, &observed)?;
    Ok(report(outcome, &output, observed, start, duration))
}

/// What one program of a session used, as far as the wall counts it separately.
pub(crate) async fn of_execution(control: Option<Arc<dyn ExecutionControl>>) -> SandboxUsage {
    let Some(control) = control else { return SandboxUsage::default() };
    let used = control.observe().await;
    SandboxUsage {
        cpu_time: used.cpu_time,
        memory_bytes: None,
        memory_peak_bytes: used.memory_peak_bytes,
        tasks_peak: used.tasks_peak,
        oom_kills: used.oom_kills,
        limits_hit: used.limits_hit,
        denials: used.denials,
    }
}

/// Resolves when a limit is exceeded that neither the kernel nor a deadline enforces.
pub(crate) async fn exceeded(sandbox: &dyn Sandbox, services: &Services) -> Limit {
    tokio::select! {
        limit = sandbox.exceeded() => limit,
        limit = services.exceeded() => limit,
    }
}

/// Writes the program's output to its destination, if there is one.
async fn pass_on(output: &Output, live: Option<Live>) -> Result<(), Unwritable> {
    let Some((stdout, stderr)) = live else { return Ok(()) };
    let pass = |stream, to| async move {
        output.pass_on(stream, to).await.map_err(|error| (stream, error))
    };
    tokio::try_join!(pass(OutputStream::Stdout, stdout), pass(OutputStream::Stderr, stderr))?;
    Ok(())
}

fn of(waited: Waited, observed: &SandboxUsage) -> Result<Outcome, RunError> {
    let reader = if waited.is_reader_left { Reader::Left } else { Reader::Stayed };
    match (waited.end, waited.stop) {
        (_, Some(Stop::Unwritable(stream, source))) => Err(RunError::Output { stream, source }),
        // Relaying the output failed, but the program did end.
        (Some(end), _) => outcome::of_end(end, observed, reader),
        (None, Some(Stop::TimedOut)) => Ok(Outcome::TimedOut),
        (None, Some(Stop::Exceeded(limit))) => Ok(Outcome::LimitExceeded { limit }),
        (None, Some(Stop::Cancelled(_) | Stop::ReaderLeft) | None) => Ok(Outcome::Cancelled),
    }
}

fn report(
    outcome: Outcome,
    output: &Output,
    observed: SandboxUsage,
    start: Duration,
    duration: Duration,
) -> RunReport {
    let (stdout, stderr, tail) = output.take();
    let mut report = RunReport::unstarted(outcome, None);
    report.usage = Usage {
        cpu_time: observed.cpu_time,
        memory_peak_bytes: observed.memory_peak_bytes,
        tasks_peak: observed.tasks_peak,
    };
    report.limits_hit = observed.limits_hit;
    if stdout.dropped_bytes + stderr.dropped_bytes > 0 {
        report.limits_hit.insert(Limit::Output);
    }
    if observed.oom_kills > 0 && report.outcome != Outcome::OutOfMemory {
        report.limits_hit.insert(Limit::Memory);
    }
    report.denials = observed.denials;
    (report.stdout, report.stderr) = (stdout, stderr);
    (report.start, report.duration) = (start, duration);
    report.stderr_tail = tail;
    report
}

pub(crate) fn clock(policy: &Policy, limit: Limit) -> Duration {
    policy.limits.value(limit).map_or(FOREVER, Duration::from_millis)
}
