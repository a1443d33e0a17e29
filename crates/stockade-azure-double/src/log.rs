//! What reached the double.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One request with its response's status.
#[derive(Clone, Debug, PartialEq)]
pub struct Logged {
    /// The method.
    pub method: String,
    /// The header `Host`.
    pub host: String,
    /// The path.
    pub path: String,
    /// The decoded query.
    pub query: BTreeMap<String, String>,
    /// The body: JSON, or `{"bytes": N}`, or null.
    pub body: Value,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The status; 0 if no response was sent.
    pub status: u16,
}

impl Logged {
    /// The entry as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "method": self.method,
            "host": self.host,
            "path": self.path,
            "query": self.query,
            "body": self.body,
            "content_type": self.content_type,
            "status": self.status,
        })
    }
}
