//! A program in a sandbox: its deadlines, its streams, and why it ended.

use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use stockade_policy::{Limit, Policy};
use stockade_provider::{Error, Execution, Observation, ProcessEnd, Running, Sandbox};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy};
use tokio::time::{sleep, timeout};

use crate::output::Output;
use crate::{Outcome, OutputStream, RunError, RunReport, Streams, Usage, outcome};

/// How long what is already printed is collected after a kill.
const COLLECT: Duration = Duration::from_millis(100);

/// How long a stream may say nothing after everything that could write to it is gone.
const SILENCE: Duration = Duration::from_secs(1);

/// How often output may still come after the end while nobody has to be waited for.
const MOST_LOOKS: u32 = 10;

/// A limit that no policy text can reach, for a clock that nothing limits.
const FOREVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// Why the engine ended a program.
enum Stop {
    Cancelled,
    TimedOut,
    Exceeded(Limit),
    /// What it printed could not be passed on.
    Unwritable(OutputStream, io::Error),
}

/// How waiting for a program came to its end.
enum Waited {
    Ended(Result<ProcessEnd, Error>),
    Stopped(Stop),
}

/// Runs a program in a fresh sandbox and ends the sandbox. Returns the report, without a plan, and
/// the last bytes of the program's errors.
pub(crate) async fn execute(
    mut sandbox: Box<dyn Sandbox>,
    execution: Execution,
    policy: &Policy,
    streams: Streams,
    mut cancel: Pin<&mut impl Future<Output = ()>>,
    asked: Instant,
) -> Result<(RunReport, Vec<u8>), RunError> {
    let output = Output::new(policy.limits.value(Limit::Output).unwrap_or(0), streams.capture);
    let mut lifetime = pin!(sleep(clock(policy, Limit::Lifetime)));
    let running = tokio::select! {
        biased;
        () = &mut cancel => Err(Stop::Cancelled),
        () = sleep(clock(policy, Limit::Timeout)) => Err(Stop::TimedOut),
        () = &mut lifetime => Err(Stop::Exceeded(Limit::Lifetime)),
        running = sandbox.start(execution) => Ok(running?),
    };
    let start = asked.elapsed();
    let began = Instant::now();
    let waited = match running {
        Ok(running) => {
            let deadlines = Deadlines { cancel, lifetime, timeout: clock(policy, Limit::Timeout) };
            wait(running, sandbox.as_ref(), &output, streams, deadlines).await
        }
        Err(stop) => {
            sandbox.kill();
            Waited::Stopped(stop)
        }
    };
    let duration = began.elapsed();
    let observed = sandbox.observe();
    // From here on taking down goes on behind.
    drop(sandbox);
    let outcome = match waited {
        Waited::Ended(end) => outcome::of_end(end, &observed)?,
        Waited::Stopped(Stop::Cancelled) => Outcome::Cancelled,
        Waited::Stopped(Stop::TimedOut) => Outcome::TimedOut,
        Waited::Stopped(Stop::Exceeded(limit)) => Outcome::LimitExceeded { limit },
        // Whoever read the output has seen enough, as `head` does.
        Waited::Stopped(Stop::Unwritable(_, error))
            if error.kind() == io::ErrorKind::BrokenPipe =>
        {
            Outcome::Cancelled
        }
        Waited::Stopped(Stop::Unwritable(stream, source)) => {
            return Err(RunError::Output { stream, source });
        }
    };
    Ok(report(outcome, &output, observed, start, duration))
}

/// What can end a program from outside.
struct Deadlines<'d, C, L> {
    cancel: Pin<&'d mut C>,
    lifetime: Pin<&'d mut L>,
    timeout: Duration,
}

/// Waits until the program has ended and its output is read, or until it must be ended.
async fn wait(
    running: Running,
    sandbox: &dyn Sandbox,
    output: &Output,
    streams: Streams,
    deadlines: Deadlines<'_, impl Future<Output = ()>, impl Future<Output = ()>>,
) -> Waited {
    let Running { stdin, stdout, stderr, mut end } = running;
    let Deadlines { mut cancel, mut lifetime, timeout: limit } = deadlines;
    let (live_out, live_err) = streams.live.unzip();
    let pump = |stream, source, live| async move {
        output.pump(stream, source, live).await.map_err(|error| Stop::Unwritable(stream, error))
    };
    let mut pumps = pin!(async {
        let out = pump(OutputStream::Stdout, stdout, live_out);
        let err = pump(OutputStream::Stderr, stderr, live_err);
        tokio::try_join!(out, err).map(|_| ())
    });
    let mut feed = pin!(feed(streams.stdin, stdin));
    let mut deadline = pin!(sleep(limit));
    let mut exceeded = sandbox.exceeded();
    let mut ended = None;
    let (mut is_fed, mut is_drained) = (false, false);
    // The end comes first: what ended by itself was not stopped. The output comes after every
    // deadline: it can always be ready.
    let stop = loop {
        tokio::select! {
            biased;
            result = &mut end, if ended.is_none() => ended = Some(result),
            () = &mut cancel => break Stop::Cancelled,
            () = &mut deadline, if ended.is_none() => break Stop::TimedOut,
            () = &mut lifetime, if ended.is_none() => break Stop::Exceeded(Limit::Lifetime),
            limit = &mut exceeded, if ended.is_none() => break Stop::Exceeded(limit),
            result = &mut pumps, if !is_drained => match result {
                Ok(()) => is_drained = true,
                Err(stop) => break stop,
            },
            () = silence(output), if ended.is_some() => is_drained = true,
            () = &mut feed, if !is_fed => is_fed = true,
        }
        if is_drained && let Some(end) = ended.take() {
            return Waited::Ended(end);
        }
    };
    sandbox.kill();
    if let Some(end) = ended {
        // Its output could not be passed on to the end; that it ended is true all the same.
        return match stop {
            // A reader that went away has seen enough.
            Stop::Unwritable(_, ref error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Waited::Ended(end)
            }
            Stop::Unwritable(..) => Waited::Stopped(stop),
            Stop::Cancelled | Stop::TimedOut | Stop::Exceeded(_) => Waited::Ended(end),
        };
    }
    if !is_drained && !matches!(stop, Stop::Unwritable(..)) {
        // The kill is sent: what comes now was printed before, and whatever does not come in time
        // is not waited for.
        let _ = timeout(COLLECT, pumps).await;
    }
    Waited::Stopped(stop)
}

/// Passes the caller's input on. Whatever goes wrong, the program sees the end of its input.
async fn feed(
    source: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
) {
    if let Some(mut source) = source {
        let _ = copy(&mut source, &mut stdin).await;
    }
    let _ = stdin.shutdown().await;
}

/// Resolves when no more output comes although nobody has to be waited for.
///
/// What a program has written is there when its end is told, so what still comes after many looks is
/// not its output any more.
async fn silence(output: &Output) {
    let mut looks = 0;
    while looks < MOST_LOOKS {
        let (before, _) = output.progress();
        sleep(SILENCE).await;
        let (after, is_writing) = output.progress();
        if before == after && !is_writing {
            return;
        }
        looks += u32::from(!is_writing);
    }
}

fn report(
    outcome: Outcome,
    output: &Output,
    observed: Observation,
    start: Duration,
    duration: Duration,
) -> (RunReport, Vec<u8>) {
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
    (report, tail)
}

fn clock(policy: &Policy, limit: Limit) -> Duration {
    policy.limits.value(limit).map_or(FOREVER, Duration::from_millis)
}
