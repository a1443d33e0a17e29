//! What came of one call to a tool.

use serde::{Deserialize, Serialize};
use stockade_policy::{Denial, Effect};

use crate::shorten::cut_text;

/// One call to a tool, told when it has ended, however it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Whose; missing where it belongs to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The number of the call in its session.
    pub call: u64,
    /// The tool that was asked for, whether there is one of that name or not.
    pub tool: String,
    /// What was decided.
    pub verdict: Effect,
    /// The line or fixed rule that decided.
    pub rule: String,
    /// The refusal, word for word as the program saw it.
    pub denial: Option<Denial>,
    /// [`ToolCall::ANSWERED`], or the code of the error that the program got.
    pub outcome: String,
    /// From the request to the answer, in milliseconds.
    pub duration_ms: u64,
    /// Bytes of the arguments as they came.
    pub argument_bytes: u64,
    /// Bytes of the result; none for an error.
    pub result_bytes: u64,
    /// The arguments as JSON, where the policy says that they are recorded.
    pub arguments: Option<String>,
}

impl ToolCall {
    /// The outcome of a call that was answered with a result.
    pub const ANSWERED: &str = "answered";

    /// The most bytes of a name that are kept; a policy cannot name a longer one.
    pub const MAX_TOOL_BYTES: usize = 128;

    /// The most bytes of arguments that are kept.
    pub const MAX_ARGUMENT_BYTES: usize = 4096;

    /// The same with what comes from inside cut to what is kept. The sizes stay as they were.
    #[must_use]
    pub fn bounded(mut self) -> ToolCall {
        cut_text(&mut self.tool, ToolCall::MAX_TOOL_BYTES);
        if let Some(arguments) = &mut self.arguments {
            cut_text(arguments, ToolCall::MAX_ARGUMENT_BYTES);
        }
        self
    }
}
