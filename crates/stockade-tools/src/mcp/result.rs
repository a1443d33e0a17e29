//! Converts the answer of an MCP server to a tool's result.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value;

use crate::fault::Fault;
use crate::json::{Bounds, JsonError, read};

/// The structured content if any, otherwise the only item, otherwise all items.
pub(super) fn of(result: CallToolResult, bounds: Bounds) -> Result<Value, Fault> {
    if result.is_error == Some(true) {
        return Err(failure(&result));
    }
    if let Some(structured) = result.structured_content {
        return Ok(structured);
    }
    let items: Result<Vec<Value>, Fault> =
        result.content.into_iter().map(|item| item_of(item, bounds)).collect();
    let mut items = items?;
    match items.len() {
        0 => Ok(Value::Null),
        1 => Ok(items.swap_remove(0)),
        _ => Ok(Value::Array(items)),
    }
}

/// A text that is JSON is parsed, any other text stays a string, and other content keeps its form
/// in the protocol.
fn item_of(item: ContentBlock, bounds: Bounds) -> Result<Value, Fault> {
    match item {
        ContentBlock::Text(item) => match read(item.text.as_bytes(), bounds) {
            Ok(value) => Ok(value),
            Err(JsonError::Invalid { .. }) => Ok(Value::String(item.text)),
            Err(error) => Err(Fault::result(&error)),
        },
        other => serde_json::to_value(other)
            .map_err(|error| Fault::result(&JsonError::Invalid { why: error.to_string() })),
    }
}

fn failure(result: &CallToolResult) -> Fault {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|item| match item {
            ContentBlock::Text(item) => Some(item.text.trim()),
            _ => None,
        })
        .filter(|text| !text.is_empty())
        .collect();
    if texts.is_empty() {
        return Fault::failed("the tool failed and gave no reason");
    }
    Fault::failed(texts.join("; "))
}
