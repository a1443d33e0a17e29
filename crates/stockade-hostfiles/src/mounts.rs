//! Reads which file systems are mounted where, which decides how a directory can be shown. Pure
//! except for [`Mounts::look`].

use std::path::{Path, PathBuf};

use stockade_sys::{kernel_text, unescape_path};

/// File system types that overlayfs accepts as a lower layer. It rejects others, such as
/// case-insensitive ones.
const LAYERED: [&str; 11] = [
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "squashfs", "tmpfs", "xfs",
    "zfs",
];

/// File system types in which no process can create a Unix socket.
const WITHOUT_SOCKETS: [&str; 7] =
    ["cramfs", "erofs", "exfat", "iso9660", "msdos", "romfs", "vfat"];

/// Mount points and their file system types, in mount order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(Vec<(PathBuf, String)>);

impl Mounts {
    /// The mounts of this process. Empty if they cannot be read: every directory is then shown
    /// without an overlay.
    pub fn look() -> Mounts {
        kernel_text("/proc/self/mountinfo")
            .map_or_else(|_| Mounts::default(), |text| Mounts::of(&text))
    }

    /// Parses proc_pid_mountinfo(5).
    pub fn of(mountinfo: &str) -> Mounts {
        let mount = |line: &str| {
            let (before, after) = line.split_once(" - ")?;
            let (point, kind) = (before.split(' ').nth(4)?, after.split(' ').next()?);
            Some((unescape_path(point), kind.to_owned()))
        };
        Mounts(mountinfo.lines().filter_map(mount).collect())
    }

    /// Whether a directory can be shown through an overlay of the sandbox. Not with a mount point
    /// below it: the kernel does not let a process see what lies under that mount.
    pub fn is_separable(&self, directory: &Path) -> bool {
        let kind = self.kind(directory);
        kind.is_some_and(|kind| LAYERED.contains(&kind)) && self.below(directory).next().is_none()
    }

    /// Mount points below a directory.
    pub fn below<'m>(&'m self, directory: &'m Path) -> impl Iterator<Item = &'m Path> {
        let points = self.0.iter().map(|(point, _)| point.as_path());
        points.filter(move |point| *point != directory && point.starts_with(directory))
    }

    /// Whether the file system of a directory supports Unix sockets.
    pub fn can_hold_sockets(&self, directory: &Path) -> bool {
        self.kind(directory).is_none_or(|kind| !WITHOUT_SOCKETS.contains(&kind))
    }

    /// The type of the file system of a directory.
    fn kind(&self, directory: &Path) -> Option<&str> {
        let above = self.0.iter().filter(|(point, _)| directory.starts_with(point));
        // Of several mounts at one point the last is visible, and `max_by_key` returns the last.
        let nearest = above.max_by_key(|(point, _)| point.components().count());
        nearest.map(|(_, kind)| kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &[(&str, &str)]) -> Mounts {
        let line =
            |(point, kind): &(&str, &str)| format!("1 1 0:1 / {point} rw - {kind} none rw\n");
        Mounts::of(&lines.iter().map(line).collect::<String>())
    }

    #[test]
    fn directories_of_common_file_systems_can_be_overlaid() {
        let mounts = mounts(&[("/", "ext4"), ("/home", "xfs"), ("/media/a\\040stick", "vfat")]);
        for (directory, apart) in
            [("/usr", true), ("/home", true), ("/home/me", true), ("/media/a stick/x", false)]
        {
            assert_eq!(mounts.is_separable(Path::new(directory)), apart, "{directory}");
        }
    }

    #[test]
    fn directory_with_a_mount_below_it_cannot_be_overlaid() {
        let mounts =
            mounts(&[("/", "overlay"), ("/usr/lib/driver.so", "ext4"), ("/etcetera", "ext4")]);
        for (directory, apart) in
            [("/usr", false), ("/usr/lib", false), ("/usr/share", true), ("/etc", true)]
        {
            assert_eq!(mounts.is_separable(Path::new(directory)), apart, "{directory}");
        }
    }

    #[test]
    fn later_of_two_mounts_at_one_point_counts() {
        let mounts = mounts(&[("/", "ext4"), ("/data", "ext4"), ("/data", "vfat")]);
        assert!(!mounts.is_separable(Path::new("/data/x")));
        assert!(!Mounts::default().is_separable(Path::new("/usr")));
    }
}
