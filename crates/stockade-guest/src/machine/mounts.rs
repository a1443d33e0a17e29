//! Mounting file systems.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_remount};
use stockade_wire::MachinePlace;

use super::cannot;

/// The flags of everything that programs see.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Mounts devices and processes for this process itself.
pub(super) fn kernel_files() -> io::Result<()> {
    fresh("devtmpfs", Path::new("/dev"), MountFlags::NOSUID, "mode=0755")?;
    fresh("proc", Path::new("/proc"), PLAIN | MountFlags::NOEXEC, "")?;
    fresh("sysfs", Path::new("/sys"), PLAIN | MountFlags::NOEXEC, "")
}

/// Mounts a file system of the kernel; makes its directory.
pub(super) fn fresh(kind: &str, at: &Path, flags: MountFlags, data: &str) -> io::Result<()> {
    of_device(kind, kind, at, flags, data)
}

/// Mounts what a device contains; makes the directory.
pub(super) fn of_device(
    device: &str,
    kind: &str,
    at: &Path,
    flags: MountFlags,
    data: &str,
) -> io::Result<()> {
    let mounted = || {
        fs::create_dir_all(at)?;
        let data = CString::new(data)?;
        Ok(mount(device, at, kind, flags, data.as_c_str())?)
    };
    mounted().map_err(cannot(format_args!("mount {kind} at {}", at.display())))
}

/// Mounts an empty file system in memory below `root`.
pub(super) fn place(root: &Path, place: &MachinePlace, ids: (u32, u32)) -> io::Result<()> {
    let MachinePlace { path, bytes, inodes, mode, is_users, is_read_only } = place;
    let (user, group) = if *is_users { ids } else { (0, 0) };
    let data = format!("size={bytes},nr_inodes={inodes},mode={mode:04o},uid={user},gid={group}");
    let at = root.join(path.trim_start_matches('/'));
    fresh("tmpfs", &at, PLAIN, &data)?;
    match is_read_only {
        true => read_only(&at, PLAIN),
        false => Ok(()),
    }
}

/// Makes a mount read-only.
pub(super) fn read_only(at: &Path, flags: MountFlags) -> io::Result<()> {
    mount_remount(at, flags | MountFlags::RDONLY, c"")
        .map_err(io::Error::from)
        .map_err(cannot(format_args!("make {} read-only", at.display())))
}
