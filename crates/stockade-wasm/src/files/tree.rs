//! The tree: names, links and the rules for changing them.
//!
//! No path of the tree leads to the host. Operations on names hold one lock, so that a rename and a
//! removal of the same directory cannot interleave.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Fault;
use super::content::Content;
use super::node::{Kind, Node, lock};
use crate::limits::Budgets;

/// The most links that one path may lead through, as in Linux.
const MAX_LINKS: usize = 40;
/// The longest name, in bytes.
const MAX_NAME: usize = 255;
/// The longest path, in bytes.
const MAX_PATH: usize = 4096;
/// The directories from the root to one of them.
pub(crate) type Place = Vec<Arc<Node>>;

/// The files of a sandbox.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Arc<Node>,
    names: Mutex<()>,
    pub(crate) budgets: Arc<Budgets>,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Found {
    /// The directories above it.
    pub(crate) place: Place,
    /// Its name in the last of them; empty for the root.
    pub(crate) name: String,
    /// `None` if nothing has the name.
    pub(crate) node: Option<Arc<Node>>,
}

/// What to do with a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) directory: bool,
    pub(crate) write: bool,
    pub(crate) keep_link: bool,
}

impl Tree {
    /// A tree with empty writable directories.
    pub(crate) fn new(budgets: Arc<Budgets>, writable: &[&str]) -> Result<Tree, Fault> {
        let root = Node::fixed(Node::empty_directory());
        let tree = Tree { root, names: Mutex::default(), budgets };
        for path in writable {
            let node = Node::new(Node::empty_directory(), &tree.budgets)?;
            tree.place_fixed(path, node)?;
        }
        tree.place_fixed("/dev/null", Node::fixed(Kind::Null))?;
        Ok(tree)
    }

    /// The most directories below each other.
    pub(crate) const MAX_DEPTH: usize = 512;

    /// Whether programs may change the directory at an absolute path.
    pub(crate) fn is_writable_directory(&self, path: &str) -> bool {
        let found = self.find(&self.root(), path, Last::Keep);
        let node = found.ok().and_then(|found| found.node);
        node.is_some_and(|node| node.is_directory() && !node.is_fixed)
    }

    /// Keeps every name as it is until the guard is dropped.
    pub(super) fn hold_names(&self) -> MutexGuard<'_, ()> {
        lock(&self.names)
    }

    /// Puts a node into a directory, in place of what has the name.
    pub(super) fn put(
        &self,
        directory: &Arc<Node>,
        name: String,
        node: Arc<Node>,
    ) -> Result<(), Fault> {
        let _names = lock(&self.names);
        directory.check_writable()?;
        if let Some(old) = directory.child(&name)? {
            old.check_writable()?;
        }
        insert(directory, name, node)
    }

    pub(crate) fn root(&self) -> Place {
        vec![Arc::clone(&self.root)]
    }

    /// Adds a file that no program may change.
    pub(crate) fn add_file(&self, path: &str, bytes: &[u8]) -> Result<(), Fault> {
        let mut content = Content::new(Arc::clone(&self.budgets));
        content.write(0, bytes)?;
        self.place_fixed(path, Node::fixed(Kind::File(Mutex::new(content))))
    }

    /// Adds an empty directory that no program may change, where another file system begins.
    pub(crate) fn add_mount_point(&self, path: &str) -> Result<(), Fault> {
        self.place_fixed(path, Node::fixed(Node::empty_directory()))
    }

    /// Puts a node at an absolute path, with fixed directories above it. A directory that is there
    /// already stays.
    fn place_fixed(&self, path: &str, node: Arc<Node>) -> Result<(), Fault> {
        let mut directory = Arc::clone(&self.root);
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let Some((last, above)) = names.split_last() else { return Ok(()) };
        for name in above {
            let next = directory.child(name)?;
            let next = next.unwrap_or_else(|| Node::fixed(Node::empty_directory()));
            directory.entries()?.insert((*name).to_owned(), Arc::clone(&next));
            directory = next;
        }
        directory.entries()?.entry((*last).to_owned()).or_insert(node);
        Ok(())
    }

    /// Where a path leads from a directory.
    pub(crate) fn find(&self, from: &Place, path: &str, last: Last) -> Result<Found, Fault> {
        if path.is_empty() {
            return Err(Fault::NotFound);
        }
        if path.len() > MAX_PATH {
            return Err(Fault::NameTooLong);
        }
        let mut place = if path.starts_with('/') { self.root() } else { from.clone() };
        let mut left: VecDeque<String> = path.split('/').map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    if place.len() > 1 {
                        place.pop();
                    }
                    continue;
                }
                _ => {}
            }
            if name.len() > MAX_NAME {
                return Err(Fault::NameTooLong);
            }
            if name.contains('\0') {
                return Err(Fault::Invalid);
            }
            let is_last = left.iter().all(|rest| rest.is_empty());
            let directory = place.last().expect("a place always has the root");
            let Some(node) = directory.child(&name)? else {
                return if is_last {
                    Ok(Found { place, name, node: None })
                } else {
                    Err(Fault::NotFound)
                };
            };
            match &node.kind {
                Kind::Link(target) if !is_last || last == Last::Follow || !left.is_empty() => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Fault::Loop);
                    }
                    if target.starts_with('/') {
                        place.truncate(1);
                    }
                    for part in target.split('/').rev() {
                        left.push_front(part.to_owned());
                    }
                }
                Kind::Directory(_) if !is_last => {
                    if place.len() > Tree::MAX_DEPTH {
                        return Err(Fault::NameTooLong);
                    }
                    place.push(node);
                }
                _ if !is_last => return Err(Fault::NotADirectory),
                // A path with a slash at its end names a directory.
                _ if !left.is_empty() && !node.is_directory() => return Err(Fault::NotADirectory),
                _ => return Ok(Found { place, name, node: Some(node) }),
            }
        }
        let node = place.last().cloned();
        Ok(Found { place, name: String::new(), node })
    }

    /// Opens a file or a directory. The place is that of the directories from the root to it.
    pub(crate) fn open(
        &self,
        from: &Place,
        path: &str,
        how: Opening,
    ) -> Result<(Arc<Node>, Place), Fault> {
        let _names = lock(&self.names);
        let last =
            if how.keep_link || (how.create && how.exclusive) { Last::Keep } else { Last::Follow };
        let Found { mut place, name, node } = self.find(from, path, last)?;
        let node = match node {
            Some(_) if how.create && how.exclusive => return Err(Fault::Exists),
            Some(node) if matches!(node.kind, Kind::Link(_)) => return Err(Fault::Loop),
            Some(node) => node,
            None if how.create && !how.directory && !path.ends_with('/') => {
                let content = Mutex::new(Content::new(Arc::clone(&self.budgets)));
                let directory = directory_of(&place);
                directory.check_writable()?;
                let node = Node::new(Kind::File(content), &self.budgets)?;
                insert(directory, name.clone(), Arc::clone(&node))?;
                node
            }
            None => return Err(Fault::NotFound),
        };
        if how.directory && !node.is_directory() {
            return Err(Fault::NotADirectory);
        }
        if how.write || how.truncate {
            if node.is_directory() {
                return Err(Fault::IsADirectory);
            }
            // Programs may open /dev/null for writing.
            if !matches!(node.kind, Kind::Null) {
                node.check_writable()?;
            }
        }
        if how.truncate {
            node.set_len(0)?;
        }
        if node.is_directory() && !name.is_empty() {
            place.push(Arc::clone(&node));
        }
        Ok((node, place))
    }

    pub(crate) fn make_directory(&self, from: &Place, path: &str) -> Result<(), Fault> {
        let _names = lock(&self.names);
        let found = self.find(from, path, Last::Keep)?;
        if found.node.is_some() {
            return Err(Fault::Exists);
        }
        if found.place.len() >= Tree::MAX_DEPTH {
            return Err(Fault::NameTooLong);
        }
        self.add(&found, Node::empty_directory())
    }

    pub(crate) fn make_link(&self, from: &Place, path: &str, target: &str) -> Result<(), Fault> {
        let _names = lock(&self.names);
        let found = self.find(from, path, Last::Keep)?;
        if found.node.is_some() {
            return Err(Fault::Exists);
        }
        if target.is_empty() || target.contains('\0') || target.len() > MAX_PATH {
            return Err(Fault::Invalid);
        }
        self.add(&found, Kind::Link(target.to_owned()))
    }

    fn add(&self, found: &Found, kind: Kind) -> Result<(), Fault> {
        let directory = directory_of(&found.place);
        directory.check_writable()?;
        let node = Node::new(kind, &self.budgets)?;
        insert(directory, found.name.clone(), node)
    }

    /// Gives a file a second name.
    pub(crate) fn link(
        &self,
        (from, path): (&Place, &str),
        (to, name): (&Place, &str),
    ) -> Result<(), Fault> {
        let _names = lock(&self.names);
        let node = self.find(from, path, Last::Keep)?.node.ok_or(Fault::NotFound)?;
        let target = self.find(to, name, Last::Keep)?;
        if target.node.is_some() {
            return Err(Fault::Exists);
        }
        if node.is_directory() || node.is_fixed {
            return Err(Fault::ReadOnly);
        }
        let directory = directory_of(&target.place);
        directory.check_writable()?;
        insert(directory, target.name, node)
    }

    pub(crate) fn read_link(&self, from: &Place, path: &str) -> Result<String, Fault> {
        let node = self.find(from, path, Last::Keep)?.node.ok_or(Fault::NotFound)?;
        match &node.kind {
            Kind::Link(target) => Ok(target.clone()),
            Kind::File(_) | Kind::Directory(_) | Kind::Null => Err(Fault::Invalid),
        }
    }

    /// Removes a name. A directory must be empty.
    pub(crate) fn remove(&self, from: &Place, path: &str, what: Removed) -> Result<(), Fault> {
        let _names = lock(&self.names);
        let found = self.find(from, path, Last::Keep)?;
        let node = found.node.as_ref().ok_or(Fault::NotFound)?;
        let directory = directory_of(&found.place);
        if found.name.is_empty() {
            return Err(Fault::ReadOnly);
        }
        match (what, node.is_directory()) {
            (Removed::File, true) => return Err(Fault::IsADirectory),
            (Removed::Directory, false) => return Err(Fault::NotADirectory),
            _ => {}
        }
        directory.check_writable()?;
        node.check_writable()?;
        let is_full = node.is_directory() && !node.entries()?.is_empty();
        if is_full && what != Removed::Everything {
            return Err(Fault::NotEmpty);
        }
        directory.entries()?.remove(&found.name);
        directory.touch();
        Ok(())
    }

    /// Renames, onto an existing file or empty directory if `replace`.
    pub(crate) fn rename(
        &self,
        (from, path): (&Place, &str),
        (to, new): (&Place, &str),
        replace: bool,
    ) -> Result<(), Fault> {
        let _names = lock(&self.names);
        let source = self.find(from, path, Last::Keep)?;
        let node = source.node.clone().ok_or(Fault::NotFound)?;
        let target = self.find(to, new, Last::Keep)?;
        if source.name.is_empty() || target.name.is_empty() {
            return Err(Fault::ReadOnly);
        }
        let (below, above) = (directory_of(&source.place), directory_of(&target.place));
        below.check_writable()?;
        above.check_writable()?;
        node.check_writable()?;
        if target.place.iter().any(|directory| Arc::ptr_eq(directory, &node)) {
            return Err(Fault::Invalid);
        }
        if let Some(old) = &target.node {
            if Arc::ptr_eq(old, &node) {
                return Ok(());
            }
            if !replace {
                return Err(Fault::Exists);
            }
            old.check_writable()?;
            match (node.is_directory(), old.is_directory()) {
                (true, false) => return Err(Fault::NotADirectory),
                (false, true) => return Err(Fault::IsADirectory),
                (true, true) if !old.entries()?.is_empty() => return Err(Fault::NotEmpty),
                _ => {}
            }
        }
        below.entries()?.remove(&source.name);
        below.touch();
        insert(above, target.name, node)
    }
}

/// What a removal may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    File,
    Directory,
    /// A file or an empty directory.
    Either,
    /// Also a directory with all its entries.
    Everything,
}

fn directory_of(place: &Place) -> &Arc<Node> {
    place.last().expect("a place always has the root")
}

fn insert(directory: &Arc<Node>, name: String, node: Arc<Node>) -> Result<(), Fault> {
    directory.entries()?.insert(name, node);
    directory.touch();
    Ok(())
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
