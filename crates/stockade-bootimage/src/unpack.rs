//! Unpacks packages without running their scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::BootImageError;
use crate::program::{command, no_program};

/// What a sandbox never needs.
const LEFT_OUT: [&str; 3] = ["doc", "man", "locale"];

/// Unpacks every package of a directory into a tree; `/bin` and similar are symbolic links, as on
/// current Debian.
pub fn unpack(downloads: &Path, tree: &Path) -> Result<(), BootImageError> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        let directory = tree.join("usr").join(name);
        fs::create_dir_all(&directory).map_err(BootImageError::file("make", &directory))?;
        let link = tree.join(name);
        symlink(format!("usr/{name}"), &link).map_err(BootImageError::file("make", &link))?;
    }
    let cannot_read = || BootImageError::file("read", downloads);
    let mut packages: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(downloads).map_err(cannot_read())? {
        packages.push(entry.map_err(cannot_read())?.path());
    }
    // The order of a directory differs between file systems.
    packages.sort();
    packages.iter().try_for_each(|package| one(package, tree))
}

fn one(package: &Path, tree: &Path) -> Result<(), BootImageError> {
    let mut dpkg = command("dpkg-deb");
    dpkg.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut dpkg = dpkg.spawn().map_err(|source| no_program("dpkg-deb", source))?;
    let mut tar = command("tar");
    tar.arg("-C").arg(tree).args(["-x", "--keep-directory-symlink", "--no-same-owner"]);
    tar.args(LEFT_OUT.map(|name| format!("--exclude=./usr/share/{name}")));
    tar.stdin(dpkg.stdout.take().map_or_else(Stdio::null, Stdio::from));
    let unpacked = tar.output().map_err(|source| no_program("tar", source));
    let read = dpkg.wait().map_err(|source| no_program("dpkg-deb", source))?;
    let unpacked = unpacked?;
    if !read.success() || !unpacked.status.success() {
        let errors = String::from_utf8_lossy(&unpacked.stderr);
        let output = format!("cannot unpack {}: {}", package.display(), errors.trim());
        return Err(BootImageError::Program { program: "tar", output });
    }
    Ok(())
}
