//! One program: its files, the one request that executes it, and how it ended.
//!
//! ```text
//! code, specification ── files ──▶ execute, once ──▶ result ──▶ kept output, egress decisions ──▶ end
//!                                     │ no answer, or one that cannot be read
//!                                     ▼
//!                    the sandbox is deleted: something may still run in it
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_core::future::BoxFuture;
use hyper::body::Bytes;
use stockade_policy::Limit;
use stockade_provider::{
    Command, Error, ErrorKind, ExecutionControl, ExecutionUsage, ProcessEnd, TerminalSize,
};
use stockade_seccomp::Program;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

use crate::AcaError;
use crate::runner::{EndKind, Ended, RunId, Sent, Signal, Specification, Value, Verb};
use crate::sandbox::Shared;
use crate::tools::relay;

/// How long the service may take to answer beyond the time of the program.
const MARGIN: Duration = Duration::from_secs(60);
/// How long the first bytes of the input may take before the program starts without them.
const FIRST_INPUT: Duration = Duration::from_millis(50);
/// The most bytes of one file of input.
const CHUNK: usize = 256 << 10;
/// The most dropped bytes that are counted: the count comes from inside.
const MOST_DROPPED: u64 = 1 << 30;
const INVALID: i32 = 22;
/// The name of the directory of an execution's input.
const INPUT: &str = "in";

/// A program to run, with its streams.
pub(crate) struct Job {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: RunId,
    pub(crate) command: Command,
    pub(crate) timeout: Duration,
    pub(crate) stdin: DuplexStream,
    pub(crate) stdout: DuplexStream,
    pub(crate) stderr: DuplexStream,
}

impl Job {
    /// Writes the code, if there is any. Called before the program starts.
    pub(crate) async fn prepare(&self) -> Result<(), AcaError> {
        let Some((path, code)) = &self.command.code else { return Ok(()) };
        let (service, sandbox) = (&self.shared.service, &self.shared.id);
        service.put(sandbox, path, None, Bytes::from(code.clone())).await
    }

    /// Runs the program to its end.
    pub(crate) async fn run(self) -> Result<ProcessEnd, Error> {
        let Job { shared, id, command, timeout: limit, mut stdin, stdout, stderr } = self;
        // Most programs have no input: its end is there at once.
        let mut first = vec![0; CHUNK];
        let read = timeout(FIRST_INPUT, stdin.read(&mut first)).await;
        let has_input = !matches!(read, Ok(Ok(0) | Err(_)));
        first.truncate(read.ok().and_then(Result::ok).unwrap_or(0));
        let result = async {
            let specification = shared.specification(&command, limit, has_input);
            let body = serde_json::to_vec(&specification).expect("a specification is plain values");
            let path = format!("{}/spec.json", id.directory());
            shared.service.put(&shared.id, &path, None, Bytes::from(body)).await?;
            let feeding = feed(&shared, id, first, stdin, has_input);
            let tools = relay(&shared, id);
            // The service answers when the program has ended, so a caller that stops waiting must
            // not end this request.
            let executing =
                shared.service.ask_runner::<Ended>(&shared.id, Verb::Run, id, Some(limit + MARGIN));
            let helping = async { tokio::join!(feeding, tools) };
            tokio::select! {
                ended = executing => ended,
                _ = helping => unreachable!("helpers of a program never finish"),
            }
        };
        let mut killed = shared.killed.subscribe();
        let ended = tokio::select! {
            biased;
            ended = result => ended,
            _ = killed.wait_for(|killed| *killed) => {
                return Ok(ProcessEnd::SandboxEnded { signal: None });
            }
        };
        match ended {
            Ok(ended) => match finish(&shared, id, &command, ended, stdout, stderr).await {
                Ok(end) => Ok(end),
                // It ran, and its output or its record is incomplete.
                Err(error) => {
                    shared.lose().await;
                    Err(error.into())
                }
            },
            // The service did not accept the request, so nothing runs.
            Err(
                error @ (AcaError::Busy { .. }
                | AcaError::Conflict { .. }
                | AcaError::Credential { .. }
                | AcaError::Refused { .. }),
            ) => Err(error.into()),
            // The program may still run, and no request can find out: the sandbox ends.
            Err(error) => {
                shared.lose().await;
                match error {
                    error @ AcaError::Disk { .. } => Err(error.into()),
                    error => Err(Error::new(ErrorKind::Lost, error)),
                }
            }
        }
    }
}

impl Shared {
    fn specification(&self, command: &Command, limit: Duration, stdin: bool) -> Specification {
        let mut limits = self.limits.clone();
        limits.timeout_seconds = limit.as_secs_f64();
        Specification {
            words: std::iter::once(command.program.clone())
                .chain(command.arguments.iter().skip(1).cloned())
                .collect(),
            environment: command.environment.iter().cloned().collect(),
            directory: command.working_directory.clone(),
            stdin,
            tools: self.gateway.is_some(),
            writable: self.is_workspace_writable,
            machine: self.machine.machine.clone(),
            filters: self.filters.clone(),
            limits,
        }
    }
}

/// A filter as the kernel reads it, in base64.
pub(crate) fn encoded(program: &Program) -> String {
    let mut bytes = Vec::with_capacity(program.instructions().len() * 8);
    for instruction in program.instructions() {
        bytes.extend(instruction.code.to_le_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_le_bytes());
    }
    STANDARD.encode(bytes)
}

/// A file that carries its length, so that the runner never reads a part of it.
pub(crate) fn counted(data: &[u8]) -> Bytes {
    let mut file = format!("{}\n", data.len()).into_bytes();
    file.extend_from_slice(data);
    Bytes::from(file)
}

/// Writes the input of a program as numbered files; an empty one is its end. Never finishes.
async fn feed(shared: &Shared, id: RunId, first: Vec<u8>, mut stdin: DuplexStream, wanted: bool) {
    if !wanted {
        return std::future::pending().await;
    }
    let mut chunk = first;
    let mut number = 0_u64;
    loop {
        if chunk.is_empty() && number == 0 {
            // Nothing came in time: the program waits for it.
            chunk = vec![0; CHUNK];
            let read = stdin.read(&mut chunk).await.unwrap_or(0);
            chunk.truncate(read);
        }
        let path = format!("{}/{INPUT}/{number}", id.directory());
        let (service, sandbox) = (&shared.service, &shared.id);
        let is_end = chunk.is_empty();
        if service.put(sandbox, &path, None, counted(&chunk)).await.is_err() || is_end {
            break;
        }
        number += 1;
        chunk.resize(CHUNK, 0);
        let read = stdin.read(&mut chunk).await.unwrap_or(0);
        chunk.truncate(read);
    }
    std::future::pending::<()>().await;
}

/// Collects what a program left: its output, and the requests that the service decided.
async fn finish(
    shared: &Arc<Shared>,
    id: RunId,
    command: &Command,
    ended: Ended,
    stdout: DuplexStream,
    stderr: DuplexStream,
) -> Result<ProcessEnd, AcaError> {
    let output = async |name: &str, kept: u64| -> Result<Vec<u8>, AcaError> {
        let most = kept.min(shared.limits.output_bytes);
        if most == 0 {
            return Ok(Vec::new());
        }
        let path = format!("{}/{name}", id.directory());
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        shared.service.fetch(&shared.id, &path, most).await
    };
    let (out, err) =
        tokio::try_join!(output("stdout", ended.stdout.0), output("stderr", ended.stderr.0))?;
    // A program whose requests are not known has no complete record.
    shared.look_at_decisions().await?;
    shared.used(&ended);
    pass(stdout, out, ended.stdout.1);
    pass(stderr, err, ended.stderr.1);
    end_of(command, &ended)
}

/// Passes output on without waiting for its reader. The bytes that the runner counted and did not
/// keep follow as zeros: the kept ones reach the limit, so the engine counts and drops these.
fn pass(mut stream: DuplexStream, bytes: Vec<u8>, dropped: u64) {
    tokio::spawn(async move {
        // The reader may be gone.
        let _ = stream.write_all(&bytes).await;
        let mut rest = tokio::io::repeat(0).take(dropped.min(MOST_DROPPED));
        let _ = tokio::io::copy(&mut rest, &mut stream).await;
        let _ = stream.shutdown().await;
    });
}

fn end_of(command: &Command, ended: &Ended) -> Result<ProcessEnd, AcaError> {
    Ok(match (ended.end, &ended.value) {
        (EndKind::Exit, Value::Number(code)) if (0..=255).contains(code) => {
            ProcessEnd::Exited { code: *code }
        }
        (EndKind::Signal, Value::Number(signal)) if (1..=64).contains(signal) => {
            ProcessEnd::Signaled { signal: *signal }
        }
        (EndKind::Limit, Value::Text(name)) => {
            let limit = match name.as_str() {
                "timeout" => Limit::Timeout,
                "cpu_time" => Limit::CpuTime,
                "disk" => Limit::Disk,
                "inodes" => Limit::Inodes,
                "egress_bytes" => Limit::EgressBytes,
                "connections" => Limit::Connections,
                _ => return Err(unreadable()),
            };
            ProcessEnd::LimitExceeded { limit }
        }
        (EndKind::NotStarted, Value::Text(step)) if step == "exec" || step == "chdir" => {
            // Never errno 0, which means success.
            let errno = if (1..4096).contains(&ended.errno) { ended.errno } else { INVALID };
            let program = command.program.clone();
            ProcessEnd::NotStarted { errno, program, refused_call: None }
        }
        (EndKind::NotStarted, Value::Text(step)) => {
            return Err(AcaError::Response {
                doing: "start a program",
                reason: format!("the step {} failed inside", crate::call::harmless(step)),
            });
        }
        _ => return Err(unreadable()),
    })
}

fn unreadable() -> AcaError {
    AcaError::Response { doing: "run a program", reason: "its end is not a known one".to_owned() }
}

/// Controls a program while it runs.
pub(crate) struct RunControl {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: RunId,
}

impl RunControl {
    async fn send(&self, verb: Verb) -> Result<(), Error> {
        if !self.shared.is_busy.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.shared.service.ask_runner::<Sent>(&self.shared.id, verb, self.id, None).await?;
        Ok(())
    }
}

impl ExecutionControl for RunControl {
    fn signal(&self, signal: i32) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match Signal::of(signal) {
                Some(signal) => self.send(Verb::Signal(signal)).await,
                None if signal == 9 => self.send(Verb::Kill).await,
                None => Err(AcaError::Unsupported {
                    what: format!("signal {signal}"),
                    reason: "the runner sends only HUP, INT, QUIT, KILL, USR1, USR2 and TERM"
                        .to_owned(),
                    remedy: "send one of these",
                }
                .into()),
            }
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.send(Verb::Kill))
    }

    fn resize(&self, _: TerminalSize) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async { Err(Error::new(ErrorKind::Invalid, "the program has no terminal")) })
    }

    fn observe(&self) -> BoxFuture<'_, ExecutionUsage> {
        Box::pin(async {
            let used = self.shared.observed();
            ExecutionUsage {
                cpu_time: used.cpu_time,
                memory_peak_bytes: used.memory_peak_bytes,
                tasks_peak: None,
                oom_kills: used.oom_kills,
                limits_hit: used.limits_hit,
                denials: used.denials,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(end: &str) -> Ended {
        let text = format!(
            r#"{{"stdout":[0,0],"stderr":[0,0],"cpu_ms":0,"memory_peak_bytes":0,"oom_kills":0,{end}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn command() -> Command {
        Command {
            program: "x".to_owned(),
            arguments: vec!["x".to_owned()],
            environment: Vec::new(),
            working_directory: "/workspace".to_owned(),
            code: None,
            next_code: None,
            terminal: None,
        }
    }

    #[test]
    fn end_of_a_program_is_one_of_the_known_ones() {
        let of = |text: &str| end_of(&command(), &ended(text));
        let exit = of(r#""end":"exit","value":3"#).unwrap();
        assert_eq!(exit, ProcessEnd::Exited { code: 3 });
        let signal = of(r#""end":"signal","value":9"#).unwrap();
        assert_eq!(signal, ProcessEnd::Signaled { signal: 9 });
        let limit = of(r#""end":"limit","value":"disk""#).unwrap();
        assert_eq!(limit, ProcessEnd::LimitExceeded { limit: Limit::Disk });
        let missing = of(r#""end":"not_started","value":"exec","errno":0"#).unwrap();
        assert!(matches!(missing, ProcessEnd::NotStarted { errno: INVALID, .. }));
        for wrong in [
            r#""end":"exit","value":256"#,
            r#""end":"exit","value":-1"#,
            r#""end":"signal","value":0"#,
            r#""end":"signal","value":"9""#,
            r#""end":"limit","value":"patience""#,
            r#""end":"not_started","value":"seccomp","errno":1"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counted_file_starts_with_its_length() {
        assert_eq!(counted(b"ab\n"), Bytes::from_static(b"3\nab\n"));
        assert_eq!(counted(b""), Bytes::from_static(b"0\n"));
    }
}
