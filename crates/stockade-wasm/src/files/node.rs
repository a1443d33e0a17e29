//! One file, directory or link in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Fault;
use super::content::Content;
use crate::limits::Budgets;

static NEXT: AtomicU64 = AtomicU64::new(1);

/// One file, directory or link.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    /// Whether no program may change it.
    pub(crate) is_fixed: bool,
    executable: AtomicBool,
    modified: Mutex<SystemTime>,
    /// The budgets from which it holds one inode.
    charged: Option<Arc<Budgets>>,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    File(Mutex<Content>),
    Directory(Mutex<BTreeMap<String, Arc<Node>>>),
    Link(String),
    /// `/dev/null`.
    Null,
}

impl Node {
    /// A node that programs made or may change.
    pub(crate) fn new(kind: Kind, budgets: &Arc<Budgets>) -> Result<Arc<Node>, Fault> {
        if !budgets.inodes.take(1) {
            return Err(Fault::Full);
        }
        Ok(Node::build(kind, false, Some(Arc::clone(budgets))))
    }

    /// A node of the sandbox itself, which no program may change.
    pub(crate) fn fixed(kind: Kind) -> Arc<Node> {
        Node::build(kind, true, None)
    }

    fn build(kind: Kind, is_fixed: bool, charged: Option<Arc<Budgets>>) -> Arc<Node> {
        Arc::new(Node {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            kind,
            is_fixed,
            executable: AtomicBool::new(false),
            modified: Mutex::new(SystemTime::now()),
            charged,
        })
    }

    pub(crate) fn empty_directory() -> Kind {
        Kind::Directory(Mutex::default())
    }

    pub(crate) fn entries(&self) -> Result<MutexGuard<'_, BTreeMap<String, Arc<Node>>>, Fault> {
        match &self.kind {
            Kind::Directory(entries) => Ok(lock(entries)),
            Kind::File(_) | Kind::Link(_) | Kind::Null => Err(Fault::NotADirectory),
        }
    }

    pub(crate) fn child(&self, name: &str) -> Result<Option<Arc<Node>>, Fault> {
        Ok(self.entries()?.get(name).cloned())
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.kind, Kind::Directory(_))
    }

    /// Fails for a node that no program may change.
    pub(crate) fn check_writable(&self) -> Result<(), Fault> {
        if self.is_fixed { Err(Fault::ReadOnly) } else { Ok(()) }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.kind {
            Kind::File(content) => lock(content).len(),
            Kind::Link(target) => u64::try_from(target.len()).unwrap_or(u64::MAX),
            Kind::Directory(_) | Kind::Null => 0,
        }
    }

    /// At most `most` bytes of a file from an offset on.
    pub(crate) fn read(&self, offset: u64, most: usize) -> Result<Vec<u8>, Fault> {
        match &self.kind {
            Kind::File(content) => Ok(lock(content).read(offset, most).to_vec()),
            Kind::Null => Ok(Vec::new()),
            Kind::Directory(_) => Err(Fault::IsADirectory),
            Kind::Link(_) => Err(Fault::Invalid),
        }
    }

    /// Writes to a file; without an offset at its end.
    pub(crate) fn write(&self, offset: Option<u64>, bytes: &[u8]) -> Result<(), Fault> {
        match &self.kind {
            Kind::File(content) => {
                let mut content = lock(content);
                let offset = offset.unwrap_or_else(|| content.len());
                content.write(offset, bytes)?;
            }
            Kind::Null => {}
            Kind::Directory(_) => return Err(Fault::IsADirectory),
            Kind::Link(_) => return Err(Fault::Invalid),
        }
        self.touch();
        Ok(())
    }

    pub(crate) fn set_len(&self, size: u64) -> Result<(), Fault> {
        match &self.kind {
            Kind::File(content) => lock(content).set_len(size)?,
            Kind::Null => {}
            Kind::Directory(_) => return Err(Fault::IsADirectory),
            Kind::Link(_) => return Err(Fault::Invalid),
        }
        self.touch();
        Ok(())
    }

    pub(crate) fn touch(&self) {
        self.set_modified(SystemTime::now());
    }

    pub(crate) fn set_modified(&self, time: SystemTime) {
        *lock(&self.modified) = time;
    }

    pub(crate) fn modified(&self) -> SystemTime {
        *lock(&self.modified)
    }

    pub(crate) fn is_executable(&self) -> bool {
        self.executable.load(Ordering::Relaxed)
    }

    pub(crate) fn make_executable(&self) {
        self.executable.store(true, Ordering::Relaxed);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(budgets) = &self.charged {
            budgets.inodes.give_back(1);
        }
        // Deep trees are dropped level by level: the default would recurse once for each level.
        let mut left = Vec::new();
        if let Kind::Directory(entries) = &mut self.kind {
            left.extend(std::mem::take(entries.get_mut().unwrap_or_else(PoisonError::into_inner)));
        }
        while let Some((_, node)) = left.pop() {
            if let Some(mut node) = Arc::into_inner(node)
                && let Kind::Directory(entries) = &mut node.kind
            {
                let entries = entries.get_mut().unwrap_or_else(PoisonError::into_inner);
                left.extend(std::mem::take(entries));
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
