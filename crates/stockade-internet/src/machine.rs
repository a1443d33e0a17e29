//! The machine on the fake internet: its ids, name server and trusted certificates.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::authority::{BUNDLE, SUBJECT_HASH};
use crate::error::EnterError;
use crate::internet::AUTHORITY_FILE;
use crate::world::ROUTER;

const CERTIFICATES: &str = "/etc/ssl/certs";
const NAME_SERVERS: &str = "/etc/resolv.conf";

/// Maps one user and one group to themselves in the calling process's new user namespace.
pub(crate) fn map_ids(user: u32, group: u32) -> Result<(), EnterError> {
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(file, text).map_err(EnterError::file(file))?;
    }
    Ok(())
}

/// Makes all mounts private, so that later mounts do not reach the rest of the host.
pub(crate) fn keep_mounts_private() -> Result<(), EnterError> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let failed = |source: rustix::io::Errno| EnterError::Rights {
        what: "private mounts",
        source: source.into(),
    };
    mount_change("/", flags).map_err(failed)
}

/// Lets unprivileged users bind ports below 1024, so that tests can serve HTTP on its own ports.
/// The setting belongs to the new network namespace.
pub(crate) fn open_low_ports() -> Result<(), EnterError> {
    let file = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    fs::write(file, "0").map_err(EnterError::file(file))
}

/// Covers `resolv.conf` and the trusted certificates with copies in the directory, which already
/// contains the authority.
pub(crate) fn cover(directory: &Path) -> Result<(), EnterError> {
    let names = directory.join("resolv.conf");
    fs::write(&names, format!("nameserver {ROUTER}\n")).map_err(EnterError::file(&names))?;
    // Often a symbolic link into /run, to a file of the network manager.
    let covered = fs::canonicalize(NAME_SERVERS).map_err(EnterError::file(NAME_SERVERS))?;
    bind(&names, &covered)?;

    let trusted = directory.join("certs");
    copy_with_authority(&trusted, &directory.join(AUTHORITY_FILE))
        .map_err(EnterError::file(CERTIFICATES))?;
    bind(&trusted, Path::new(CERTIFICATES))
}

/// Copies the folder of certificates and adds the authority as Debian's tools do: to the bundle,
/// and under the hash of its name.
fn copy_with_authority(copy: &Path, authority: &Path) -> io::Result<()> {
    fs::create_dir(copy)?;
    for entry in fs::read_dir(CERTIFICATES)? {
        let entry = entry?;
        let (from, to) = (entry.path(), copy.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(from)?, to)?;
        } else if kind.is_file() {
            fs::copy(from, to)?;
        }
    }
    let pem = fs::read(authority)?;
    fs::write(copy.join("stockade-internet.pem"), &pem)?;
    symlink("stockade-internet.pem", copy.join(SUBJECT_HASH))?;
    let mut bundle = fs::read(Path::new(CERTIFICATES).join(BUNDLE))?;
    bundle.extend(pem);
    fs::write(copy.join(BUNDLE), bundle)
}

fn bind(from: &Path, over: &Path) -> Result<(), EnterError> {
    mount_bind(from, over).map_err(|error| EnterError::file(over)(error.into()))
}
