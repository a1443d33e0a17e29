//! Parsers of untrusted input, for fuzz targets; not part of the public API.

use stockade_archive::Entries;

use crate::ImageConfig;
use crate::layer::Checking;
use crate::model::{Configuration, document};
use crate::tree::MOST_DEPTH;
use crate::users::user_in;

/// Checks bytes as a layer: no whiteout names a directory above its own.
pub fn layer(bytes: &[u8]) {
    let mut entries = Entries::new(bytes);
    let mut checking = Checking::new("layer", 1000);
    while let Ok(Some(entry)) = entries.next_entry() {
        if checking.entry(&entry).is_err() {
            break;
        }
    }
    for whiteout in &checking.whiteouts {
        let parts = whiteout.parts();
        assert!(parts.len() <= MOST_DEPTH);
        assert!(parts.iter().all(|part| *part != b"." && *part != b".."));
    }
}

/// Reads bytes as the configuration of an image, and as its file of users.
pub fn documents(bytes: &[u8]) {
    if let Ok(configuration) = document::<Configuration>(bytes) {
        let config = ImageConfig::of(&configuration);
        for (name, value) in config.variables().kept {
            assert!(!name.to_ascii_uppercase().starts_with("LD_") && !value.contains('\0'));
        }
        let _ = config.own_program(&[]);
    }
    let text = String::from_utf8_lossy(bytes);
    for name in ["agent", "0", "1000", text.split(':').next().unwrap_or_default()] {
        if let Ok(found) = user_in(&text, name) {
            assert!(found.user != 0 && found.group != 0);
        }
    }
}
