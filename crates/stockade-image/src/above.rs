//! The directories above the store: a user who can rename one of them can replace every image.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

use crate::ImageError;

/// Refuses a store below a directory or a link that another user can replace. Directories that are
/// missing are passed over: the caller creates them.
pub(crate) fn check(store: &Path) -> Result<(), ImageError> {
    let caller = geteuid().as_raw();
    for path in store.ancestors().skip(1) {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|source| ImageError::File {
                doing: "read",
                path: path.to_owned(),
                source,
            })?,
        };
        // The mode of a link is meaningless, symlink(7).
        let mode = if found.is_symlink() { 0 } else { found.mode() };
        if let Some(reason) = fault(found.uid(), found.gid(), mode, caller) {
            let (store, path) = (store.to_owned(), path.to_owned());
            return Err(ImageError::Above { store, path, reason });
        }
    }
    Ok(())
}

/// Why another user can replace what is in a directory.
fn fault(user: u32, group: u32, mode: u32, caller: u32) -> Option<&'static str> {
    const STICKY: u32 = 0o1000;
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;
    if user != 0 && user != caller {
        return Some("belongs to another user");
    }
    // Only the owner of an entry replaces it there, and the owner of every entry is checked.
    if mode & STICKY != 0 {
        return None;
    }
    // Distributions give each user a group of the same number, and some let it write by default.
    let is_private = group == user;
    match mode & OTHERS_WRITE != 0 || mode & GROUP_WRITES != 0 && !is_private {
        true => Some("can be written by other users"),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::Store;

    #[test]
    fn directory_that_other_users_can_replace_is_a_fault() {
        let (foreign, writable) =
            (Some("belongs to another user"), Some("can be written by other users"));
        for (user, group, mode, expected) in [
            (0, 0, 0o755, None),
            (7, 7, 0o700, None),
            (7, 7, 0o775, None),
            (0, 0, 0o1777, None),
            (7, 9, 0o1777, None),
            (8, 8, 0o755, foreign),
            (8, 8, 0o1777, foreign),
            (7, 7, 0o757, writable),
            (0, 0, 0o777, writable),
            (7, 9, 0o775, writable),
        ] {
            assert_eq!(fault(user, group, mode, 7), expected, "{user} {group} {mode:o}");
        }
    }

    #[test]
    fn store_below_a_directory_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        let safe = open.join("safe");
        fs::create_dir_all(&safe).unwrap();
        fs::set_permissions(&safe, fs::Permissions::from_mode(0o755)).unwrap();
        let mode = |mode| fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        // The link is safe, and what it leads to is not.
        let link = folder.path().join("link");
        symlink(&safe, &link).unwrap();
        mode(0o777);
        for store in [safe.join("store"), open.join("store"), link.join("store")] {
            let refused = Store::open(&store).map(drop);
            let Err(error @ ImageError::Above { .. }) = refused else { panic!("{refused:?}") };
            assert!(error.to_string().ends_with("open can be written by other users"), "{error}");
            assert!(error.remedy().contains("chmod go-w"), "{}", error.remedy());
        }
        assert!(!safe.join("store/images").exists() && !open.join("store").exists());
        mode(0o1777);
        Store::open(&safe.join("store")).unwrap();
        mode(0o755);
        Store::open(&link.join("store")).unwrap();
    }
}
