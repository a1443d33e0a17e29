//! Attributes of mounts.
#![expect(unsafe_code, reason = "rustix does not wrap mount_setattr(2)")]
// UNSAFETY: one call of mount_setattr(2), which reads a structure through a pointer.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::mount::MountAttrFlags;

/// Sets the attributes of every mount of a tree in one call. See mount_setattr(2).
///
/// With `users`, a user namespace, the tree becomes an idmapped mount: its file owners are
/// translated by that namespace's mapping.
pub fn set_tree_attributes(
    tree: BorrowedFd<'_>,
    set: MountAttrFlags,
    users: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut set = set;
    if users.is_some() {
        set |= MountAttrFlags::MOUNT_ATTR_IDMAP;
    }
    let attributes = Attributes {
        set: u64::from(set.bits()),
        clear: 0,
        propagation: libc::MS_PRIVATE,
        userns: users.map_or(0, |users| users.as_raw_fd() as u64),
    };
    set_attributes(tree, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, &attributes)
}

/// Adds attributes to one mount, not to the mounts below it.
pub fn set_mount_attributes(mount: BorrowedFd<'_>, set: MountAttrFlags) -> io::Result<()> {
    let attributes = Attributes { set: u64::from(set.bits()), clear: 0, propagation: 0, userns: 0 };
    set_attributes(mount, libc::AT_EMPTY_PATH, &attributes)
}

/// struct mount_attr of the kernel.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

fn set_attributes(mount: BorrowedFd<'_>, flags: i32, attributes: &Attributes) -> io::Result<()> {
    let attributes: *const Attributes = attributes;
    // SAFETY: the path is an empty string that ends in zero, `attributes` has the layout of struct
    // mount_attr and outlives the call, and its size is passed; the kernel writes nothing. Both
    // descriptors are borrowed, so they are open.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            attributes,
            size_of::<Attributes>(),
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
