//! A tree of the host under a layer that takes all changes.
//!
//! The kernel wants the layers by their paths in this mount namespace, so they are attached for
//! the moment and let go afterwards; the overlay keeps its own references.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags};

use crate::plan::FileMode;

use super::files::{STAGE, attach, below, directory, move_to};

const LOWER: &str = "lower";
const UPPER: &str = "upper";
const WORK: &str = "work";

/// A tree that gets a layer.
#[derive(Clone, Copy)]
pub(super) struct Layered<'t> {
    pub(super) tree: &'t OwnedFd,
    /// Whether files in it, and in the layer, can be executed.
    pub(super) executable: bool,
}

/// Puts a tree in the place of the new root; what is made in it later lies in the old one.
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

/// Attaches a tree under a layer that lies in a directory of the scratch file system.
pub(super) fn attach_over_tree(
    scratch: &OwnedFd,
    layers: &Path,
    layered: Layered<'_>,
    root: &OwnedFd,
    path: &Path,
) -> io::Result<()> {
    for name in [UPPER, WORK] {
        directory(scratch, &layers.join(name), FileMode(0o755))?;
    }
    // The tree first: the place is then made for a directory, and the overlay covers it.
    attach(layered.tree, root, path)?;
    let lower = inside_stage(path);
    let aside = PathBuf::from("/.layers");
    let writable = super::files::subtree(scratch, layers)?;
    attach(&writable, root, &aside)?;
    let above = inside_stage(&aside);
    let mut flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    // Of its own: an overlay has none of the attributes of its layers.
    if !layered.executable {
        flags |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    let overlay = mount(&lower, &above.join(UPPER), &above.join(WORK), flags)?;
    rustix::mount::unmount(&above, UnmountFlags::DETACH)?;
    rustix::fs::unlinkat(root, Path::new(".layers"), AtFlags::REMOVEDIR)?;
    let place = below(root, path, OFlags::PATH)?;
    let flags = rustix::mount::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
        | rustix::mount::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(&overlay, "", &place, "", flags)?)
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
    // In a user namespace the overlay keeps its marks in attributes that users may set,
    // Documentation/filesystems/overlayfs.rst.
    rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}
