//! How an execution ended, derived from kernel facts and from the engine's own actions.

use stockade_policy::{Denial, Limit};
use stockade_provider::{Error, ErrorKind, ProcessEnd, SandboxUsage};

use crate::RunError;

const SIGKILL: i32 = 9;
const SIGPIPE: i32 = 13;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited by itself.
    Exited {
        /// Its own exit code.
        code: i32,
    },
    /// A signal killed it.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// It exceeded the time limit for one execution.
    TimedOut,
    /// The kernel killed its main process because memory ran out.
    OutOfMemory,
    /// Stockade ended it because of another limit.
    LimitExceeded {
        /// Which limit.
        limit: Limit,
    },
    /// The policy refused it before the start.
    Denied {
        /// The refusal.
        denial: Denial,
    },
    /// The program could not be executed.
    NotStarted {
        /// The kernel's errno.
        errno: i32,
        /// The program that could not be executed.
        program: String,
        /// The system call that the policy's seccomp profile refuses, if that is the reason.
        refused_call: Option<String>,
    },
    /// The wall's runtime stopped it because of an illegal operation.
    Trapped {
        /// The operation, as the runtime describes it.
        reason: String,
    },
    /// The caller stopped it.
    Cancelled,
    /// The process or runtime behind the wall disappeared.
    EngineLost,
}

impl Outcome {
    /// The outcome as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Exited { .. } => "exited",
            Outcome::Signaled { .. } => "signaled",
            Outcome::TimedOut => "timed_out",
            Outcome::OutOfMemory => "out_of_memory",
            Outcome::LimitExceeded { .. } => "limit_exceeded",
            Outcome::Denied { .. } => "denied",
            Outcome::NotStarted { .. } => "not_started",
            Outcome::Trapped { .. } => "trapped",
            Outcome::Cancelled => "cancelled",
            Outcome::EngineLost => "engine_lost",
        }
    }

    /// The exit code of the command line. It can coincide with a program's own code.
    pub fn cli_code(&self) -> u8 {
        match self {
            // The kernel keeps eight bits of an exit code.
            Outcome::Exited { code } => code.to_le_bytes()[0],
            Outcome::Signaled { signal } => {
                128_u8.saturating_add(u8::try_from(*signal).unwrap_or(u8::MAX))
            }
            Outcome::LimitExceeded { .. } => 122,
            Outcome::TimedOut => 124,
            Outcome::EngineLost => 125,
            Outcome::Denied { .. } => 126,
            Outcome::NotStarted { .. } => 127,
            Outcome::Cancelled => 130,
            // As for a program that calls abort(3).
            Outcome::Trapped { .. } => 134,
            Outcome::OutOfMemory => 137,
        }
    }

    /// The limit that ended it, if any.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Outcome::TimedOut => Some(Limit::Timeout),
            Outcome::OutOfMemory => Some(Limit::Memory),
            Outcome::LimitExceeded { limit } => Some(*limit),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Denied { .. }
            | Outcome::NotStarted { .. }
            | Outcome::Trapped { .. }
            | Outcome::Cancelled
            | Outcome::EngineLost => None,
        }
    }
}

/// Whether the readers of the output are still connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// No reader closed its end.
    Stayed,
    /// A reader closed its end, and the program got SIGPIPE or EPIPE.
    Left,
}

/// The outcome of a program that the engine did not stop.
pub(crate) fn of_end(
    end: Result<ProcessEnd, Error>,
    observed: &SandboxUsage,
    reader: Reader,
) -> Result<Outcome, RunError> {
    let starved = observed.oom_kills > 0;
    Ok(match end {
        Ok(ProcessEnd::Exited { code }) => Outcome::Exited { code },
        Ok(ProcessEnd::Signaled { signal: SIGKILL }) if starved => Outcome::OutOfMemory,
        // The program died of SIGPIPE because its reader closed the pipe.
        Ok(ProcessEnd::Signaled { signal: SIGPIPE }) if reader == Reader::Left => {
            Outcome::Cancelled
        }
        Ok(ProcessEnd::Signaled { signal }) => Outcome::Signaled { signal },
        Ok(ProcessEnd::NotStarted { errno, program, refused_call }) => {
            Outcome::NotStarted { errno, program, refused_call }
        }
        Ok(ProcessEnd::Trapped { reason }) => Outcome::Trapped { reason },
        // Fuel limits processor time.
        Ok(ProcessEnd::OutOfFuel) => Outcome::LimitExceeded { limit: Limit::CpuTime },
        Ok(ProcessEnd::LimitExceeded { limit: Limit::Timeout }) => Outcome::TimedOut,
        Ok(ProcessEnd::LimitExceeded { limit: Limit::Memory }) => Outcome::OutOfMemory,
        Ok(ProcessEnd::LimitExceeded { limit }) => Outcome::LimitExceeded { limit },
        Ok(ProcessEnd::SandboxEnded { signal: Some(SIGKILL) }) if starved => Outcome::OutOfMemory,
        Ok(ProcessEnd::SandboxEnded { .. }) => Outcome::EngineLost,
        Err(error) => match error.kind() {
            ErrorKind::Lost => Outcome::EngineLost,
            ErrorKind::Invalid
            | ErrorKind::Unenforceable
            | ErrorKind::Unavailable
            | ErrorKind::Busy
            | ErrorKind::Internal => return Err(error.into()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(end: ProcessEnd, oom_kills: u64) -> Outcome {
        let observed = SandboxUsage { oom_kills, ..SandboxUsage::default() };
        of_end(Ok(end), &observed, Reader::Stayed).unwrap()
    }

    #[test]
    fn out_of_memory_requires_an_oom_kill_of_the_main_process() {
        let killed = ProcessEnd::Signaled { signal: 9 };
        assert_eq!(outcome(killed.clone(), 1), Outcome::OutOfMemory);
        assert_eq!(outcome(killed, 0), Outcome::Signaled { signal: 9 });
        let first = ProcessEnd::SandboxEnded { signal: Some(9) };
        assert_eq!(outcome(first.clone(), 1), Outcome::OutOfMemory);
        assert_eq!(outcome(first, 0), Outcome::EngineLost);
        let by_itself = ProcessEnd::SandboxEnded { signal: None };
        assert_eq!(outcome(by_itself, 1), Outcome::EngineLost);
        assert_eq!(
            outcome(ProcessEnd::Signaled { signal: 11 }, 1),
            Outcome::Signaled { signal: 11 }
        );
    }

    #[test]
    fn end_without_a_wait_status_has_its_own_outcome() {
        let reason = "unreachable executed".to_owned();
        let trapped = outcome(ProcessEnd::Trapped { reason: reason.clone() }, 0);
        assert_eq!((trapped.as_str(), trapped.cli_code()), ("trapped", 134));
        assert_eq!(trapped, Outcome::Trapped { reason });
        let limit = Limit::CpuTime;
        assert_eq!(outcome(ProcessEnd::OutOfFuel, 0), Outcome::LimitExceeded { limit });
        let over = |limit| outcome(ProcessEnd::LimitExceeded { limit }, 0);
        assert_eq!(over(Limit::Timeout), Outcome::TimedOut);
        assert_eq!(over(Limit::Memory), Outcome::OutOfMemory);
        assert_eq!(over(Limit::Pids), Outcome::LimitExceeded { limit: Limit::Pids });
    }

    #[test]
    fn program_that_exits_with_137_has_exited() {
        let outcome = outcome(ProcessEnd::Exited { code: 137 }, 3);
        assert_eq!(outcome, Outcome::Exited { code: 137 });
        assert_eq!(outcome.cli_code(), 137);
    }

    #[test]
    fn program_killed_by_sigpipe_is_cancelled_and_one_that_exits_has_exited() {
        let end = |end, reader| of_end(Ok(end), &SandboxUsage::default(), reader).unwrap();
        let piped = ProcessEnd::Signaled { signal: 13 };
        assert_eq!(end(piped.clone(), Reader::Left), Outcome::Cancelled);
        assert_eq!(end(piped, Reader::Stayed), Outcome::Signaled { signal: 13 });
        let exited = end(ProcessEnd::Exited { code: 3 }, Reader::Left);
        assert_eq!(exited, Outcome::Exited { code: 3 });
    }

    #[test]
    fn lost_sandbox_is_an_outcome_and_any_other_failure_an_error() {
        let end = |kind| {
            let error = Err(Error::new(kind, "gone"));
            of_end(error, &SandboxUsage::default(), Reader::Stayed)
        };
        assert_eq!(end(ErrorKind::Lost).unwrap(), Outcome::EngineLost);
        assert!(matches!(end(ErrorKind::Internal), Err(RunError::Wall(_))));
    }

    #[test]
    fn every_outcome_has_its_own_exit_code() {
        let program = "x".to_owned();
        let limit = Limit::CpuTime;
        let codes = [
            (Outcome::Exited { code: 3 }, 3),
            (Outcome::Signaled { signal: 15 }, 143),
            (Outcome::Signaled { signal: 300 }, 255),
            (Outcome::TimedOut, 124),
            (Outcome::OutOfMemory, 137),
            (Outcome::LimitExceeded { limit }, 122),
            (Outcome::NotStarted { errno: 2, program, refused_call: None }, 127),
            (Outcome::Cancelled, 130),
            (Outcome::EngineLost, 125),
        ];
        for (outcome, code) in codes {
            assert_eq!(outcome.cli_code(), code, "{outcome:?}");
        }
    }
}
