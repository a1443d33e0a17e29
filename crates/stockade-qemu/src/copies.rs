//! Host files of the policy: one archive after the other, which the guest unpacks.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as FileMode, OFlags, openat};
use stockade_archive::tree::Target;
use stockade_archive::{ArchiveError, Entries, EntryKind, pack_without};
use stockade_hostfiles::{
    Mode, Shown, TreeKind, pinned_directories, refuse_changeable, refuse_read_below_writable, shown,
};
use stockade_policy::{Limit, Policy, WORKSPACE};
use stockade_provider::ToolAccess;
use stockade_wire::{MachineCopy, MachineLayer};

use crate::QemuError;

/// The maximum size of all copies: they are in the machine's memory.
const MOST_MIB: u64 = 256;
/// The most entries of one tree.
const MOST_ENTRIES: u64 = 200_000;
/// The name of everything in an archive.
const NAME: &[u8] = b"copy";

/// The copies of a policy, and their archives.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) list: Vec<MachineCopy>,
    pub(crate) archives: Vec<u8>,
    /// The writable directories: their paths inside, and where changes go.
    pub(crate) outputs: Vec<(String, Target)>,
}

/// Reads every host file of a policy. `protected` are files that no program may change. Blocks.
pub(crate) fn copies(policy: &Policy, protected: &[PathBuf]) -> Result<Copies, QemuError> {
    let own = Path::new(ToolAccess::DIRECTORY);
    let mut copies = Copies::default();
    let all = shown(policy)?;
    refuse_changeable(protected, &all)?;
    refuse_below_writable(policy, &all)?;
    for place in all {
        if place.guest.starts_with(own) || own.starts_with(&place.guest) {
            return Err(QemuError::Unsupported {
                what: "the policy's mounts",
                reason: format!("{} belongs to the guest of every machine", own.display()),
                remedy: "choose another path inside, such as /data",
            });
        }
        may_write(&place)?;
        let before = copies.archives.len();
        let (parent, copy) = one(policy, &place, &mut copies.archives)?;
        if place.mode == Mode::Write {
            let target = target(&place, parent, &copies.archives[before..])?;
            copies.outputs.push((copy.path.clone(), target));
        }
        copies.list.push(copy);
    }
    Ok(copies)
}

/// Refuses what a copy cannot be.
fn may_write(place: &Shown) -> Result<(), QemuError> {
    let refused = |what, reason: &str, remedy| {
        let reason = format!("a machine gets a copy of {}, and {reason}", place.host.display());
        Err(QemuError::Unsupported { what, reason, remedy })
    };
    match (place.mode, place.kind) {
        (Mode::Write, _) if place.guest == Path::new(WORKSPACE) => refused(
            "a workspace with the mode write",
            "the host and programs would not see each other's changes while they work",
            "use the mode overlay, and take the changes with `stockade apply`; or mount a directory \
             for results with `--mount DIR:/output:rw`, which is copied out; or use the native wall",
        ),
        (Mode::Write, TreeKind::File) => refused(
            "a writable file",
            "a program that replaces it would not change the host's file",
            "mount the directory above it",
        ),
        _ => Ok(()),
    }
}

/// Refuses what is read-only or hidden below a writable directory, inside or on the host. The guest
/// sends the changes of the whole directory, and a machine that broke its kernel sends others.
fn refuse_below_writable(policy: &Policy, all: &[Shown]) -> Result<(), QemuError> {
    // A copy does not change with the host.
    pinned_directories(policy, all, &|_| true)?;
    refuse_read_below_writable(all, |_, _| false)?;
    let hidden = policy.hide.iter().map(|hide| Path::new(hide.value.as_str()));
    let shown = all.iter().filter(|place| place.mode != Mode::Write);
    let writable = || all.iter().filter(|place| place.mode == Mode::Write);
    for place in hidden.chain(shown.map(|place| place.guest.as_path())) {
        if let Some(above) = writable().find(|above| place.starts_with(&above.guest)) {
            return Err(QemuError::Unsupported {
                what: "a mount or hidden path below a writable directory",
                reason: format!(
                    "a machine may change everything in {}, so {} too",
                    above.guest.display(),
                    place.display()
                ),
                remedy: "show it at another path inside, or use the native wall",
            });
        }
    }
    Ok(())
}

/// Where the changes of a writable directory go. `parent` is the directory above it.
fn target(place: &Shown, parent: File, archive: &[u8]) -> Result<Target, QemuError> {
    let name = place.host.file_name().unwrap_or_default();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&parent, name, flags, FileMode::empty());
    let directory: OwnedFd = opened.map_err(|errno| QemuError::Prepare {
        doing: "open a writable directory of the policy",
        source: errno.into(),
    })?;
    let copied = directories(archive);
    let copied = copied.map_err(|source| QemuError::Copy { path: place.host.clone(), source })?;
    Ok(Target::new(directory, copied))
}

/// The directories of an archive, below that which it is about.
fn directories(archive: &[u8]) -> Result<HashSet<Vec<u8>>, ArchiveError> {
    let mut entries = Entries::new(archive);
    let mut found = HashSet::new();
    while let Some(entry) = entries.next_entry()? {
        let name = entry.name.strip_prefix(NAME).and_then(|name| name.strip_prefix(b"/"));
        let name = name.map(|name| name.strip_suffix(b"/").unwrap_or(name));
        if let (EntryKind::Directory, Some(name)) = (&entry.kind, name)
            && !name.is_empty()
        {
            found.insert(name.to_vec());
        }
    }
    Ok(found)
}

/// Packs one place. Returns the directory above it too.
fn one(
    policy: &Policy,
    place: &Shown,
    archives: &mut Vec<u8>,
) -> Result<(File, MachineCopy), QemuError> {
    let too_large = || QemuError::TooLarge { path: place.host.clone(), most: MOST_MIB };
    let before = archives.len();
    let (Some(above), Some(name)) = (place.host.parent(), place.host.file_name()) else {
        return Err(too_large());
    };
    let parent = File::open(above).map_err(|source| QemuError::Prepare {
        doing: "open the directory above a file of the policy",
        source,
    })?;
    let bounded = Bounded { archives: &mut *archives, most: (MOST_MIB << 20) as usize };
    let emptied = hidden_in(policy, &place.guest);
    let packed = pack_without(parent.as_fd(), name.as_bytes(), NAME, &emptied, bounded);
    let packed = packed.map_err(|source| match source {
        ArchiveError::Stream { source } if source.kind() == io::ErrorKind::QuotaExceeded => {
            too_large()
        }
        source => QemuError::Copy { path: place.host.clone(), source },
    })?;
    let archive_bytes = (archives.len() - before) as u64;
    let limit = |limit: Limit| policy.limits.value(limit).unwrap_or_else(|| limit.spec().min);
    // Every file takes at least a page.
    let bytes = packed.bytes + 8 * archive_bytes.min(64 << 20) + (1 << 20);
    let layer = MachineLayer { bytes: limit(Limit::Disk) << 20, inodes: limit(Limit::Inodes) };
    let copy = MachineCopy {
        path: place.guest.display().to_string(),
        is_directory: place.kind == TreeKind::Directory,
        layer: (place.mode != Mode::Read).then_some(layer),
        archive_bytes,
        bytes,
        entries: MOST_ENTRIES,
    };
    Ok((parent, copy))
}

/// The names in an archive of what the policy hides below a place. The guest covers them too, but a
/// program that breaks the machine's kernel reads everything that entered the machine.
fn hidden_in(policy: &Policy, guest: &Path) -> HashSet<Vec<u8>> {
    let below = |hide: &Path| {
        let rest = hide.strip_prefix(guest).ok()?.as_os_str().as_bytes();
        Some(if rest.is_empty() { NAME.to_vec() } else { [NAME, b"/", rest].concat() })
    };
    policy.hide.iter().filter_map(|hide| below(Path::new(hide.value.as_str()))).collect()
}

/// Archives that stop to grow.
struct Bounded<'a> {
    archives: &'a mut Vec<u8>,
    most: usize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.archives.len() + bytes.len() > self.most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.archives.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Copies, QemuError> {
        copies(&Policy::parse_str("p", text, Path::new("/")).unwrap(), &[])
    }

    #[test]
    fn readable_trees_are_packed_in_the_order_of_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("b"), b"content").unwrap();
        let text = format!(
            "filesystem: {{ read: [{{ host: {0}/b, guest: /one }}, {{ host: {0}, guest: /a }}] }}",
            folder.display()
        );
        let found = asked(&text).unwrap();
        let listed: Vec<_> =
            found.list.iter().map(|copy| (copy.path.as_str(), copy.is_directory)).collect();
        assert_eq!(listed, [("/a", true), ("/one", false)]);
        let total: u64 = found.list.iter().map(|copy| copy.archive_bytes).sum();
        assert!(found.archives.len() as u64 == total && total > 0);
    }

    #[test]
    fn content_of_hidden_paths_does_not_enter_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("keys")).unwrap();
        std::fs::write(folder.join("keys/one"), b"canary-one").unwrap();
        std::fs::write(folder.join("env"), b"canary-two").unwrap();
        std::fs::write(folder.join("shown"), b"visible").unwrap();
        let read = format!("read: [{{ host: {}, guest: /a }}]", folder.display());
        let has = |archives: &[u8], word: &[u8]| archives.windows(word.len()).any(|it| it == word);
        let open = asked(&format!("filesystem: {{ {read} }}")).unwrap().archives;
        assert!(has(&open, b"canary-one") && has(&open, b"canary-two"));
        let text = format!("filesystem: {{ {read}, hide: [/a/keys, /a/env] }}");
        let closed = asked(&text).unwrap().archives;
        assert!(!has(&closed, b"canary") && !has(&closed, b"keys/one"));
        // The guest mounts its covers on these.
        assert!(has(&closed, b"copy/keys/") && has(&closed, b"copy/env"));
        assert!(has(&closed, b"visible"));
    }

    #[test]
    fn what_a_copy_cannot_be_and_mounts_over_the_guest_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("file"), b"content").unwrap();
        let folder = folder.display();
        for (text, part) in [
            (
                format!("filesystem: {{ write: [{{ host: {folder}/file, guest: /out }}] }}"),
                "a writable file",
            ),
            (
                format!("filesystem: {{ workspace: {{ host: {folder}, mode: write }} }}"),
                "a workspace with the mode write",
            ),
            (
                format!("filesystem: {{ read: [{{ host: {folder}, guest: /run/stockade/x }}] }}"),
                "belongs to the guest",
            ),
        ] {
            let refused = asked(&text).unwrap_err();
            assert!(matches!(refused, QemuError::Unsupported { .. }), "{refused}");
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }

    #[test]
    fn what_is_read_only_or_hidden_below_a_writable_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("out/deep/kept")).unwrap();
        std::fs::create_dir(folder.join("other")).unwrap();
        let at = folder.display();
        let text = |rest: &str| {
            format!("filesystem: {{ write: [{{ host: {at}/out, guest: /out }}], {rest} }}")
        };
        asked(&text(&format!("read: [{{ host: {at}/other, guest: /other }}], hide: [/other/x]")))
            .unwrap();
        for rest in [
            format!("read: [{{ host: {at}/out/deep, guest: /out/deep }}]"),
            format!("read: [{{ host: {at}/out/deep/kept, guest: /out/deep/kept }}]"),
            format!("read: [{{ host: {at}/out/deep, guest: /elsewhere }}]"),
            format!("read: [{{ host: {at}/other, guest: /out/deep }}]"),
            "hide: [/out/deep]".to_owned(),
            "hide: [/out/deep/kept]".to_owned(),
        ] {
            let refused = asked(&text(&rest)).map(drop);
            let is_refused =
                matches!(refused, Err(QemuError::Unsupported { .. } | QemuError::HostFile(_)));
            assert!(is_refused, "{rest}: {refused:?}");
        }
    }

    #[test]
    fn writable_directory_has_a_layer_and_the_directories_of_its_copy_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("one/two")).unwrap();
        std::fs::write(folder.join("one/file"), b"content").unwrap();
        let text = format!(
            "limits: {{ max_disk_mb: 7, max_inodes: 100 }}\n\
             filesystem: {{ write: [{{ host: {}, guest: /out }}] }}",
            folder.display()
        );
        let found = asked(&text).unwrap();
        let layer = MachineLayer { bytes: 7 << 20, inodes: 100 };
        assert_eq!(found.list[0].layer, Some(layer));
        assert_eq!(found.outputs.len(), 1);
        let mut names: Vec<_> = directories(&found.archives).unwrap().into_iter().collect();
        names.sort();
        assert_eq!(names, [b"one".to_vec(), b"one/two".to_vec()]);
    }

    #[test]
    fn files_beyond_the_bound_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let large = File::create(folder.join("large")).unwrap();
        large.set_len((MOST_MIB + 1) << 20).unwrap();
        let text = format!("filesystem: {{ read: [{{ host: {}, guest: /a }}] }}", folder.display());
        assert!(matches!(asked(&text), Err(QemuError::TooLarge { .. })));
    }
}
