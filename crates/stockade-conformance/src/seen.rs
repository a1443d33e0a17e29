//! The observed result of one act, inside a wall or without one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use stockade_sys::ends_within;

use crate::answer::Answer;

/// The time limit of each command that a probe runs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that a command returned.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The act's answer.
    pub(crate) answer: Option<Answer>,
    /// The report of the wall; null without one.
    pub(crate) report: Value,
    /// Standard output and standard error.
    pub(crate) text: String,
    /// The exit code, or `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) elapsed: Duration,
}

impl Seen {
    /// What the act counted or returned.
    pub(crate) fn ret(&self) -> Option<i64> {
        self.answer.as_ref().map(|answer| answer.ret)
    }

    /// The act's note.
    pub(crate) fn note(&self) -> &str {
        self.answer.as_ref().map_or("", |answer| answer.note.as_str())
    }

    /// How the run ended, from the report.
    pub(crate) fn outcome(&self) -> &str {
        self.report["outcome"].as_str().unwrap_or("none")
    }

    /// Whether the report names a limit, as the reason why the run ended or of a refusal.
    pub(crate) fn names_limit(&self, limit: &str) -> bool {
        let hit = self.report["limits_hit"].as_array();
        let is_memory = limit == "max_memory_mb" && self.outcome() == "out_of_memory";
        is_memory
            || self.report["limit"] == limit
            || hit.is_some_and(|hit| hit.iter().any(|key| key == limit))
    }

    /// A one-line summary.
    pub(crate) fn summary(&self) -> String {
        let outcome = match self.report.is_null() {
            true => format!("code {:?}", self.code),
            false => self.outcome().to_owned(),
        };
        let answer = match &self.answer {
            Some(Answer { ret, errno, note, .. }) => {
                let errno = errno.as_deref().map_or_else(String::new, |it| format!(" {it}"));
                format!("returned {ret}{errno} {}", shortened(note))
            }
            None => format!("no answer {}", shortened(&self.text)),
        };
        format!("{outcome}: {}", answer.trim())
    }
}

fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether the output is a report or the act's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Report,
    Plain,
}

/// Runs a command to its end, or kills it after the time limit.
pub(crate) fn finish(mut command: Command, output: Output) -> Result<Seen, String> {
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    // Drain the pipes, or a program with much output would block.
    let (out, err) = (read_aside(child.stdout.take()), read_aside(child.stderr.take()));
    if !ends_within(&child, PATIENCE).map_err(|error| error.to_string())? {
        child.kill().map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let elapsed = began.elapsed();
    let join = |thread: std::thread::JoinHandle<Vec<u8>>| thread.join().unwrap_or_default();
    let (out, err) = (join(out), join(err));
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    let report = match output {
        Output::Report => serde_json::from_str(&out).unwrap_or(Value::Null),
        Output::Plain => Value::Null,
    };
    let printed = match output {
        Output::Report => report["stdout"].as_str().unwrap_or_default(),
        Output::Plain => &out,
    };
    let answer = Answer::parse(printed);
    Ok(Seen { answer, text: format!("{out}{err}"), code: status.code(), elapsed, report })
}

fn read_aside(
    stream: Option<impl std::io::Read + Send + 'static>,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // Keeps what was read before an error.
        let _ = stream.map(|mut stream| stream.read_to_end(&mut bytes));
        bytes
    })
}
