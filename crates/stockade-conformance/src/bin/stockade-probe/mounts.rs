//! Mounting, with mount(2) and with the fsopen(2) family.

use std::io;

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, errno, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("mount", mount),
    ("apart-mount", apart_mount),
    ("new-mount", new_mount),
    ("apart-new-mount", apart_new_mount),
    ("chroot", chroot),
];

/// The same in a new mount namespace, so that the control changes nothing on the host.
fn apart_mount(words: &[&str]) -> Tried {
    match stand_apart() {
        Ok(_) => mount(words),
        Err(error) => Tried::one(Err::<String, _>(error)),
    }
}

fn apart_new_mount(words: &[&str]) -> Tried {
    match stand_apart() {
        Ok(_) => new_mount(words),
        Err(error) => Tried::one(Err::<String, _>(error)),
    }
}

fn stand_apart() -> io::Result<i64> {
    const PRIVATE_BELOW: u32 = (libc::MS_REC | libc::MS_PRIVATE) as u32;
    raw_call(libc::SYS_unshare, &mut [Argument::Number(libc::CLONE_NEWNS as u32)])?;
    old("none", "/", "", PRIVATE_BELOW)
}

/// mount(2) and related calls, selected by name: `mount`, `remount PATH`, `bind PATH`, `umount
/// PATH`, …
fn mount(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    let path = word(words, 1);
    let result = match word(words, 0) {
        "tmpfs" => old("none", path, "tmpfs", 0),
        "proc" => old("none", path, "proc", 0),
        "bind" => old("/", path, "", libc::MS_BIND as u32),
        "remount" => {
            let flags = (libc::MS_REMOUNT | libc::MS_BIND) as u32;
            old("none", path, "", flags)
        }
        "umount" => text(path).and_then(|path| {
            raw_call(
                libc::SYS_umount2,
                &mut [Argument::Text(&path), Argument::Number(libc::MNT_DETACH as u32)],
            )
        }),
        "pivot_root" => {
            raw_call(libc::SYS_pivot_root, &mut [Argument::Text(c"/"), Argument::Text(c"/")])
        }
        "mount_setattr" => text(path).and_then(|path| {
            raw_call(
                libc::SYS_mount_setattr,
                &mut [
                    Argument::Minus(100),
                    Argument::Text(&path),
                    Argument::Number(0),
                    Argument::Bytes(&mut [0; 32]),
                    Argument::Number(32),
                ],
            )
        }),
        _ => Err(errno(libc::EDOM)),
    };
    tried.add(word(words, 0), result.map(|_| "done"));
    tried
}

fn text(path: &str) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(path).map_err(io::Error::other)
}

fn old(source: &str, target: &str, kind: &str, flags: u32) -> io::Result<i64> {
    let (source, target, kind) = (text(source)?, text(target)?, text(kind)?);
    raw_call(
        libc::SYS_mount,
        &mut [
            Argument::Text(&source),
            Argument::Text(&target),
            Argument::Text(&kind),
            Argument::Number(flags),
            Argument::Number(0),
        ],
    )
}

/// The fsopen(2) family, each call as far as it gets on its own.
fn new_mount(_: &[&str]) -> Tried {
    let mut tried = Tried::default();
    let zero = || Argument::Number(0);
    let root = || Argument::Text(c"/");
    let fsopen = raw_call(libc::SYS_fsopen, &mut [Argument::Text(c"tmpfs"), zero()]);
    tried.add("fsopen", fsopen.map(|_| "done"));
    let here = || Argument::Minus(100);
    let fspick = raw_call(libc::SYS_fspick, &mut [here(), root(), zero()]);
    tried.add("fspick", fspick.map(|_| "done"));
    // OPEN_TREE_CLONE.
    let tree = raw_call(libc::SYS_open_tree, &mut [here(), root(), Argument::Number(1)]);
    tried.add("open_tree", tree.map(|_| "done"));
    tried
}

/// Leaves a changed root through a directory that was open before the chroot.
fn chroot(words: &[&str]) -> Tried {
    let escape = || -> io::Result<&str> {
        let before = std::fs::File::open("/")?;
        let place = text(word(words, 0))?;
        raw_call(libc::SYS_chroot, &mut [Argument::Text(&place)])?;
        rustix::process::fchdir(&before)?;
        for _ in 0..100 {
            rustix::process::chdir("..")?;
        }
        raw_call(libc::SYS_chroot, &mut [Argument::Text(c".")])?;
        Ok("escaped")
    };
    Tried::one(escape())
}
