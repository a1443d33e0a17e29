//! The archive with an image: an index of its files, and reading each of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use stockade_archive::{ArchiveError, Entries, EntryKind};

use crate::model::MOST_DOCUMENT;
use crate::{ImageError, Refusal};

/// The maximum number of files in an archive with an image.
const MOST_FILES: usize = 4096;

/// The files of an archive.
#[derive(Debug)]
pub(crate) struct Parcel {
    file: File,
    path: PathBuf,
    files: BTreeMap<String, Content>,
}

/// Where the content of a file is.
#[derive(Clone, Debug)]
enum Content {
    /// In the archive.
    Here { offset: u64, bytes: u64 },
    /// At another name: `docker save` links layers that are equal.
    Link(String),
}

impl Parcel {
    /// Opens an archive and lists its files.
    pub(crate) fn open(path: &Path) -> Result<Parcel, ImageError> {
        let failed = |doing| {
            let path = path.to_owned();
            move |source| ImageError::File { doing, path, source }
        };
        let file = File::open(path).map_err(failed("open"))?;
        if !file.metadata().map_err(failed("read"))?.is_file() {
            let source = io::Error::other("it is not a regular file");
            return Err(failed("read")(source));
        }
        let part = path.display().to_string();
        let again = file.try_clone().map_err(failed("read"))?;
        let mut source = Counted { source: BufReader::new(again), at: 0 };
        let mut magic = [0; 4];
        let read = source.source.read(&mut magic).map_err(failed("read"))?;
        source.source.rewind().map_err(failed("read"))?;
        if let Some(kind) = crate::stream::compression(&magic[..read]) {
            let kind = format!("a whole archive compressed with {kind}");
            return Err(ImageError::Refused { part, refusal: Refusal::Kind { kind } });
        }
        let files = list(source).map_err(|error| match error {
            Listing::Archive(source) => ImageError::Archive { part: part.clone(), source },
            Listing::Refused(name, refusal) => ImageError::Refused { part: name, refusal },
        })?;
        Ok(Parcel { file, path: path.to_owned(), files })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Opens a file for reading from its beginning.
    pub(crate) fn open_file(&self, name: &str) -> Result<(impl Read + use<>, u64), ImageError> {
        let refused = |refusal| ImageError::Refused { part: name.to_owned(), refusal };
        let mut place = self.files.get(name);
        if let Some(Content::Link(target)) = place {
            place = self.files.get(target);
        }
        let Some(Content::Here { offset, bytes }) = place else {
            return Err(refused(Refusal::Absent));
        };
        let failed = |source| ImageError::File { doing: "read", path: self.path.clone(), source };
        // A descriptor of its own has a position of its own.
        let mut file = File::open(format!("/proc/self/fd/{}", raw(&self.file))).map_err(failed)?;
        file.seek(SeekFrom::Start(*offset)).map_err(failed)?;
        Ok((BufReader::with_capacity(64 << 10, file).take(*bytes), *bytes))
    }

    /// A whole document.
    pub(crate) fn document(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let (mut source, bytes) = self.open_file(name)?;
        if bytes > MOST_DOCUMENT {
            let (part, refusal) = (name.to_owned(), Refusal::TooLarge);
            return Err(ImageError::Refused { part, refusal });
        }
        let mut document = Vec::new();
        let failed = |source| ImageError::File { doing: "read", path: self.path.clone(), source };
        source.read_to_end(&mut document).map_err(failed)?;
        Ok(document)
    }
}

fn raw(file: &File) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(file)
}

enum Listing {
    Archive(ArchiveError),
    Refused(String, Refusal),
}

/// Lists files by their plain names. Other names cannot be part of an image and are passed over.
fn list(source: Counted<BufReader<File>>) -> Result<BTreeMap<String, Content>, Listing> {
    let mut files = BTreeMap::new();
    let mut entries = Entries::new(source);
    let mut count = 0;
    while let Some(entry) = entries.next_entry().map_err(Listing::Archive)? {
        count += 1;
        if count > MOST_FILES {
            return Err(Listing::Refused("the archive".to_owned(), Refusal::TooLarge));
        }
        let Some(name) = plain(&entry.name) else { continue };
        let place = match entry.kind {
            EntryKind::File { bytes, .. } => Content::Here { offset: entries.source().at, bytes },
            EntryKind::Link { target } | EntryKind::HardLink { target } => {
                match link_target(&name, &target) {
                    Some(target) => Content::Link(target),
                    None => continue,
                }
            }
            EntryKind::Directory | EntryKind::Special => continue,
        };
        if files.insert(name.clone(), place).is_some() {
            return Err(Listing::Refused(name, Refusal::Twice));
        }
    }
    Ok(files)
}

/// A name as text without `./` before it; `None` if it is absolute, has `..`, or is not text.
fn plain(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?.trim_start_matches("./").trim_end_matches('/');
    let is_plain = !name.is_empty()
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    is_plain.then(|| name.to_owned())
}

/// The name that a link leads to, relative to the directory of the link; `None` if it leads outside.
fn link_target(name: &str, target: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(target).ok()?;
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            "" => return None,
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// A stream that knows its position.
struct Counted<R> {
    source: R,
    at: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_leads_to_a_name_in_the_archive_or_nowhere() {
        assert_eq!(link_target("a/layer.tar", b"../b/layer.tar").as_deref(), Some("b/layer.tar"));
        assert_eq!(link_target("layer.tar", b"./other").as_deref(), Some("other"));
        for out in [&b"../../x"[..], b"/etc/passwd", b"..", b""] {
            assert_eq!(link_target("a/layer.tar", out), None, "{out:?}");
        }
        assert_eq!(plain(b"./blobs/x").as_deref(), Some("blobs/x"));
        for wrong in [&b"../x"[..], b"/x", b"a//b", b"a/../b", b"\xff", b""] {
            assert_eq!(plain(wrong), None, "{wrong:?}");
        }
    }
}
