//! The lab's kernel, initramfs and root disk: built once from packages, and cached outside the
//! clone.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::offer::{Kernel, Offer};
use super::packages::{download, kernel_version, resolve};
use super::parcel::Parcel;
use crate::cache;
use crate::program::finish;

const INITRAMFS: &str = include_str!("initramfs.sh");
const INIT: &str = include_str!("init.sh");

/// Increment it when the code below builds a different image from the same packages.
const RECIPE: u32 = 2;

/// The kernel modules for disks and ports; some kernels have some built in.
const MODULES: [&str; 3] =
    ["drivers/virtio/virtio_pci", "drivers/block/virtio_blk", "drivers/char/virtio_console"];

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
    /// The image for the packages that apt offers today; builds it if necessary.
    pub(crate) fn current(kernel: Kernel, say: impl Fn(&str)) -> Result<Image> {
        let cache = cache::folder()?.join("lab");
        fs::create_dir_all(&cache)
            .with_context(|| format!("cannot make the folder {}", cache.display()))?;
        let offer = Offer::of(kernel, &cache)?;
        let packages = resolve(&offer)?;
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
    (packages, RECIPE, MODULES, FILES, INITRAMFS, INIT).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn build(packages: &[String], offer: &Offer, folder: &Path) -> Result<()> {
    let (downloads, tree) = (folder.join("packages"), folder.join("tree"));
    fs::create_dir(&downloads)?;
    download(packages, offer, &downloads)?;
    unpack(&downloads, &tree)?;
    let version = kernel_version(packages)?;
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

/// Unpacks every package without running its scripts; `/bin` and similar are symbolic links, as on
/// current Debian.
fn unpack(downloads: &Path, tree: &Path) -> Result<()> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(tree.join("usr").join(name))?;
        symlink(format!("usr/{name}"), tree.join(name))?;
    }
    for entry in fs::read_dir(downloads)? {
        let package = entry?.path();
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.arg("--fsys-tarfile").arg(&package).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut dpkg = dpkg.spawn().context("cannot start dpkg-deb")?;
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(tree).args(["-x", "--keep-directory-symlink", "--no-same-owner"]);
        tar.args(["doc", "man", "locale"].map(|name| format!("--exclude=./usr/share/{name}")));
        tar.stdin(dpkg.stdout.take().context("dpkg-deb has an output")?);
        let unpacked = tar.output().context("cannot start tar")?;
        ensure!(
            dpkg.wait()?.success() && unpacked.status.success(),
            "cannot unpack {}: {}",
            package.display(),
            String::from_utf8_lossy(&unpacked.stderr).trim()
        );
    }
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
    let mut parcel = Parcel::new(Vec::new());
    for name in ["dev", "new"] {
        parcel.directory(Path::new(name))?;
    }
    parcel.file(Path::new("init"), 0o755, INITRAMFS.as_bytes())?;
    parcel.host(&tree.join("usr/bin/busybox"), Path::new("bin/busybox"))?;
    let modules = tree.join("usr/lib/modules").join(version);
    let built_in = fs::read_to_string(modules.join("modules.builtin"))?;
    let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
    let mut order = String::new();
    for module in load_order(&dependencies, &built_in)? {
        let bytes = read_module(tree, &modules.join("kernel").join(&module))?;
        parcel.file(&Path::new("modules").join(&module), 0o644, &bytes)?;
        order.push_str(&module);
        order.push('\n');
    }
    parcel.file(Path::new("modules/order"), 0o644, order.as_bytes())?;
    Ok(fs::write(path, parcel.finish()?)?)
}

/// The files of the modules in the order in which they can be loaded. Which of two virtio modules
/// needs the other differs between kernels, so depmod's index decides.
fn load_order(dependencies: &str, built_in: &str) -> Result<Vec<String>> {
    let file = |name: &str| {
        let name = name.strip_prefix("kernel/").unwrap_or(name);
        name.strip_suffix(".xz").unwrap_or(name).to_owned()
    };
    let mut order: Vec<String> = Vec::new();
    for module in MODULES.map(|module| format!("{module}.ko")) {
        let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
        let Some((_, needed)) = lines.into_iter().find(|(name, _)| file(name) == module) else {
            let is_built_in = built_in.lines().any(|line| file(line) == module);
            ensure!(is_built_in, "the lab's kernel has no module {module}");
            continue;
        };
        // depmod lists what a module needs directly before what that needs in turn.
        let needed = needed.split_whitespace().rev().map(file);
        for name in needed.chain([module]) {
            if !order.contains(&name) {
                order.push(name);
            }
        }
    }
    Ok(order)
}

/// A module as the initramfs loads it, decompressed; newer kernels ship them compressed.
fn read_module(tree: &Path, module: &Path) -> Result<Vec<u8>> {
    if module.exists() {
        return fs::read(module).with_context(|| format!("cannot read {}", module.display()));
    }
    let mut xz = Command::new(tree.join("usr/bin/busybox"));
    xz.args(["xz", "-dc"]).arg(module.with_added_extension("xz"));
    let finished = xz.output().context("cannot start busybox")?;
    ensure!(finished.status.success(), "cannot decompress {}", module.display());
    Ok(finished.stdout)
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
    fn modules_are_loaded_after_those_they_need() {
        let dependencies = "\
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/drivers/virtio/virtio_pci.ko.xz: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko";
        let built_in = "kernel/drivers/char/virtio_console.ko\n";
        let expected = [
            "drivers/virtio/virtio_ring.ko",
            "drivers/virtio/virtio.ko",
            "drivers/virtio/virtio_pci.ko",
            "drivers/block/virtio_blk.ko",
        ];
        assert_eq!(load_order(dependencies, built_in).unwrap(), expected);
        assert!(load_order(dependencies, "").is_err(), "a missing module is an error");
    }

    #[test]
    fn another_package_version_makes_another_image() {
        let names = ["bash=1", "bash=2"].map(|package| name(&[package.to_owned()]));
        assert_ne!(names[0], names[1]);
        assert_eq!(names[0], name(&["bash=1".to_owned()]));
    }
}
