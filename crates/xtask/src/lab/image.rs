//! The lab's kernel, initramfs and root disk: built once from packages, and cached outside the
//! clone.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use stockade_bootimage::{Cpio, kernel_version, load_order, unpack};

use super::offer::{Kernel, Offer};
use super::packages::{download, resolve};
use crate::cache;
use crate::program::finish;

const INITRAMFS: &str = include_str!("initramfs.sh");
const INIT: &str = include_str!("init.sh");

/// Increment it when the code below builds a different image from the same packages.
const RECIPE: u32 = 4;

/// The kernel modules for disks and ports; some kernels have some built in.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// The kernel modules that give a nested machine its `/dev/kvm`.
const NESTED: [&str; 1] = ["kvm_amd"];

/// Files that package scripts or an installer would create, with their modes. `agent` is the
/// ordinary user.
const FILES: [(&str, u32, &str); 5] = [
    (
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/bash\n\
         agent:x:1000:1000::/home/agent:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", 0o644, "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("etc/fstab", 0o644, "/dev/vda / ext4 defaults 0 1\n"),
    ("etc/shadow", 0o600, "root:*:19000:0:99999:7:::\nagent:*:19000:0:99999:7:::\n"),
    ("etc/hosts", 0o644, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 lab\n"),
];

/// A bootable image.
pub(crate) struct Image {
    folder: PathBuf,
}

impl Image {
    /// The image for the packages that apt offers today, with `more` packages; builds it if
    /// necessary.
    pub(crate) fn current(kernel: Kernel, more: &[String], say: impl Fn(&str)) -> Result<Image> {
        let cache = cache::folder()?.join("lab");
        fs::create_dir_all(&cache)
            .with_context(|| format!("cannot make the folder {}", cache.display()))?;
        let offer = Offer::of(kernel, &cache)?;
        let packages = resolve(&offer, more)?;
        let image = Image { folder: cache.join(name(&packages)) };
        if image.folder.is_dir() {
            return Ok(image);
        }
        // One process builds and others wait; the next builder removes what a dead one left.
        let lock = File::create(cache.join("lock"))?;
        lock.lock().context("cannot wait for another build of the lab")?;
        if !image.folder.is_dir() {
            say(&format!("making the lab from {} packages, once", packages.len()));
            let building = cache.join("building");
            if building.exists() {
                fs::remove_dir_all(&building)?;
            }
            fs::create_dir(&building)?;
            build(&packages, &offer, &building)?;
            fs::rename(&building, &image.folder)?;
        }
        Ok(image)
    }

    /// A file about this image, stored next to it.
    pub(crate) fn sibling(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn kernel(&self) -> PathBuf {
        self.folder.join("kernel")
    }

    pub(crate) fn initramfs(&self) -> PathBuf {
        self.folder.join("initramfs")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root.ext4")
    }
}

/// The folder name for these packages and this recipe.
fn name(packages: &[String]) -> String {
    let mut hasher = DefaultHasher::new();
    (packages, RECIPE, MODULES, NESTED, FILES, INITRAMFS, INIT).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn build(packages: &[String], offer: &Offer, folder: &Path) -> Result<()> {
    let (downloads, tree) = (folder.join("packages"), folder.join("tree"));
    fs::create_dir(&downloads)?;
    download(packages, offer, &downloads)?;
    unpack(&downloads, &tree)?;
    let version = kernel_version(packages).context("apt chose no kernel for the lab")?;
    index_modules(&tree, version)?;
    fs::rename(tree.join("boot").join(format!("vmlinuz-{version}")), folder.join("kernel"))?;
    write_initramfs(&tree, version, &folder.join("initramfs"))?;
    for folder in ["lab", "home/agent"] {
        fs::create_dir_all(tree.join(folder))?;
    }
    for (path, mode, text) in FILES.into_iter().chain([("lab/init", 0o755, INIT)]) {
        let path = tree.join(path);
        fs::write(&path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    make_disk(&tree, &folder.join("root.ext4"))?;
    fs::remove_dir_all(downloads)?;
    fs::remove_dir_all(tree)?;
    Ok(())
}

/// Indexes the modules with the packages' own kmod; the host may not have it.
fn index_modules(tree: &Path, version: &str) -> Result<()> {
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let mut depmod = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    depmod.arg("--library-path").arg(&libraries).args(["--argv0", "depmod"]);
    depmod.arg(tree.join("usr/bin/kmod")).arg("-b").arg(tree).arg(version);
    let finished = finish(depmod)?;
    ensure!(finished.success, "depmod failed: {}", finished.output.trim());
    Ok(())
}

fn write_initramfs(tree: &Path, version: &str, path: &Path) -> Result<()> {
    let mut archive = Cpio::new(Vec::new());
    for name in ["dev", "new"] {
        archive.directory(Path::new(name))?;
    }
    archive.file(Path::new("init"), 0o755, INITRAMFS.as_bytes())?;
    archive.host(&tree.join("usr/bin/busybox"), Path::new("bin/busybox"))?;
    for (folder, wanted) in [("modules", &MODULES[..]), ("nested", &NESTED)] {
        let folder = Path::new(folder);
        let mut order = String::new();
        for module in load_order(&tree.join("usr/lib/modules").join(version), wanted)? {
            let name = format!("{}.ko", module.name);
            archive.file(&folder.join(&name), 0o644, &module.bytes)?;
            order.push_str(&name);
            order.push('\n');
        }
        archive.file(&folder.join("order"), 0o644, order.as_bytes())?;
    }
    Ok(fs::write(path, archive.finish()?)?)
}

/// Writes the tree to a disk image on which root owns everything, independent of the calling user.
fn make_disk(tree: &Path, disk: &Path) -> Result<()> {
    let is_root = fs::metadata(tree)?.uid() == 0;
    let mut make = match is_root {
        true => Command::new("mke2fs"),
        false => {
            let mut unshare = Command::new("unshare");
            unshare.args(["--map-root-user", "mke2fs"]);
            unshare
        }
    };
    // mke2fs is in a folder outside an ordinary user's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    make.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    make.args(["-q", "-t", "ext4", "-L", "lab", "-m", "0", "-d"]).arg(tree).arg(disk).arg("4G");
    let finished = finish(make)?;
    ensure!(finished.success, "cannot make the lab's disk: {}", finished.output.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_package_version_makes_another_image() {
        let names = ["bash=1", "bash=2"].map(|package| name(&[package.to_owned()]));
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0], name(&["bash=1".to_owned()]));
    }
}
