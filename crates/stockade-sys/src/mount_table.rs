//! Every path by which one directory of this host can be reached.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::kernel_text::{kernel_bytes, unescape_path};

/// What is mounted where.
#[derive(Default)]
pub struct MountTable(Vec<Mount>);

impl MountTable {
    /// The mounts of this process, from proc_pid_mountinfo(5).
    pub fn look() -> io::Result<MountTable> {
        Ok(MountTable(mounts(&kernel_bytes("/proc/self/mountinfo")?)))
    }

    /// The real path that is given, and those by which other mounts show the same place. What of the
    /// path is not there yet would be there in all of them.
    pub fn aliases(&self, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![path.to_owned()];
        let there =
            path.ancestors().find_map(|above| Some((above, std::fs::metadata(above).ok()?)));
        let Some((above, one)) = there else { return found };
        let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
        let same = |other: Metadata| (other.dev(), other.ino()) == (one.dev(), one.ino());
        for other in candidates(&self.0, above) {
            // Something else may be mounted over it.
            if other != above && std::fs::metadata(&other).is_ok_and(same) {
                found.push(other.join(rest));
            }
        }
        found
    }
}

/// One mount: which file system, what of it, and where.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    root: PathBuf,
    point: PathBuf,
}

/// Reads proc_pid_mountinfo(5), in the order in which things were mounted.
fn mounts(mountinfo: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Mount {
            device: device.to_vec(),
            root: unescape_path(root),
            point: unescape_path(point),
        })
    };
    mountinfo.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Where the mounts of a path's file system would show it.
fn candidates(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    let above = |mount: &&Mount| path.starts_with(&mount.point);
    // Of several at one place the last is seen, and it is the last of those with the most parts.
    let nearest = mounts.iter().filter(above).max_by_key(|mount| mount.point.components().count());
    let inner = nearest.and_then(|mount| {
        Some((&mount.device, mount.root.join(path.strip_prefix(&mount.point).ok()?)))
    });
    let Some((device, inner)) = inner else { return Vec::new() };
    let shown = |mount: &Mount| match mount.device == *device {
        true => Some(mount.point.join(inner.strip_prefix(&mount.root).ok()?)),
        false => None,
    };
    // Without the slash that joining nothing leaves.
    mounts.iter().filter_map(shown).map(|path| path.components().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"1 0 8:1 / / rw - ext4 a rw\n\
        2 1 8:1 /home/u/work /srv/a\\040b rw - ext4 a rw\n\
        3 1 8:2 / /other rw - ext4 b rw\n\
        4 1 8:1 /var /v rw - ext4 a rw\n";

    fn found(path: &str) -> Vec<PathBuf> {
        candidates(&mounts(MOUNTS), Path::new(path))
    }

    #[test]
    fn directory_is_found_wherever_its_file_system_shows_it() {
        let both = ["/home/u/work/records", "/srv/a b/records"].map(PathBuf::from);
        assert_eq!(found("/home/u/work/records"), both);
        assert_eq!(found("/srv/a b/records"), both);
        assert_eq!(found("/var"), ["/var", "/v"].map(PathBuf::from));
        assert_eq!(found("/other/var"), [PathBuf::from("/other/var")]);
        assert_eq!(found("/home/u"), [PathBuf::from("/home/u")]);
    }

    #[test]
    fn path_of_this_host_is_its_own_first_alias() {
        let path = std::env::temp_dir().canonicalize().unwrap().join("not/there");
        assert_eq!(MountTable::look().unwrap().aliases(&path)[0], path);
    }
}
