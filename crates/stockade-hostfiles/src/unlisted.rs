//! Refuses a read-only directory without an overlay unless the policy has an entry that shows this.
//! Otherwise the report would omit that programs can connect to a socket which a host process
//! creates there.

use std::path::Path;

use crate::{HostFileError, Mode, Mounts, Shown};

/// Checks one read-only directory that is shown directly. `Policy::requirements` lists its sockets
/// if the policy has an entry for a host path below it.
pub(crate) fn refuse_unlisted(
    tree: &Shown,
    shown: &[Shown],
    mounts: &Mounts,
) -> Result<(), HostFileError> {
    let is_named = |point: &Path| {
        let inside = point.strip_prefix(&tree.host).map(|below| tree.guest.join(below));
        shown.iter().any(|it| it.host == point && Ok(&it.guest) == inside.as_ref())
    };
    if let Some(point) = mounts.below(&tree.host).find(|point| !is_named(point)) {
        return Err(unnamed(tree, point));
    }
    // Of two nested entries only the outer one is listed, and it covers the inner one too.
    let is_listed = shown.iter().any(|it| {
        let is_below = it.host.starts_with(&tree.host);
        let is_above = it.mode != Mode::Overlay && tree.host.starts_with(&it.host);
        it.host != tree.host && (is_below || is_above)
    });
    match is_listed || !mounts.can_hold_sockets(&tree.host) {
        true => Ok(()),
        false => Err(without_layer(tree)),
    }
}

fn unnamed(tree: &Shown, point: &Path) -> HostFileError {
    let inside = tree.guest.join(point.strip_prefix(&tree.host).unwrap_or(point));
    let (host, guest) = (point.display(), inside.display());
    let reason = format!(
        "{host} is mounted below it, so no overlay can be laid over it, and a program inside could \
         connect to a Unix socket that a host process makes there during the run; only Landlock 9 \
         (Linux 7.1) refuses that"
    );
    let remedy = format!(
        "accept it by an entry of its own for the mount point, `filesystem.read: [..., {{host: \
         {host}, guest: {guest}}}]` or `--mount {host}:{guest}`, and the report lists host_sockets \
         as approximate; or show a directory below which nothing is mounted"
    );
    HostFileError::path(&tree.host, reason, remedy)
}

fn without_layer(tree: &Shown) -> HostFileError {
    let reason = "no overlay can be laid over its file system here, so a program inside could connect \
                  to a Unix socket that a host process makes there during the run; only Landlock 9 \
                  (Linux 7.1) refuses that";
    let remedy = "copy it to ext4, xfs, btrfs or tmpfs; or accept it by another entry of \
                  filesystem.read for a path below it, and the report lists host_sockets as \
                  approximate";
    HostFileError::path(&tree.host, reason, remedy)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use stockade_launcher::TreeKind;

    use super::*;

    fn read(host: &str, guest: &str) -> Shown {
        let (host, guest) = (PathBuf::from(host), PathBuf::from(guest));
        Shown { host, guest, kind: TreeKind::Directory, mode: Mode::Read }
    }

    fn refusal(shown: &[Shown], mounts: &[(&str, &str)]) -> Option<String> {
        let line =
            |(point, kind): &(&str, &str)| format!("1 1 0:1 / {point} rw - {kind} none rw\n");
        let mounts = Mounts::of(&mounts.iter().map(line).collect::<String>());
        match refuse_unlisted(&shown[0], shown, &mounts) {
            Ok(()) => None,
            Err(HostFileError::Path { remedy, .. }) => Some(remedy),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn each_mount_point_below_a_directory_needs_its_own_entry() {
        let mounts = [("/", "ext4"), ("/data/a", "ext4"), ("/data/b", "tmpfs")];
        let (data, a, b) =
            (read("/data", "/in"), read("/data/a", "/in/a"), read("/data/b", "/in/b"));
        let elsewhere = read("/data/b", "/b");
        assert!(refusal(&[data.clone(), a.clone(), elsewhere], &mounts).is_some());
        let remedy = refusal(&[data.clone(), a.clone()], &mounts).unwrap();
        assert!(remedy.contains("{host: /data/b, guest: /in/b}"), "{remedy}");
        assert!(remedy.contains("--mount /data/b:/in/b"), "{remedy}");
        assert_eq!(refusal(&[data, a, b], &mounts), None);
    }

    #[test]
    fn file_system_without_overlay_needs_an_entry_unless_it_has_no_sockets() {
        let (data, below) = (read("/data", "/data"), read("/data/x", "/data/x"));
        for (kind, is_refused) in [("nfs4", true), ("fuse", true), ("vfat", false)] {
            let mounts = [("/", "ext4"), ("/data", kind)];
            assert_eq!(refusal(std::slice::from_ref(&data), &mounts).is_some(), is_refused);
            assert_eq!(refusal(&[data.clone(), below.clone()], &mounts), None, "{kind}");
            assert_eq!(refusal(&[below.clone(), data.clone()], &mounts), None, "{kind}");
            let layered = Shown { mode: Mode::Overlay, ..data.clone() };
            assert_eq!(refusal(&[below.clone(), layered], &mounts).is_some(), is_refused);
        }
    }

    #[test]
    fn unknown_mounts_are_refused() {
        assert!(refusal(&[read("/data", "/data")], &[]).is_some());
    }
}
