//! The files of a sandbox: a tree in memory, and the directories that the policy mounts.

mod archive;
mod content;
mod entry_stream;
mod fault;
mod node;
mod provided;
mod state;
mod streams;
mod tree;
mod wasi;

pub(crate) use fault::Fault;
pub(crate) use provided::WasmFiles;
pub(crate) use tree::Tree;
pub use wasi::FilesystemView;
pub(crate) use wasi::{HasFilesystem, OpenCount};
