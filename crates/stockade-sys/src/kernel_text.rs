//! Reading the files of `/proc` and `/sys`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Larger than most of these files.
const INITIAL_BYTES: usize = 8 << 10;

/// Reads a file below `/proc` or `/sys` as text. Their reported length is 0 or a page, so this
/// neither requests the length nor reads in the small steps of `fs::read`.
pub fn kernel_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(INITIAL_BYTES);
    File::open(path)?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Like [`kernel_text`], for files that contain file names, which may be in any encoding.
pub fn kernel_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_BYTES);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A path as a field of mountinfo has it: undoes the octal escapes for space, tab, newline and
/// backslash.
pub fn unescape_path(field: impl AsRef<[u8]>) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.as_ref().len());
    let mut rest = field.as_ref();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\');
        let code = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
