//! Results of tools as clients receive them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Problem;

/// The result of a tool.
pub(super) struct Answer {
    structured: Value,
    images: Vec<Image>,
}

/// A picture.
pub(super) struct Image {
    pub(super) mime_type: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    /// A structured result, which has the schema of the tool.
    pub(super) fn new(result: &impl Serialize) -> anyhow::Result<Answer> {
        Ok(Answer { structured: serde_json::to_value(result)?, images: Vec::new() })
    }

    /// Adds a picture, as image content.
    pub(super) fn with_image(mut self, image: Image) -> Answer {
        self.images.push(image);
        self
    }

    /// The result with its text form for clients that do not read structured results.
    pub(super) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::structured(self.structured);
        let images = self.images.into_iter();
        result.content.extend(images.map(|Image { mime_type, bytes }| {
            ContentBlock::image(STANDARD.encode(bytes), mime_type)
        }));
        result
    }
}

/// An error of a tool, with its remedy. Structured content is left out: it would have to have the
/// schema of the result.
pub(super) fn failure(error: &anyhow::Error) -> CallToolResult {
    let problem = error.downcast_ref::<Problem>();
    let message = problem.map_or_else(|| format!("{error:#}"), |problem| problem.message.clone());
    let remedy = problem.map_or("", |problem| problem.remedy.as_str());
    let mut error = json!({ "message": message, "remedy": remedy });
    let mistakes = problem.map_or(&[][..], |problem| problem.diagnostics.as_slice());
    if !mistakes.is_empty() {
        error["mistakes"] = mistakes.iter().map(ToString::to_string).collect();
    }
    CallToolResult::error(vec![ContentBlock::text(json!({ "error": error }).to_string())])
}
