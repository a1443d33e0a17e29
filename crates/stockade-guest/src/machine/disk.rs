//! The root on a disk of the caller: the first of its file systems that has a Linux system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, unmount};

use super::cannot;
use super::root::{DISK, IMAGE};

/// The most partitions that are tried.
const MOST_PARTITIONS: u32 = 16;
/// The file systems that the image's kernel may have.
const KINDS: [&str; 3] = ["ext4", "squashfs", "erofs"];
/// What a Linux system has at its top.
const SYSTEM: [&str; 2] = ["usr", "bin"];

/// Mounts the system of the disk where the image would be, read-only.
pub(super) fn mount() -> io::Result<()> {
    let found = || {
        fs::create_dir_all(IMAGE)?;
        let partitions = (1..=MOST_PARTITIONS).map(|number| format!("{DISK}{number}"));
        let devices = std::iter::once(DISK.to_owned()).chain(partitions).map(PathBuf::from);
        for device in devices.filter(|device| device.exists()) {
            for kind in KINDS {
                if try_mount(&device, kind) {
                    if SYSTEM.iter().any(|name| Path::new(IMAGE).join(name).is_dir()) {
                        return Ok(());
                    }
                    unmount(IMAGE, UnmountFlags::empty())?;
                }
            }
        }
        let kinds = KINDS.join(", ");
        Err(io::Error::other(format!("no partition has a Linux system in one of {kinds}")))
    };
    found().map_err(cannot("use the disk"))
}

fn try_mount(device: &Path, kind: &str) -> bool {
    let flags = MountFlags::RDONLY | MountFlags::NODEV;
    rustix::mount::mount(device, IMAGE, kind, flags, c"").is_ok()
}
