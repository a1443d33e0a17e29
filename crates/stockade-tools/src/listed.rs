//! The description of a tool for programs inside.

use serde::Serialize;
use serde_json::Value;

/// One tool as programs inside see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
}
