//! Reading files that the kernel makes up as they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// More than most of them have.
const USUAL_BYTES: usize = 8 << 10;

/// The text of a file below `/proc` or `/sys`. These say nothing of their length: they are not asked
/// for it, and not read in a dozen small steps.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL_BYTES);
    File::open(path)?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The same where names of files are in it, which may be in any encoding.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
