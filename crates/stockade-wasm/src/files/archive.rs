//! Files of the tree as tar archives.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use stockade_provider::{FileBytes, FileErrorKind, Transfer};
use tar::{Archive, Builder, EntryType, Header};
use tokio::io::AsyncReadExt;

use super::Fault;
use super::node::{Kind, Node};
use super::provided::{Failure, stat_of};
use super::tree::{Opening, Place, Tree};

/// The largest archive that is unpacked; its content is charged to the sandbox in addition.
const MAX_ARCHIVE: u64 = 1 << 30;
/// The most entries of an archive.
const MAX_ENTRIES: usize = 200_000;

/// Unpacks an archive into a directory.
pub(super) async fn unpack(
    tree: &Tree,
    directory: &str,
    archive: FileBytes,
) -> Result<Transfer, Failure> {
    let mut bytes = Vec::new();
    let incomplete =
        |error: io::Error| Failure::Because(FileErrorKind::Incomplete, Box::new(error));
    archive.take(MAX_ARCHIVE + 1).read_to_end(&mut bytes).await.map_err(incomplete)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_ARCHIVE {
        return Err(Failure::Kind(FileErrorKind::TooLarge));
    }
    let root = tree.root();
    let mut transfer = Transfer::default();
    let mut archive = Archive::new(Cursor::new(bytes));
    let damaged = |error: io::Error| Failure::Because(FileErrorKind::Archive, Box::new(error));
    for (count, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(Failure::Kind(FileErrorKind::TooLarge));
        }
        let mut entry = entry.map_err(damaged)?;
        let name = checked_name(&entry.path_bytes())?;
        if name.is_empty() {
            continue;
        }
        let path = format!("{directory}/{name}");
        make_above(tree, &root, directory, &name)?;
        match entry.header().entry_type() {
            EntryType::Directory => match tree.make_directory(&root, &path) {
                Ok(()) | Err(Fault::Exists) => {}
                Err(fault) => return Err(fault.into()),
            },
            EntryType::Regular | EntryType::Continuous => {
                let is_executable = entry.header().mode().unwrap_or(0) & 0o100 != 0;
                transfer.bytes += write(tree, &root, &path, &mut entry, is_executable)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().map(|name| name.into_owned());
                let target = target.and_then(|name| String::from_utf8(name).ok());
                let target = target.ok_or(Failure::Kind(FileErrorKind::Archive))?;
                tree.make_link(&root, &path, &target)?;
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => transfer.left_out += 1,
            EntryType::XGlobalHeader => {}
            _ => return Err(Failure::Kind(FileErrorKind::Archive)),
        }
    }
    Ok(transfer)
}

/// The name of an entry, without what leads elsewhere.
fn checked_name(bytes: &[u8]) -> Result<String, Failure> {
    let name = std::str::from_utf8(bytes).map_err(|_| Failure::Kind(FileErrorKind::Archive))?;
    let parts: Vec<&str> =
        name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if name.starts_with('/') || parts.contains(&"..") {
        return Err(Failure::Kind(FileErrorKind::Archive));
    }
    Ok(parts.join("/"))
}

fn make_above(tree: &Tree, root: &Place, directory: &str, name: &str) -> Result<(), Failure> {
    let Some((above, _)) = name.rsplit_once('/') else { return Ok(()) };
    let mut path = directory.to_owned();
    for part in above.split('/') {
        path = format!("{path}/{part}");
        match tree.make_directory(root, &path) {
            Ok(()) | Err(Fault::Exists) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}

fn write(
    tree: &Tree,
    root: &Place,
    path: &str,
    content: &mut impl Read,
    is_executable: bool,
) -> Result<u64, Failure> {
    // A link of the archive itself is not written through.
    let how = Opening {
        create: true,
        write: true,
        truncate: true,
        keep_link: true,
        ..Opening::default()
    };
    let (node, _) = tree.open(root, path, how)?;
    let mut piece = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        let damaged = |error: io::Error| Failure::Because(FileErrorKind::Archive, Box::new(error));
        let count = content.read(&mut piece).map_err(damaged)?;
        if count == 0 {
            break;
        }
        node.write(None, &piece[..count])?;
        total += u64::try_from(count).expect("usize has at most 64 bits");
    }
    if is_executable {
        node.make_executable();
    }
    Ok(total)
}

/// A file or a tree as an archive.
pub(super) fn pack(node: &Arc<Node>, name: &str) -> Result<Vec<u8>, Failure> {
    let mut builder = Builder::new(Vec::new());
    add(&mut builder, node, name, 0)?;
    builder.into_inner().map_err(|error| Failure::Because(FileErrorKind::Other, Box::new(error)))
}

fn add(
    builder: &mut Builder<Vec<u8>>,
    node: &Arc<Node>,
    path: &str,
    depth: usize,
) -> Result<(), Failure> {
    // Renames of whole trees make deeper ones than any path can name.
    if depth > Tree::MAX_DEPTH {
        return Err(Failure::Kind(FileErrorKind::TooLarge));
    }
    let failed = |error: io::Error| Failure::Because(FileErrorKind::Other, Box::new(error));
    let mut header = Header::new_gnu();
    header.set_mode(stat_of(node).mode);
    let modified = node.modified().duration_since(UNIX_EPOCH);
    header.set_mtime(modified.map_or(0, |since| since.as_secs()));
    match &node.kind {
        Kind::File(_) => {
            let bytes = node.read(0, usize::MAX)?;
            header.set_entry_type(EntryType::Regular);
            header.set_size(u64::try_from(bytes.len()).expect("usize has at most 64 bits"));
            builder.append_data(&mut header, path, bytes.as_slice()).map_err(failed)
        }
        Kind::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, path, target).map_err(failed)
        }
        Kind::Directory(_) => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            builder.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failed)?;
            let children: Vec<(String, Arc<Node>)> = node
                .entries()?
                .iter()
                .map(|(name, node)| (name.clone(), Arc::clone(node)))
                .collect();
            for (name, child) in children {
                add(builder, &child, &format!("{path}/{name}"), depth + 1)?;
            }
            Ok(())
        }
        // As the other walls, which leave devices out.
        Kind::Null => Ok(()),
    }
}
