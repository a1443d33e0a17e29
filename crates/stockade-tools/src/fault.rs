//! Why a call has no result, as the program that made it is told.

use std::fmt;

use crate::json::JsonError;
use crate::words::{MAX_MESSAGE, harmless};

/// What kind of trouble it is, as one word of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The policy refused.
    Denied,
    /// The policy lists the tool, and nobody offers it.
    Unknown,
    /// The request is not one.
    InvalidRequest,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The tool's result is not JSON or does not fit its schema.
    InvalidResult,
    /// The arguments or the result are larger than the policy allows.
    TooLarge,
    /// The same for their nesting.
    TooDeep,
    /// More calls than the policy allows in a second.
    TooMany,
    /// More calls than the policy allows at all.
    Limit,
    /// The tool took too long.
    TimedOut,
    /// The tool says so.
    Failed,
    /// The execution ended, or whoever asked is gone.
    Cancelled,
    /// The tool crashed, flooded, or is gone.
    Broken,
}

impl Code {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Code::Denied => "denied",
            Code::Unknown => "unknown",
            Code::InvalidRequest => "invalid_request",
            Code::InvalidArguments => "invalid_arguments",
            Code::InvalidResult => "invalid_result",
            Code::TooLarge => "too_large",
            Code::TooDeep => "too_deep",
            Code::TooMany => "too_many",
            Code::Limit => "limit",
            Code::TimedOut => "timed_out",
            Code::Failed => "failed",
            Code::Cancelled => "cancelled",
            Code::Broken => "broken",
        }
    }
}

/// A kind and one sentence about it, short and printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: Code, message: impl AsRef<str>) -> Fault {
        // One line, whatever a tool says.
        let lines: Vec<&str> = message.as_ref().lines().map(str::trim).collect();
        Fault { code, message: harmless(lines.join(" ").trim(), MAX_MESSAGE) }
    }

    /// The tool says that it failed.
    pub(crate) fn failed(message: impl AsRef<str>) -> Fault {
        Fault::new(Code::Failed, message)
    }

    /// The tool did not do its part.
    pub(crate) fn broken(message: impl AsRef<str>) -> Fault {
        Fault::new(Code::Broken, message)
    }

    /// The result of a tool that cannot be passed on.
    pub(crate) fn result(error: &JsonError) -> Fault {
        let (code, remedy) = match error {
            JsonError::TooLarge { .. } => {
                (Code::TooLarge, "; ask the tool for less, or raise max_tool_bytes in the policy")
            }
            JsonError::TooDeep { .. } => (Code::TooDeep, "; max_tool_depth in the policy says so"),
            JsonError::Invalid { .. } => (Code::InvalidResult, ""),
        };
        Fault::new(code, format!("the tool's result {error}{remedy}"))
    }
}

/// What a tool says when it fails. The program that called it sees the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailure {
    message: String,
}

impl ToolFailure {
    /// A failure with one sentence for the program that made the call.
    pub fn new(message: impl fmt::Display) -> ToolFailure {
        ToolFailure { message: message.to_string() }
    }
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ToolFailure {}
