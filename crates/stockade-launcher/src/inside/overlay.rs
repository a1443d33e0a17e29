//! Overlays over a tree of the host: with an upper layer that takes all changes, or read-only.
//!
//! The kernel requires layers that are attached in this mount namespace, so they are attached
//! temporarily and then released; the overlay keeps its own references.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags};

use crate::plan::{Attributes, FileMode};

use super::files::{STAGE, attach, directory, flags_of, move_to, subtree};
use super::wrong;

const LOWER: &str = "lower";
const UPPER: &str = "upper";
const WORK: &str = "work";

/// A tree to put under an overlay.
#[derive(Clone, Copy)]
pub(super) struct Layered<'t> {
    pub(super) tree: &'t OwnedFd,
    /// Whether files in the overlay can be executed.
    pub(super) executable: bool,
}

/// Replaces the new root by an overlay over a tree. The upper layer is a directory in the old one.
pub(super) fn root(root: &OwnedFd, tree: &OwnedFd) -> io::Result<OwnedFd> {
    for name in [UPPER, WORK] {
        directory(root, Path::new(name), FileMode(0o755))?;
    }
    attach(tree, root, Path::new(LOWER))?;
    let stage = Path::new(STAGE);
    let overlay =
        mount(&stage.join(LOWER), &stage.join(UPPER), &stage.join(WORK), MountAttrFlags::empty())?;
    move_to(&overlay, CWD, STAGE)?;
    Ok(overlay)
}

/// Attaches a tree under an upper layer in a directory of the scratch file system. Returns that
/// layer, which no path inside leads to.
pub(super) fn attach_over_tree(
    scratch: &OwnedFd,
    layers: &Path,
    layered: Layered<'_>,
    root: &OwnedFd,
    path: &Path,
) -> io::Result<OwnedFd> {
    for name in [UPPER, WORK] {
        directory(scratch, &layers.join(name), FileMode(0o755))?;
    }
    // The tree first: this creates a directory as the mount point, and the overlay then covers it.
    attach(layered.tree, root, path)?;
    let lower = inside_stage(path);
    let aside = PathBuf::from("/.layers");
    let writable = subtree(scratch, layers)?;
    attach(&writable, root, &aside)?;
    let above = inside_stage(&aside);
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    // An overlay does not inherit the mount attributes of its layers.
    if !layered.executable {
        flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    let overlay = mount(&lower, &above.join(UPPER), &above.join(WORK), flags)?;
    let look = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let upper = rustix::fs::openat(&writable, UPPER, look, Mode::empty())?;
    rustix::mount::unmount(&above, UnmountFlags::DETACH)?;
    rustix::fs::unlinkat(root, Path::new(".layers"), AtFlags::REMOVEDIR)?;
    attach(&overlay, root, path)?;
    Ok(upper)
}

/// Makes the host's `/proc/self/fd` the working directory until the pivot. Layers are then named by
/// descriptor numbers, so that no process can replace them.
pub(super) fn stand_among_descriptors() -> io::Result<()> {
    Ok(rustix::process::chdir("/proc/self/fd")?)
}

/// Builds overlays without an upper layer.
pub(super) struct Apart {
    /// A second, empty layer: the kernel accepts no overlay with a single layer.
    empty: OwnedFd,
}

impl Apart {
    pub(super) fn new(empty: OwnedFd) -> Apart {
        Apart { empty }
    }

    /// Attaches a directory read-only, with inodes of its own: locks and watches are not shared.
    pub(super) fn attach(
        &self,
        layered: Layered<'_>,
        root: &OwnedFd,
        path: &Path,
    ) -> io::Result<()> {
        // The tree first; the overlay then covers it.
        attach(layered.tree, root, path)?;
        attach(&self.over(layered)?, root, path)
    }

    /// Attaches one file of a directory in the same way.
    pub(super) fn attach_part(
        &self,
        layered: Layered<'_>,
        name: &Path,
        root: &OwnedFd,
        path: &Path,
    ) -> io::Result<()> {
        let aside = Path::new("/.apart");
        self.attach(layered, root, aside)?;
        let part = subtree(root, &aside.join(name))?;
        if FileType::from_raw_mode(rustix::fs::fstat(&part)?.st_mode) != FileType::RegularFile {
            return Err(wrong("it is not a regular file any more"));
        }
        for _ in ["the overlay", "the tree"] {
            rustix::mount::unmount(inside_stage(aside), UnmountFlags::DETACH)?;
        }
        rustix::fs::unlinkat(root, ".apart", AtFlags::REMOVEDIR)?;
        attach(&part, root, path)
    }

    fn over(&self, layered: Layered<'_>) -> io::Result<OwnedFd> {
        let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let layers = format!("{}:{}", layered.tree.as_raw_fd(), self.empty.as_raw_fd());
        rustix::mount::fsconfig_set_string(&context, "source", "stockade")?;
        rustix::mount::fsconfig_set_string(&context, "lowerdir", layers)?;
        rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
        rustix::mount::fsconfig_create(&context)?;
        let attributes =
            Attributes { writable: false, executable: layered.executable, devices: false };
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        Ok(rustix::mount::fsmount(&context, flags, flags_of(attributes))?)
    }
}

fn inside_stage(path: &Path) -> PathBuf {
    Path::new(STAGE).join(path.strip_prefix("/").unwrap_or(path))
}

fn mount(lower: &Path, upper: &Path, work: &Path, flags: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, path: &Path| rustix::mount::fsconfig_set_string(&context, key, path);
    rustix::mount::fsconfig_set_string(&context, "source", "stockade")?;
    set("lowerdir", lower)?;
    set("upperdir", upper)?;
    set("workdir", work)?;
    // In a user namespace overlayfs keeps its metadata in user extended attributes,
    // Documentation/filesystems/overlayfs.rst.
    rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
