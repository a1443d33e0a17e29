//! Trees of files as tar archives, sent and fetched file by file: the service has no archives.

use std::io::{self, Read};

use hyper::body::Bytes;
use stockade_provider::{
    FileBytes, FileError, FileErrorKind, FileKind, FileOperation, FilePath, FinalLink, Transfer,
};
use tar::{Archive, Builder, EntryType, Header};
use tokio::io::AsyncReadExt;

use crate::files::{Doing, RemoteFiles};

/// The most bytes of an archive, which is held in memory.
const MOST_BYTES: u64 = 256 << 20;
/// The most entries of a tree.
const MOST_ENTRIES: usize = 10_000;
const EVERY_LEVEL: u32 = 256;

/// One entry of an archive of the caller.
struct Unpacked {
    path: FilePath,
    content: Option<Bytes>,
    executable: bool,
}

/// Unpacks an archive into a directory, file by file. Links and special files are left out.
pub(crate) async fn upload(
    files: &RemoteFiles,
    path: &FilePath,
    archive: FileBytes,
) -> Result<Transfer, FileError> {
    let doing = Doing { operation: FileOperation::Upload, path };
    let mut bytes = Vec::new();
    archive
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(|_| doing.plain(FileErrorKind::Incomplete))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(doing.plain(FileErrorKind::TooLarge));
    }
    let (entries, left_out) = unpacked(doing, &bytes)?;
    let mut transfer = Transfer { bytes: 0, left_out };
    for Unpacked { path: below, content, executable } in entries {
        let mut whole = path.as_bytes().to_vec();
        whole.push(b'/');
        whole.extend_from_slice(below.as_bytes());
        let target = FilePath::new(whole).map_err(|_| doing.plain(FileErrorKind::NameTooLong))?;
        let doing = Doing { operation: FileOperation::Upload, path: &target };
        match content {
            Some(content) => {
                transfer.bytes += content.len() as u64;
                files.write_bytes(doing, content, executable).await?;
            }
            None => make_directory(files, doing).await?,
        }
    }
    Ok(transfer)
}

async fn make_directory(files: &RemoteFiles, doing: Doing<'_>) -> Result<(), FileError> {
    match files.stat_of(doing).await {
        Ok(found) if found.kind == FileKind::Directory => return Ok(()),
        Ok(_) => return Err(doing.plain(FileErrorKind::NotADirectory)),
        Err(error) if error.kind == FileErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let made = files.service.make_directory(&files.id, &doing.text()?).await;
    made.map_err(|error| doing.failed(error))
}

/// The directories and regular files of an archive, and how many other entries it has.
fn unpacked(doing: Doing<'_>, bytes: &[u8]) -> Result<(Vec<Unpacked>, u64), FileError> {
    let damaged = |_: io::Error| doing.plain(FileErrorKind::Archive);
    let mut archive = Archive::new(bytes);
    let (mut found, mut left_out) = (Vec::new(), 0);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let name = entry.path_bytes().into_owned();
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        let name = name.strip_prefix(b"./").unwrap_or(name);
        if name.is_empty() || name == b"." {
            continue;
        }
        let path = FilePath::below(name).map_err(|_| doing.plain(FileErrorKind::Archive))?;
        if found.len() >= MOST_ENTRIES {
            return Err(doing.plain(FileErrorKind::TooLarge));
        }
        match entry.header().entry_type() {
            EntryType::Directory => {
                found.push(Unpacked { path, content: None, executable: false });
            }
            EntryType::Regular | EntryType::Continuous => {
                let mode = entry.header().mode().map_err(damaged)?;
                let mut content = Vec::new();
                entry.read_to_end(&mut content).map_err(damaged)?;
                let (content, executable) = (Some(Bytes::from(content)), mode & 0o100 != 0);
                found.push(Unpacked { path, content, executable });
            }
            _ => left_out += 1,
        }
    }
    Ok((found, left_out))
}

/// A file or a tree as an archive; its first entry is the file or directory itself.
pub(crate) async fn download(files: &RemoteFiles, path: &FilePath) -> Result<FileBytes, FileError> {
    let doing = Doing { operation: FileOperation::Download, path };
    let text = path.as_bytes();
    let name = text.split(|byte| *byte == b'/').rfind(|part| !part.is_empty() && *part != b".");
    let name = String::from_utf8_lossy(name.unwrap_or(b"workspace")).into_owned();
    let failed = |_: io::Error| doing.plain(FileErrorKind::Other);
    let mut builder = Builder::new(Vec::new());
    let found = stockade_provider::Files::stat(files, path, FinalLink::Follow).await?;
    if found.kind != FileKind::Directory {
        let content = files.bytes_of(doing).await?;
        append(&mut builder, &name, Some(&content), found.mode, found.modified).map_err(failed)?;
        return Ok(Box::new(io::Cursor::new(builder.into_inner().map_err(failed)?)));
    }
    append(&mut builder, &name, None, found.mode, found.modified).map_err(failed)?;
    let mut total = 0_u64;
    for entry in files.walk(doing, EVERY_LEVEL, MOST_ENTRIES).await? {
        let below = String::from_utf8_lossy(entry.path.as_bytes()).into_owned();
        let inside = format!("{name}/{below}");
        let content = match entry.stat.kind {
            FileKind::Directory => None,
            _ => {
                let mut whole = text.to_vec();
                whole.push(b'/');
                whole.extend_from_slice(entry.path.as_bytes());
                let whole = FilePath::new(whole);
                let whole = whole.map_err(|_| doing.plain(FileErrorKind::NameTooLong))?;
                let doing = Doing { operation: FileOperation::Download, path: &whole };
                Some(files.bytes_of(doing).await?)
            }
        };
        total += content.as_ref().map_or(0, |content| content.len() as u64);
        if total > MOST_BYTES {
            return Err(doing.plain(FileErrorKind::TooLarge));
        }
        let (mode, modified) = (entry.stat.mode, entry.stat.modified);
        append(&mut builder, &inside, content.as_deref(), mode, modified).map_err(failed)?;
    }
    Ok(Box::new(io::Cursor::new(builder.into_inner().map_err(failed)?)))
}

/// Adds a file, or a directory if it has no content.
fn append(
    builder: &mut Builder<Vec<u8>>,
    name: &str,
    content: Option<&[u8]>,
    mode: u32,
    modified: i64,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    let (kind, usual) = match content {
        Some(_) => (EntryType::Regular, 0o644),
        None => (EntryType::Directory, 0o755),
    };
    header.set_entry_type(kind);
    header.set_mode(if mode == 0 { usual } else { mode & 0o777 });
    header.set_mtime(u64::try_from(modified).unwrap_or(0));
    let content = content.unwrap_or_default();
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, name, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_of_a_caller_keeps_files_and_directories_and_leaves_links_out() {
        let mut builder = Builder::new(Vec::new());
        append(&mut builder, "d", None, 0o755, 0).unwrap();
        append(&mut builder, "d/run", Some(b"x"), 0o755, 0).unwrap();
        append(&mut builder, "plain", Some(b""), 0o644, 0).unwrap();
        let mut link = Header::new_gnu();
        link.set_entry_type(EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "link", "/etc/passwd").unwrap();
        let bytes = builder.into_inner().unwrap();
        let path = FilePath::try_from("/workspace").unwrap();
        let doing = Doing { operation: FileOperation::Upload, path: &path };
        let (found, left_out) = unpacked(doing, &bytes).unwrap();
        let found: Vec<(String, bool, bool)> = found
            .iter()
            .map(|it| (it.path.to_string(), it.content.is_some(), it.executable))
            .collect();
        let expected = [("d", false, false), ("d/run", true, true), ("plain", true, false)];
        let expected = expected.map(|(path, file, runs)| (path.to_owned(), file, runs));
        assert_eq!((found, left_out), (expected.to_vec(), 1));
    }

    #[test]
    fn archive_that_leads_elsewhere_is_refused() {
        let path = FilePath::try_from("/workspace").unwrap();
        let doing = Doing { operation: FileOperation::Upload, path: &path };
        for name in ["../x", "/etc/x", "a/../../x"] {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_size(0);
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            let mut bytes = header.as_bytes().to_vec();
            bytes.extend([0; 1024]);
            assert!(unpacked(doing, &bytes).is_err(), "{name}");
        }
        assert!(unpacked(doing, &[7; 2048]).is_err());
    }
}
