//! The event of one tool call.

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

use crate::shorten::cut_text;

/// One tool call, recorded when it has ended in any way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The execution; `None` if it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The number of the call in its session.
    pub call: u64,
    /// The requested tool name, whether or not such a tool exists.
    pub tool: String,
    /// What was decided.
    pub verdict: Effect,
    /// The policy line or fixed rule that decided.
    pub rule: String,
    /// The denial, exactly as the program saw it.
    pub denial: Option<Denial>,
    /// [`ToolCall::ANSWERED`], or the code of the error that the program received.
    pub outcome: String,
    /// From the request to the answer, in milliseconds.
    pub duration_ms: u64,
    /// The size of the arguments as received.
    pub argument_bytes: u64,
    /// The size of the result; zero for an error.
    pub result_bytes: u64,
    /// The arguments as JSON, if the policy asks to record them.
    pub arguments: Option<String>,
}

impl ToolCall {
    /// The outcome of a call that was answered with a result.
    pub const ANSWERED: &str = "answered";

    /// The maximum size of a recorded name; a policy cannot name a longer one.
    pub const MAX_TOOL_BYTES: usize = 128;

    /// The maximum size of recorded arguments.
    pub const MAX_ARGUMENT_BYTES: usize = 4096;

    /// Cuts the texts that come from inside to these limits. The sizes stay unchanged.
    #[must_use]
    pub fn bounded(mut self) -> ToolCall {
        cut_text(&mut self.tool, ToolCall::MAX_TOOL_BYTES);
        if let Some(arguments) = &mut self.arguments {
            cut_text(arguments, ToolCall::MAX_ARGUMENT_BYTES);
        }
        self
    }
}
