//! Why a call has no result, as sent to the program that made it.

use std::fmt;

use crate::json::JsonError;
use crate::words::{MAX_MESSAGE, harmless};

/// The kind of error, as one word of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The policy refused the call.
    Denied,
    /// The policy lists the tool, but the host does not offer it.
    Unknown,
    /// The request is not valid.
    InvalidRequest,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The tool's result is not JSON or does not fit its schema.
    InvalidResult,
    /// The arguments or the result are larger than the policy allows.
    TooLarge,
    /// The arguments or the result are nested deeper than the policy allows.
    TooDeep,
    /// More calls per second than the policy allows.
    TooMany,
    /// More calls in total than the policy allows.
    Limit,
    /// The tool took too long.
    TimedOut,
    /// The tool reported a failure.
    Failed,
    /// The execution ended, or the calling program is gone.
    Cancelled,
    /// The tool crashed, sent too much, or is gone.
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
        // One line, even if the tool's text has several.
        let lines: Vec<&str> = message.as_ref().lines().map(str::trim).collect();
        Fault { code, message: harmless(lines.join(" ").trim(), MAX_MESSAGE) }
    }

    /// The tool reported that it failed.
    pub(crate) fn failed(message: impl AsRef<str>) -> Fault {
        Fault::new(Code::Failed, message)
    }

    /// The tool crashed or violated its protocol.
    pub(crate) fn broken(message: impl AsRef<str>) -> Fault {
        Fault::new(Code::Broken, message)
    }

    /// The tool's result cannot be passed on.
    pub(crate) fn result(error: &JsonError) -> Fault {
        let (code, remedy) = match error {
            JsonError::TooLarge { .. } => {
                (Code::TooLarge, "; ask the tool for less, or raise max_tool_bytes in the policy")
            }
            JsonError::TooDeep { .. } => {
                (Code::TooDeep, "; the limit is max_tool_depth in the policy")
            }
            JsonError::Invalid { .. } => (Code::InvalidResult, ""),
        };
        Fault::new(code, format!("the tool's result {error}{remedy}"))
    }
}

/// The error of a tool that failed. The calling program sees the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFailure {
    message: String,
}

impl ToolFailure {
    /// A failure with one sentence for the calling program.
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
