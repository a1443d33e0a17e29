//! The parsers of what comes from others, for fuzz targets; no part of the interface.

use std::path::Path;

use serde_json::Value;

use crate::desk::read_request;
use crate::file::ToolsFile;
use crate::json::{Bounds, measure, read};

/// Reads a value and a request. What is read is what others read, and reads the same again.
pub fn request(bytes: &[u8]) {
    let bounds = Bounds { bytes: 4096, depth: 16 };
    if let Ok(value) = read(bytes, bounds) {
        let others: Value = serde_json::from_slice(bytes).expect("others read what we read");
        assert_eq!(value, others, "others read the same");
        let wide = Bounds { bytes: usize::MAX, ..bounds };
        let text = value.to_string();
        assert_eq!(measure(&value, wide), Ok(text.len()), "a value is measured as it is written");
        assert_eq!(read(text.as_bytes(), wide).as_ref(), Ok(&value), "it reads the same again");
    }
    read_request(bytes, bounds);
}

/// Checks a file of tools. A refusal names a place.
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
        fn nearly_requests_are_read_as_others_do_or_refused(
            start in prop::sample::select(vec!["{\"id\":1,\"call\":\"a\",\"arguments\":", "[", ""]),
            rest in "[\\[\\]{}:,\"a0-9.eE+\\\\ -]{0,40}",
        ) {
            super::request(format!("{start}{rest}").as_bytes());
        }

        #[test]
        fn nearly_files_are_checked_or_refused(rest in "[a-z0-9:{}\\[\\]&*!'\"|> \n-]{0,200}") {
            super::tools_file(rest.as_bytes());
            super::tools_file(format!("tools:\n  - name: a\n    {rest}").as_bytes());
        }
    }
}
