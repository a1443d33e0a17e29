//! Parsers of untrusted input, for fuzz targets; not part of the public API.

use std::path::Path;

use serde_json::Value;

use crate::broker::read_request;
use crate::file::ToolsFile;
use crate::json::{Bounds, measure, read};

/// Parses a value and a request. The value must equal what serde_json parses, and survive a round
/// trip.
pub fn request(bytes: &[u8]) {
    let bounds = Bounds { bytes: 4096, depth: 16 };
    if let Ok(value) = read(bytes, bounds) {
        let others: Value = serde_json::from_slice(bytes).expect("serde_json parses what we parse");
        assert_eq!(value, others, "serde_json parses the same value");
        let wide = Bounds { bytes: usize::MAX, ..bounds };
        let text = value.to_string();
        assert_eq!(measure(&value, wide), Ok(text.len()), "measured and written length agree");
        assert_eq!(
            read(text.as_bytes(), wide).as_ref(),
            Ok(&value),
            "the text parses to the same value"
        );
    }
    read_request(bytes, bounds);
}

/// Checks a tools file. A refusal names a location.
pub fn tools_file(bytes: &[u8]) {
    if let Err(error) = ToolsFile::parse("tools.yaml", bytes, Path::new("/srv")) {
        let mistakes = error.diagnostics();
        assert!(!mistakes.is_empty() && mistakes.iter().all(|mistake| mistake.line > 0));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn almost_valid_requests_parse_as_in_serde_json_or_are_refused(
            start in prop::sample::select(vec!["{\"id\":1,\"call\":\"a\",\"arguments\":", "[", ""]),
            rest in "[\\[\\]{}:,\"a0-9.eE+\\\\ -]{0,40}",
        ) {
            super::request(format!("{start}{rest}").as_bytes());
        }

        #[test]
        fn almost_valid_files_are_accepted_or_refused(rest in "[a-z0-9:{}\\[\\]&*!'\"|> \n-]{0,200}") {
            super::tools_file(rest.as_bytes());
            super::tools_file(format!("tools:\n  - name: a\n    {rest}").as_bytes());
        }
    }
}
