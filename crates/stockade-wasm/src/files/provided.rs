//! Operations of the caller on the files of a sandbox.
//!
//! They concern the tree in memory. The directories that the policy mounts are directories of the
//! host, and the caller has them there.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use futures_core::future::BoxFuture;
use stockade_policy::{Policy, WORKSPACE};
use stockade_provider::{
    FileBytes, FileEntry, FileError, FileErrorKind, FileKind, FileOperation, FilePart, FilePath,
    FileStat, FileWatch, FileWriteMode, FileWriting, Files, FinalLink, Transfer, WritablePlace,
};
use tokio::io::AsyncReadExt;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::Fault;
use super::node::{Kind, Node};
use super::tree::{Last, Opening, Place, Removed, Tree};
use super::{archive, state};
use crate::mounts::Mounts;

/// How many bytes of a stream are read at once.
const PIECE: usize = 64 << 10;

/// The files of one sandbox.
pub(crate) struct WasmFiles {
    tree: Arc<Tree>,
    mounts: Arc<Mounts>,
    /// What a checkpoint keeps.
    places: Vec<WritablePlace>,
}

/// A failure without its operation and path.
pub(super) enum Failure {
    Fault(Fault),
    Kind(FileErrorKind),
    Because(FileErrorKind, Box<dyn std::error::Error + Send + Sync>),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Fault(fault)
    }
}

impl WasmFiles {
    pub(crate) fn new(tree: Arc<Tree>, mounts: Arc<Mounts>, policy: &Policy) -> WasmFiles {
        let mut places = WritablePlace::of(policy);
        places.retain(|place| tree.is_writable_directory(&place.path.to_string()));
        WasmFiles { tree, mounts, places }
    }

    /// The path from the root, unless it is the host's.
    fn absolute(&self, path: &FilePath) -> Result<String, Failure> {
        let text = std::str::from_utf8(path.as_bytes());
        // Names inside are UTF-8, so nothing has this one.
        let text = text.map_err(|_| Failure::Kind(FileErrorKind::NotFound))?;
        let absolute = match path.is_absolute() {
            true => text.to_owned(),
            false => format!("{WORKSPACE}/{text}"),
        };
        let plain: Vec<&str> =
            absolute.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        let plain = format!("/{}", plain.join("/"));
        match self.mounts.above(&plain) {
            Some(mount) => {
                let why = format!(
                    "{} is {} of the host; use it there",
                    mount.guest,
                    mount.host.display()
                );
                Err(Failure::Because(FileErrorKind::Permission, why.into()))
            }
            None => Ok(plain),
        }
    }

    fn node(&self, path: &FilePath, last: Last) -> Result<(Arc<Node>, Place), Failure> {
        let found = self.tree.find(&self.tree.root(), &self.absolute(path)?, last)?;
        let node = found.node.ok_or(Fault::NotFound)?;
        let mut place = found.place;
        if node.is_directory() && !found.name.is_empty() {
            place.push(Arc::clone(&node));
        }
        Ok((node, place))
    }

    fn make_directories(&self, path: &str) -> Result<(), Fault> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut above = String::new();
        for name in names {
            above.push('/');
            above.push_str(name);
            match self.tree.make_directory(&self.tree.root(), &above) {
                Ok(()) | Err(Fault::Exists) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    async fn write_all(
        &self,
        path: &FilePath,
        how: FileWriting,
        mut content: FileBytes,
    ) -> Result<u64, Failure> {
        let path = self.absolute(path)?;
        let root = self.tree.root();
        if let Some((above, _)) = path.rsplit_once('/')
            && !above.is_empty()
        {
            self.make_directories(above)?;
        }
        let exists = self.tree.find(&root, &path, Last::Follow)?.node;
        if how.mode == FileWriteMode::Create && exists.is_some() {
            return Err(Fault::Exists.into());
        }
        if exists.as_ref().is_some_and(|node| node.is_directory()) {
            return Err(Fault::IsADirectory.into());
        }
        let was_executable = exists.is_some_and(|node| node.is_executable());
        // A new file gets its name when it is complete.
        let is_append = how.mode == FileWriteMode::Append;
        let target = if is_append { path.clone() } else { format!("{path}.{}", aside()) };
        let opening = Opening { create: true, write: true, ..Opening::default() };
        let (node, _) = self.tree.open(&root, &target, opening)?;
        let result = append(&node, &mut content).await;
        if result.is_ok() && (how.executable || was_executable) {
            node.make_executable();
        }
        if is_append {
            return result;
        }
        let placed = match result {
            Ok(count) => self
                .tree
                .rename((&root, &target), (&root, &path), how.mode == FileWriteMode::Replace)
                .map(|()| count)
                .map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        if placed.is_err() {
            // It has just been made.
            let _ = self.tree.remove(&root, &target, Removed::File);
        }
        placed
    }
}

/// Writes a stream to the end of a file.
async fn append(node: &Node, content: &mut FileBytes) -> Result<u64, Failure> {
    let mut piece = vec![0; PIECE];
    let mut total = 0;
    loop {
        let count = content
            .read(&mut piece)
            .await
            .map_err(|error| Failure::Because(FileErrorKind::Incomplete, Box::new(error)))?;
        if count == 0 {
            return Ok(total);
        }
        node.write(None, &piece[..count])?;
        total += u64::try_from(count).expect("usize has at most 64 bits");
    }
}

/// A name that is not in use.
fn aside() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}.stockade", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a node is, for the caller.
pub(super) fn stat_of(node: &Node) -> FileStat {
    let (kind, mode, target) = match &node.kind {
        Kind::File(_) if node.is_executable() => (FileKind::File, 0o755, None),
        Kind::File(_) => (FileKind::File, 0o644, None),
        Kind::Directory(_) => (FileKind::Directory, 0o755, None),
        Kind::Link(target) => (FileKind::Link, 0o777, Some(target.clone().into_bytes())),
        Kind::Null => (FileKind::Special, 0o666, None),
    };
    let modified = node.modified().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let modified = i64::try_from(modified).unwrap_or(i64::MAX);
    FileStat { kind, bytes: node.len(), mode, modified, target }
}

fn entries(
    node: &Node,
    prefix: &str,
    depth: u32,
    most: usize,
    list: &mut Vec<FileEntry>,
) -> Result<(), Failure> {
    let children: Vec<(String, Arc<Node>)> =
        node.entries()?.iter().map(|(name, node)| (name.clone(), Arc::clone(node))).collect();
    for (name, child) in children {
        if list.len() >= most {
            return Err(Failure::Kind(FileErrorKind::TooLarge));
        }
        let path = format!("{prefix}{name}");
        let below = FilePath::below(path.clone().into_bytes());
        // The tree has no names that a path cannot have.
        let below = below.map_err(|_| Failure::Kind(FileErrorKind::Other))?;
        list.push(FileEntry { path: below, stat: stat_of(&child) });
        if child.is_directory() && depth > 1 {
            entries(&child, &format!("{path}/"), depth - 1, most, list)?;
        }
    }
    Ok(())
}

/// Adds the operation and the path to a failure.
fn result<T>(
    operation: FileOperation,
    path: &FilePath,
    result: Result<T, Failure>,
) -> Result<T, FileError> {
    result.map_err(|failure| {
        let (kind, source) = match failure {
            Failure::Fault(fault) => (fault.kind(), None),
            Failure::Kind(kind) => (kind, None),
            Failure::Because(kind, source) => (kind, Some(source)),
        };
        FileError { operation, path: path.clone(), kind, source }
    })
}

fn last_of(link: FinalLink) -> Last {
    match link {
        FinalLink::Follow => Last::Follow,
        FinalLink::Keep => Last::Keep,
    }
}

impl Files for WasmFiles {
    fn read<'a>(
        &'a self,
        path: &'a FilePath,
        part: FilePart,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let read = || {
                let (node, _) = self.node(path, Last::Follow)?;
                if matches!(node.kind, Kind::Null) {
                    return Err(Failure::Kind(FileErrorKind::SpecialFile));
                }
                let most = part.length.unwrap_or(u64::MAX);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let bytes = node.read(part.offset, most)?;
                Ok(Box::new(std::io::Cursor::new(bytes)) as FileBytes)
            };
            result(FileOperation::Read, path, read())
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a FilePath,
        how: FileWriting,
        content: FileBytes,
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            result(FileOperation::Write, path, self.write_all(path, how, content).await)
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a FilePath,
        depth: u32,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        Box::pin(async move {
            let list = || {
                let (node, _) = self.node(path, Last::Follow)?;
                let mut list = Vec::new();
                entries(&node, "", depth.clamp(1, 512), most, &mut list)?;
                Ok(list)
            };
            result(FileOperation::List, path, list())
        })
    }

    fn stat<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileStat, FileError>> {
        Box::pin(async move {
            let found = self.node(path, last_of(link)).map(|(node, _)| stat_of(&node));
            result(FileOperation::Stat, path, found)
        })
    }

    fn make_directory<'a>(
        &'a self,
        path: &'a FilePath,
        parents: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let make = || {
                let absolute = self.absolute(path)?;
                if !parents {
                    return Ok(self.tree.make_directory(&self.tree.root(), &absolute)?);
                }
                self.make_directories(&absolute)?;
                let (node, _) = self.node(path, Last::Follow)?;
                match node.is_directory() {
                    true => Ok(()),
                    false => Err(Fault::Exists.into()),
                }
            };
            result(FileOperation::MakeDirectory, path, make())
        })
    }

    fn rename<'a>(
        &'a self,
        from: &'a FilePath,
        to: &'a FilePath,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        Box::pin(async move {
            let rename = || {
                let (old, new) = (self.absolute(from)?, self.absolute(to)?);
                let root = self.tree.root();
                Ok(self.tree.rename((&root, &old), (&root, &new), replace)?)
            };
            result(FileOperation::Rename, from, rename())
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a FilePath,
        recursive: bool,
    ) -> BoxFuture<'a, Result<bool, FileError>> {
        Box::pin(async move {
            let remove = || {
                let absolute = self.absolute(path)?;
                let what = if recursive { Removed::Everything } else { Removed::Either };
                match self.tree.remove(&self.tree.root(), &absolute, what) {
                    Ok(()) => Ok(true),
                    Err(Fault::NotFound) => Ok(false),
                    Err(fault) => Err(fault.into()),
                }
            };
            result(FileOperation::Remove, path, remove())
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a FilePath,
        _: bool,
    ) -> BoxFuture<'a, Result<Box<dyn FileWatch>, FileError>> {
        let refused: Result<Box<dyn FileWatch>, Failure> =
            Err(Failure::Because(FileErrorKind::Other, "this wall does not watch files".into()));
        Box::pin(async move { result(FileOperation::Watch, path, refused) })
    }

    fn upload<'a>(
        &'a self,
        path: &'a FilePath,
        archive: FileBytes,
    ) -> BoxFuture<'a, Result<Transfer, FileError>> {
        Box::pin(async move {
            let unpack = async {
                let absolute = self.absolute(path)?;
                self.make_directories(&absolute)?;
                archive::unpack(&self.tree, &absolute, archive).await
            };
            result(FileOperation::Upload, path, unpack.await)
        })
    }

    fn download<'a>(
        &'a self,
        path: &'a FilePath,
        link: FinalLink,
    ) -> BoxFuture<'a, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let pack = || {
                let absolute = self.absolute(path)?;
                let (node, _) = self.node(path, last_of(link))?;
                let name = absolute.rsplit('/').next().filter(|name| !name.is_empty());
                let bytes = archive::pack(&node, name.unwrap_or("."))?;
                Ok(Box::new(std::io::Cursor::new(bytes)) as FileBytes)
            };
            result(FileOperation::Download, path, pack())
        })
    }

    fn places(&self) -> Vec<WritablePlace> {
        self.places.clone()
    }

    fn capture(&self) -> BoxFuture<'_, Result<FileBytes, FileError>> {
        Box::pin(async move {
            let captured = state::capture(&self.tree, &self.places);
            let captured = captured.map(|captured| Box::new(captured) as FileBytes);
            result(FileOperation::Capture, &everything(), captured)
        })
    }

    fn fill(&self, tree: FileBytes) -> BoxFuture<'_, Result<Transfer, FileError>> {
        Box::pin(async move {
            let (to, places, runtime) = (Arc::clone(&self.tree), self.places(), Handle::current());
            let filling = spawn_blocking(move || {
                state::fill(&to, &places, &mut Blocking { bytes: tree, runtime })
            });
            let filled = filling.await.unwrap_or_else(|error| {
                Err(Failure::Because(FileErrorKind::Other, Box::new(error)))
            });
            result(FileOperation::Fill, &everything(), filled)
        })
    }
}

/// The path of what concerns every file.
fn everything() -> FilePath {
    FilePath::new("/").expect("the root is a path")
}

/// A stream for code that blocks, on a thread that may.
struct Blocking {
    bytes: FileBytes,
    runtime: Handle,
}

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.bytes.read(buffer))
    }
}
