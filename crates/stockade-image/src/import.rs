//! Imports an archive into the store.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use serde::Serialize;

use crate::layer::{self, Unpacked};
use crate::parcel::Parcel;
use crate::select::select;
use crate::store::{Facts, NamedBy, Store, Taken};
use crate::{ImageError, Listed, Reference};

/// How much an image may contain, over all its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of all layers without compression.
    pub bytes: u64,
    /// The maximum number of entries.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 8 << 30, entries: 1 << 20 }
    }
}

/// An image that was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The digest of its configuration, which engines call its id.
    pub id: String,
    /// The names that it has now.
    pub names: Vec<String>,
    /// The names in the archive that other images have; these keep them.
    pub taken: Vec<Taken>,
    /// Whether the store had it already.
    pub was_there: bool,
    /// The size of its layers without compression.
    pub bytes: u64,
    /// Entries that were left out: devices, FIFOs, files of union file systems.
    pub left_out: u64,
    /// Files and directories that lost their set-id bits.
    pub set_ids: u64,
    /// Files whose owner no sandbox can show; they belong to 65534.
    pub owners: u64,
    /// The first of those, each with what happened.
    pub examples: Vec<String>,
}

impl Store {
    /// Imports the only image of an archive: an OCI layout, or what `docker save` wrote. It gets a
    /// name, which another image may lose, or those in the archive that no other image has.
    pub fn import(
        &self,
        file: &Path,
        name: Option<&Reference>,
        limits: Limits,
    ) -> Result<Imported, ImageError> {
        let parcel = Parcel::open(file)?;
        let selected = select(&parcel)?;
        let (names, by): (BTreeSet<Reference>, NamedBy) = match name {
            Some(name) => ([name.clone()].into(), NamedBy::Caller),
            // A name that cannot be used is not a name; the digest always is.
            None => {
                let names = selected.names.iter().filter_map(|it| Reference::parse(it).ok());
                (names.collect(), NamedBy::Archive)
            }
        };
        let lock = self.lock()?;
        let mut done = Unpacked::default();
        let was_there = self.has(selected.id);
        if !was_there {
            let new = self.begin(&lock)?;
            let root = File::open(new.root()).map_err(new.failed("open"))?;
            let mut left = limits;
            for layer in &selected.layers {
                let checked = layer::check(&parcel, layer, &mut left)?;
                layer::hide(&checked.whiteouts, root.as_fd())?;
                layer::unpack(&parcel, layer, &checked, root.as_fd(), &mut done)?;
            }
            let facts = Facts { bytes: limits.bytes - left.bytes, layers: selected.layers.len() };
            new.finish(selected.id, &selected.text, &facts)?;
        }
        let taken = self.name(&lock, selected.id, &names, by)?;
        let Listed { id, names, bytes, .. } = self.listed(selected.id)?;
        let Unpacked { left_out, set_ids, owners, examples } = done;
        Ok(Imported { id, names, taken, was_there, bytes, left_out, set_ids, owners, examples })
    }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
