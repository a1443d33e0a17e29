//! The program that this crate uploads, and what crosses between it and the host.
//!
//! The host writes a specification as a file and executes one of a few constant commands with a
//! generated id. The runner prints one JSON object.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::AcaError;
use crate::call::harmless;
use crate::client::{SandboxId, Service};

/// The directory of the runner and of its executions; only root can write below it.
pub(crate) const HOME: &str = "/var/lib/stockade";
/// The runner.
pub(crate) const RUNNER: &str = include_str!("runner.py");
/// How long a command may take that runs no program.
const SHORT: Duration = Duration::from_secs(30);

/// What the runner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Setup,
    Run,
    Kill,
    Stop,
    Continue,
    Signal(Signal),
}

/// The signals that can be sent to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Term,
    Int,
    Hup,
    Quit,
    Usr1,
    Usr2,
}

impl Signal {
    /// A signal by its number, if the runner sends it.
    pub(crate) fn of(number: i32) -> Option<Signal> {
        Some(match number {
            1 => Signal::Hup,
            2 => Signal::Int,
            3 => Signal::Quit,
            10 => Signal::Usr1,
            12 => Signal::Usr2,
            15 => Signal::Term,
            _ => return None,
        })
    }
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Setup => "setup",
            Verb::Run => "run",
            Verb::Kill => "kill",
            Verb::Stop => "stop",
            Verb::Continue => "cont",
            Verb::Signal(Signal::Term) => "term",
            Verb::Signal(Signal::Int) => "int",
            Verb::Signal(Signal::Hup) => "hup",
            Verb::Signal(Signal::Quit) => "quit",
            Verb::Signal(Signal::Usr1) => "usr1",
            Verb::Signal(Signal::Usr2) => "usr2",
        }
    }
}

/// The generated id of an execution: hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u64);

impl RunId {
    pub(crate) fn new() -> Result<RunId, AcaError> {
        let random = stockade_sys::random_bytes::<8>();
        let random =
            random.map_err(|source| AcaError::Prepare { doing: "name an execution", source })?;
        Ok(RunId(u64::from_be_bytes(random)))
    }

    /// The directory of the execution inside.
    pub(crate) fn directory(self) -> String {
        format!("{HOME}/{self}")
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// The command that the service executes. Nothing in it comes from a caller.
pub(crate) fn command(verb: Verb, id: RunId) -> String {
    format!("exec python3 -I -S {HOME}/runner.py {} {id}", verb.word())
}

/// One program to run.
#[derive(Debug, Serialize)]
pub(crate) struct Specification {
    pub(crate) words: Vec<String>,
    pub(crate) environment: std::collections::BTreeMap<String, String>,
    pub(crate) directory: String,
    /// Whether input will come.
    pub(crate) stdin: bool,
    /// Whether programs can call tools.
    pub(crate) tools: bool,
    /// Whether programs may write to the workspace.
    pub(crate) writable: bool,
    pub(crate) machine: String,
    /// System-call filters in the order of installation, as the kernel reads them, in base64.
    pub(crate) filters: Vec<String>,
    pub(crate) limits: RunLimits,
}

/// The limits that the runner holds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunLimits {
    pub(crate) timeout_seconds: f64,
    pub(crate) open_files: u64,
    pub(crate) pids: u64,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) output_bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) inodes: u64,
    pub(crate) connections: u64,
    pub(crate) egress_bytes: u64,
}

/// What the runner found at the setup.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// As `uname -m` names it.
    pub(crate) machine: String,
    /// The release of the kernel.
    pub(crate) kernel: String,
}

/// How a program ended. Everything in it is untrusted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ended {
    pub(crate) stdout: (u64, u64),
    pub(crate) stderr: (u64, u64),
    pub(crate) cpu_ms: u64,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) oom_kills: u64,
    pub(crate) end: EndKind,
    pub(crate) value: Value,
    #[serde(default)]
    pub(crate) errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndKind {
    Exit,
    Signal,
    Limit,
    NotStarted,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Number(i32),
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sent {
    /// Whether a process received it.
    #[serde(rename = "sent")]
    pub(crate) _received: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnableAnswer {
    unable: String,
}

impl Service {
    /// Executes a verb of the runner, once, and reads its answer.
    pub(crate) async fn ask_runner<T: serde::de::DeserializeOwned>(
        &self,
        sandbox: &SandboxId,
        verb: Verb,
        id: RunId,
        limit: Option<Duration>,
    ) -> Result<T, AcaError> {
        let command = command(verb, id);
        let executed = self.execute(sandbox, &command, limit.unwrap_or(SHORT)).await?;
        let unusable = |reason: String| AcaError::Disk { disk: self.settings.disk.clone(), reason };
        // A shell's status for a program that it does not find.
        if executed.exit_code == 127 {
            return Err(unusable("it has no python3, which Stockade's runner needs".to_owned()));
        }
        if let Ok(answer) = serde_json::from_str(executed.stdout.trim()) {
            return Ok(answer);
        }
        if let Ok(UnableAnswer { unable }) = serde_json::from_str(executed.stdout.trim()) {
            return Err(unusable(harmless(&unable)));
        }
        let (code, errors) = (executed.exit_code, harmless(executed.stderr.trim()));
        Err(unusable(format!("the runner answers with exit code {code} and no result: {errors}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_a_constant_with_a_generated_id() {
        let id = RunId(0xab);
        let expected = "exec python3 -I -S /var/lib/stockade/runner.py run 00000000000000ab";
        assert_eq!(command(Verb::Run, id), expected);
        assert_ne!(RunId::new().unwrap(), RunId::new().unwrap());
        for verb in [Verb::Setup, Verb::Kill, Verb::Stop, Verb::Signal(Signal::Term)] {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ./-".contains(&byte);
            assert!(command(verb, id).bytes().all(is_plain));
        }
    }

    #[test]
    fn runner_knows_every_signal_that_the_host_sends() {
        for number in [1, 2, 3, 10, 12, 15] {
            let word = Verb::Signal(Signal::of(number).unwrap()).word();
            assert!(RUNNER.contains(&format!("\"{word}\": signal.")), "{word}");
        }
        assert_eq!(Signal::of(9), None);
    }

    #[test]
    fn result_with_unknown_or_missing_fields_is_refused() {
        let good = r#"{"stdout":[1,0],"stderr":[0,0],"cpu_ms":1,"memory_peak_bytes":1,
                       "oom_kills":0,"end":"exit","value":0}"#;
        serde_json::from_str::<Ended>(good).unwrap();
        for (from, to) in [
            ("\"cpu_ms\":1,", ""),
            ("\"cpu_ms\":1", "\"cpu_ms\":-1"),
            ("\"end\":\"exit\"", "\"end\":\"escaped\""),
            ("\"oom_kills\":0", "\"oom_kills\":0,\"x\":1"),
            ("[1,0]", "[1]"),
        ] {
            assert!(serde_json::from_str::<Ended>(&good.replace(from, to)).is_err(), "{to}");
        }
    }
}
