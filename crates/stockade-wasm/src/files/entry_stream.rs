//! The entries of one directory of the tree, as WASI reads them.

use std::sync::{Mutex, PoisonError};
use std::vec::IntoIter;

use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::p2::bindings::filesystem::types::{DirectoryEntry, DirectoryEntryStream};

/// The entries that a directory had when it was opened for listing.
pub(super) struct EntryStream(Mutex<IntoIter<DirectoryEntry>>);

impl EntryStream {
    pub(super) fn new(entries: Vec<DirectoryEntry>) -> EntryStream {
        EntryStream(Mutex::new(entries.into_iter()))
    }

    pub(super) fn next(&self) -> Option<DirectoryEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// The stream, if it is one of the tree.
pub(super) fn entry_stream<'t>(
    table: &'t ResourceTable,
    stream: &Resource<DirectoryEntryStream>,
) -> Option<&'t EntryStream> {
    table.get(&Resource::<EntryStream>::new_borrow(stream.rep())).ok()
}
