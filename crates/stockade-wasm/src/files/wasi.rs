//! `wasi:filesystem` over the tree in memory, and over the mounted directories of the host.
//!
//! A descriptor of the tree is an [`OpenFile`]; any other belongs to the WASI library, which opens
//! everything below a directory that the policy mounts, and never beyond it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor, MetadataHashValue, NewTimestamp,
    OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use super::Fault;
use super::entry_stream::{EntryStream, entry_stream};
use super::node::{Kind, Node};
use super::streams::{FileReader, FileWriter};
use super::tree::{Last, Opening, Place, Removed, Tree};

/// The most bytes of one read.
const MAX_READ: u64 = 1 << 20;

/// Marks the data of the bindings.
pub(crate) struct HasFilesystem;

impl HasData for HasFilesystem {
    type Data<'a> = FilesystemView<'a>;
}

/// The file system of one instance.
pub struct FilesystemView<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) host: &'a mut WasiFilesystemCtx,
    pub(crate) tree: &'a Arc<Tree>,
    pub(crate) open: &'a mut OpenCount,
}

/// How many files an instance has open.
#[derive(Debug)]
pub(crate) struct OpenCount {
    pub(crate) now: u64,
    pub(crate) most: u64,
    /// Whether files in memory count.
    pub(crate) counts_memory: bool,
}

/// An open file or directory of the tree.
pub(crate) struct OpenFile {
    node: Arc<Node>,
    /// The directories from the root to it, if it is a directory.
    place: Place,
    flags: DescriptorFlags,
}

impl OpenFile {
    fn check_write(&self) -> Result<(), Fault> {
        match self.flags.contains(DescriptorFlags::WRITE) {
            true => Ok(()),
            false => Err(Fault::ReadOnly),
        }
    }
}

impl FilesystemView<'_> {
    fn theirs(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: self.host, table: self.table }
    }

    fn own(&self, fd: &Resource<Descriptor>) -> Option<&OpenFile> {
        self.table.get(&Resource::<OpenFile>::new_borrow(fd.rep())).ok()
    }

    /// The node and the place of a directory of the tree.
    fn place(&self, fd: &Resource<Descriptor>) -> Option<Place> {
        self.own(fd).map(|file| file.place.clone())
    }

    /// The places of two descriptors of the tree; an error if only one is.
    fn both(
        &self,
        one: &Resource<Descriptor>,
        other: &Resource<Descriptor>,
    ) -> Result<Option<(Place, Place)>, Fault> {
        match (self.place(one), self.place(other)) {
            (Some(one), Some(other)) => Ok(Some((one, other))),
            (None, None) => Ok(None),
            _ => Err(Fault::CrossesMounts),
        }
    }

    fn find(&self, place: &Place, path: &str, flags: PathFlags) -> Result<Arc<Node>, Fault> {
        let last = match flags.contains(PathFlags::SYMLINK_FOLLOW) {
            true => Last::Follow,
            false => Last::Keep,
        };
        self.tree.find(place, path, last)?.node.ok_or(Fault::NotFound)
    }
}

impl preopens::Host for FilesystemView<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut all = self.theirs().get_directories()?;
        let place = self.tree.root();
        let node = Arc::clone(place.last().expect("a place always has the root"));
        let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
        let root = self.table.push(OpenFile { node, place, flags })?;
        all.push((Resource::new_own(root.rep()), "/".to_owned()));
        Ok(all)
    }
}

impl types::Host for FilesystemView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.theirs().filesystem_error_code(error)
    }
}

impl HostDescriptor for FilesystemView<'_> {
    async fn advise(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
        len: Filesize,
        advice: Advice,
    ) -> FsResult<()> {
        match self.own(&fd) {
            Some(_) => Ok(()),
            None => self.theirs().advise(fd, offset, len, advice).await,
        }
    }

    async fn sync_data(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        match self.own(&fd) {
            Some(_) => Ok(()),
            None => self.theirs().sync_data(fd).await,
        }
    }

    async fn get_flags(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        match self.own(&fd) {
            Some(file) => Ok(file.flags),
            None => self.theirs().get_flags(fd).await,
        }
    }

    async fn get_type(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorType> {
        match self.own(&fd) {
            Some(file) => Ok(type_of(&file.node)),
            None => self.theirs().get_type(fd).await,
        }
    }

    async fn set_size(&mut self, fd: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        match self.own(&fd) {
            Some(file) => {
                file.check_write()?;
                Ok(file.node.set_len(size)?)
            }
            None => self.theirs().set_size(fd, size).await,
        }
    }

    async fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        match self.own(&fd) {
            Some(file) => Ok(set_modified(&file.node, modified)?),
            None => self.theirs().set_times(fd, accessed, modified).await,
        }
    }

    async fn read(
        &mut self,
        fd: Resource<Descriptor>,
        len: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        match self.own(&fd) {
            Some(file) => {
                let most = usize::try_from(len.min(MAX_READ)).unwrap_or(0);
                let bytes = file.node.read(offset, most)?;
                let is_end = offset.saturating_add(length(bytes.len())) >= file.node.len();
                Ok((bytes, is_end))
            }
            None => self.theirs().read(fd, len, offset).await,
        }
    }

    async fn write(
        &mut self,
        fd: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        match self.own(&fd) {
            Some(file) => {
                file.check_write()?;
                file.node.write(Some(offset), &bytes)?;
                Ok(length(bytes.len()))
            }
            None => self.theirs().write(fd, bytes, offset).await,
        }
    }

    async fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let Some(file) = self.own(&fd) else {
            return self.theirs().read_directory(fd).await;
        };
        let entries: Vec<DirectoryEntry> = file
            .node
            .entries()?
            .iter()
            .map(|(name, node)| DirectoryEntry { type_: type_of(node), name: name.clone() })
            .collect();
        let stream = self.table.push(EntryStream::new(entries))?;
        Ok(Resource::new_own(stream.rep()))
    }

    async fn sync(&mut self, fd: Resource<Descriptor>) -> FsResult<()> {
        match self.own(&fd) {
            Some(_) => Ok(()),
            None => self.theirs().sync(fd).await,
        }
    }

    async fn create_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        match self.place(&fd) {
            Some(place) => Ok(self.tree.make_directory(&place, &path)?),
            None => self.theirs().create_directory_at(fd, path).await,
        }
    }

    async fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        match self.own(&fd) {
            Some(file) => Ok(stat_of(&file.node)),
            None => self.theirs().stat(fd).await,
        }
    }

    async fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        match self.place(&fd) {
            Some(place) => Ok(stat_of(self.find(&place, &path, flags)?.as_ref())),
            None => self.theirs().stat_at(fd, flags, path).await,
        }
    }

    async fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        match self.place(&fd) {
            Some(place) => Ok(set_modified(self.find(&place, &path, flags)?.as_ref(), modified)?),
            None => self.theirs().set_times_at(fd, flags, path, accessed, modified).await,
        }
    }

    async fn link_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        match self.both(&fd, &new_fd)? {
            Some((from, to)) => Ok(self.tree.link((&from, &path), (&to, &new_path))?),
            None => self.theirs().link_at(fd, flags, path, new_fd, new_path).await,
        }
    }

    async fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: PathFlags,
        path: String,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let counts = self.open.counts_memory || self.own(&fd).is_none();
        if counts && self.open.now >= self.open.most {
            return Err(Fault::TooManyFiles.into());
        }
        let opened = match self.own(&fd) {
            Some(parent) => {
                // What was opened read-only opens nothing for writing.
                let may_change = parent.flags.contains(DescriptorFlags::MUTATE_DIRECTORY);
                let opening = Opening {
                    create: how.contains(OpenFlags::CREATE),
                    exclusive: how.contains(OpenFlags::EXCLUSIVE),
                    truncate: how.contains(OpenFlags::TRUNCATE),
                    directory: how.contains(OpenFlags::DIRECTORY),
                    write: flags.contains(DescriptorFlags::WRITE),
                    keep_link: !path_flags.contains(PathFlags::SYMLINK_FOLLOW),
                };
                if !may_change && (opening.create || opening.truncate || opening.write) {
                    return Err(Fault::ReadOnly.into());
                }
                let place = parent.place.clone();
                let (node, place) = self.tree.open(&place, &path, opening)?;
                let mut flags = flags;
                if node.is_directory() && may_change {
                    flags |= DescriptorFlags::MUTATE_DIRECTORY;
                }
                let file = self.table.push(OpenFile { node, place, flags })?;
                Resource::new_own(file.rep())
            }
            None => {
                self.check_ordinary(&fd, path_flags, &path).await?;
                self.theirs().open_at(fd, path_flags, path, how, flags).await?
            }
        };
        self.open.now += u64::from(counts);
        Ok(opened)
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.open.now = self.open.now.saturating_sub(1);
        match self.own(&fd) {
            Some(_) => {
                self.table.delete(Resource::<OpenFile>::new_own(fd.rep()))?;
                Ok(())
            }
            None => HostDescriptor::drop(&mut self.theirs(), fd),
        }
    }

    async fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        match self.place(&fd) {
            Some(place) => Ok(self.tree.read_link(&place, &path)?),
            None => self.theirs().readlink_at(fd, path).await,
        }
    }

    async fn remove_directory_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        match self.place(&fd) {
            Some(place) => Ok(self.tree.remove(&place, &path, Removed::Directory)?),
            None => self.theirs().remove_directory_at(fd, path).await,
        }
    }

    async fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        match self.both(&fd, &new_fd)? {
            Some((from, to)) => Ok(self.tree.rename((&from, &path), (&to, &new_path), true)?),
            None => self.theirs().rename_at(fd, path, new_fd, new_path).await,
        }
    }

    async fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FsResult<()> {
        match self.place(&fd) {
            Some(place) => Ok(self.tree.make_link(&place, &path, &target)?),
            None => self.theirs().symlink_at(fd, target, path).await,
        }
    }

    async fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        match self.place(&fd) {
            Some(place) => Ok(self.tree.remove(&place, &path, Removed::File)?),
            None => self.theirs().unlink_file_at(fd, path).await,
        }
    }

    fn read_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let Some(file) = self.own(&fd) else {
            return self.theirs().read_via_stream(fd, offset);
        };
        if file.node.is_directory() {
            return Err(Fault::IsADirectory.into());
        }
        let reader: DynInputStream = Box::new(FileReader::new(Arc::clone(&file.node), offset));
        Ok(self.table.push(reader)?)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let Some(file) = self.own(&fd) else {
            return self.theirs().write_via_stream(fd, offset);
        };
        file.check_write()?;
        let writer = FileWriter::new(Arc::clone(&file.node), Some(offset));
        let writer: DynOutputStream = Box::new(writer);
        Ok(self.table.push(writer)?)
    }

    fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let Some(file) = self.own(&fd) else {
            return self.theirs().append_via_stream(fd);
        };
        file.check_write()?;
        let writer: DynOutputStream = Box::new(FileWriter::new(Arc::clone(&file.node), None));
        Ok(self.table.push(writer)?)
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        match (self.own(&one), self.own(&other)) {
            (Some(one), Some(other)) => Ok(Arc::ptr_eq(&one.node, &other.node)),
            (None, None) => self.theirs().is_same_object(one, other).await,
            _ => Ok(false),
        }
    }

    async fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        match self.own(&fd) {
            Some(file) => Ok(hash_of(&file.node)),
            None => self.theirs().metadata_hash(fd).await,
        }
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        match self.place(&fd) {
            Some(place) => Ok(hash_of(self.find(&place, &path, flags)?.as_ref())),
            None => self.theirs().metadata_hash_at(fd, flags, path).await,
        }
    }
}

impl FilesystemView<'_> {
    /// Refuses to open a FIFO, a socket or a device of the host: opening a FIFO blocks the thread.
    async fn check_ordinary(
        &mut self,
        fd: &Resource<Descriptor>,
        flags: PathFlags,
        path: &str,
    ) -> FsResult<()> {
        let fd = Resource::new_borrow(fd.rep());
        match self.theirs().stat_at(fd, flags, path.to_owned()).await {
            Ok(found) => match found.type_ {
                DescriptorType::RegularFile
                | DescriptorType::Directory
                | DescriptorType::SymbolicLink => Ok(()),
                _ => Err(ErrorCode::NotPermitted.into()),
            },
            // Opening reports it, or makes the file.
            Err(_) => Ok(()),
        }
    }
}

impl types::HostDirectoryEntryStream for FilesystemView<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        match entry_stream(self.table, &stream) {
            Some(own) => Ok(own.next()),
            None => self.theirs().read_directory_entry(stream).await,
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        if entry_stream(self.table, &stream).is_some() {
            self.table.delete(Resource::<EntryStream>::new_own(stream.rep()))?;
            return Ok(());
        }
        types::HostDirectoryEntryStream::drop(&mut self.theirs(), stream)
    }
}

fn type_of(node: &Node) -> DescriptorType {
    match &node.kind {
        Kind::File(_) => DescriptorType::RegularFile,
        Kind::Directory(_) => DescriptorType::Directory,
        Kind::Link(_) => DescriptorType::SymbolicLink,
        Kind::Null => DescriptorType::CharacterDevice,
    }
}

fn stat_of(node: &Node) -> DescriptorStat {
    let time = datetime(node.modified());
    DescriptorStat {
        type_: type_of(node),
        link_count: 1,
        size: node.len(),
        data_access_timestamp: time,
        data_modification_timestamp: time,
        status_change_timestamp: time,
    }
}

fn datetime(time: SystemTime) -> Option<Datetime> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(Datetime { seconds: since.as_secs(), nanoseconds: since.subsec_nanos() })
}

fn set_modified(node: &Node, time: NewTimestamp) -> Result<(), Fault> {
    node.check_writable()?;
    match time {
        NewTimestamp::NoChange => {}
        NewTimestamp::Now => node.touch(),
        NewTimestamp::Timestamp(time) => {
            let since = Duration::new(time.seconds, time.nanoseconds.min(999_999_999));
            node.set_modified(UNIX_EPOCH.checked_add(since).ok_or(Fault::Invalid)?);
        }
    }
    Ok(())
}

fn hash_of(node: &Node) -> MetadataHashValue {
    MetadataHashValue { lower: node.number, upper: 0 }
}

fn length(size: usize) -> u64 {
    u64::try_from(size).expect("usize has at most 64 bits")
}
