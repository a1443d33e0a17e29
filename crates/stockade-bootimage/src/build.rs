//! Builds an image and puts it into the store.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::modules::{ModuleFile, WANTED as WANTED_MODULES, WANTED_FOR_DISKS, load_order};
use crate::packages::{download, kernel_version, resolve};
use crate::program::{command, finish};
use crate::stamp::{hash, hash_of};
use crate::store::{BootStore, KERNEL, MANIFEST, MODULES, Manifest, PASSWD, ROOT};
use crate::unpack::unpack;
use crate::{BootImageError, Cpio};

/// The package of the kernel.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";

/// The packages of a root `debian`, apt adds what they need. Few, because each makes the image
/// larger.
const WANTED: [&str; 20] = [
    "base-files",
    "bash",
    "ca-certificates",
    "coreutils",
    "curl",
    "dash",
    "diffutils",
    "findutils",
    "gzip",
    "grep",
    "hostname",
    "libc-bin",
    "mawk",
    "netbase",
    "procps",
    "python3",
    "sed",
    "tar",
    "tzdata",
    "util-linux",
];

/// Files that package scripts or an installer would write.
const FILES: [(&str, &str); 4] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/hostname", "sandbox\n"),
];

/// Links that package scripts would make.
const LINKS: [(&str, &str); 2] = [("usr/bin/awk", "mawk"), ("usr/bin/python", "python3")];

/// The time of every file in a root, so that the same packages make the same bytes: 1980, because
/// zip archives know no earlier year.
const TIME: &str = "315532800";

/// What a root is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Packages of the host's distribution.
    Debian,
    /// A tree of files, with a text that names its origin.
    Tree {
        /// The tree.
        path: PathBuf,
        /// Where it comes from.
        origin: String,
    },
}

/// What to build.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The name of the image; one of this name is replaced.
    pub name: String,
    /// The root.
    pub source: Source,
    /// A kernel of the caller, which needs no modules; otherwise the distribution's.
    pub kernel: Option<PathBuf>,
}

/// Builds an image; `say` reports what is being done. Downloads packages with apt, and nothing
/// else.
pub fn build(
    store: &BootStore,
    request: &BuildRequest,
    say: impl Fn(&str),
) -> Result<Manifest, BootImageError> {
    let place = store.place(&request.name)?;
    let make = |path: &Path| fs::create_dir_all(path).map_err(BootImageError::file("make", path));
    make(&store.directory)?;
    let lock = store.directory.join(".lock");
    let held = File::create(&lock).map_err(BootImageError::file("make", &lock))?;
    held.lock().map_err(BootImageError::file("lock", &lock))?;
    // The lock is held, so what is there is left from a builder that has died.
    let building = store.directory.join(".building");
    if building.exists() {
        fs::remove_dir_all(&building).map_err(BootImageError::file("remove", &building))?;
    }
    make(&building)?;
    let image = building.join("image");
    make(&image)?;
    let built = files(request, &building, &image, &say);
    let manifest = built.and_then(|(kernel, packages)| describe(request, &image, kernel, packages));
    let manifest = manifest.and_then(|manifest| {
        if place.exists() {
            store.discard(&place)?;
        }
        fs::rename(&image, &place).map_err(BootImageError::file("keep", &place))?;
        Ok(manifest)
    });
    let removed = fs::remove_dir_all(&building).map_err(BootImageError::file("remove", &building));
    let manifest = manifest?;
    removed?;
    Ok(manifest)
}

/// Writes every file of the image; returns what the kernel is, and the packages.
fn files(
    request: &BuildRequest,
    building: &Path,
    image: &Path,
    say: &impl Fn(&str),
) -> Result<(String, Vec<String>), BootImageError> {
    let (downloads, tree) = (building.join("packages"), building.join("tree"));
    let wanted: &[&str] = match request.source {
        Source::Debian => &WANTED,
        Source::Tree { .. } => &[],
    };
    let mut packages = match (wanted.is_empty(), &request.kernel) {
        (true, Some(_)) => Vec::new(),
        _ => resolve(wanted, KERNEL_PACKAGE)?,
    };
    let version = kernel_version(&packages).map(str::to_owned);
    if wanted.is_empty() {
        packages.retain(|package| version.as_ref().is_some_and(|it| package.contains(it.as_str())));
    }
    if request.kernel.is_some() {
        packages.retain(|package| !package.starts_with("linux-image-"));
    }
    // The kernel's dependencies are for a machine that installs it.
    packages.retain(|package| !KERNEL_HELPERS.iter().any(|name| package.starts_with(name)));
    fs::create_dir(&downloads).map_err(BootImageError::file("make", &downloads))?;
    if !packages.is_empty() {
        say(&format!("downloading {} packages", packages.len()));
        let names: Vec<&str> = packages.iter().map(String::as_str).collect();
        download(&names, &downloads)?;
    }
    unpack(&downloads, &tree)?;
    let kernel = match (&request.kernel, version) {
        (Some(path), _) => {
            copy(path, &image.join(KERNEL))?;
            modules(None, &image.join(MODULES))?;
            path.display().to_string()
        }
        (None, Some(version)) => {
            copy(&tree.join(format!("boot/vmlinuz-{version}")), &image.join(KERNEL))?;
            let place = ["usr/lib/modules", "lib/modules"]
                .map(|place| tree.join(place).join(&version))
                .into_iter()
                .find(|place| place.is_dir());
            let no_modules = || BootImageError::Kernel { reason: "it has no modules".to_owned() };
            modules(Some(&place.ok_or_else(no_modules)?), &image.join(MODULES))?;
            version
        }
        (None, None) => {
            let reason = "apt chose no kernel".to_owned();
            return Err(BootImageError::Kernel { reason });
        }
    };
    let root = match &request.source {
        Source::Debian => {
            finish_root(&tree)?;
            tree
        }
        Source::Tree { path, .. } => path.clone(),
    };
    let reason = "it is not a directory with `usr` or `bin`";
    if !["usr", "bin"].iter().any(|name| root.join(name).is_dir()) {
        return Err(BootImageError::Root { path: root, reason });
    }
    let passwd = fs::read(root.join("etc/passwd")).unwrap_or_default();
    let kept = image.join(PASSWD);
    fs::write(&kept, passwd).map_err(BootImageError::file("write", kept))?;
    say("writing the root");
    squash(&root, &image.join(ROOT))?;
    Ok((kernel, packages))
}

/// Packages that installing a kernel's package requires.
const KERNEL_HELPERS: [&str; 8] = [
    "initramfs-tools",
    "klibc-utils",
    "libklibc",
    "linux-base",
    "busybox",
    "kmod",
    "libkmod2",
    "cpio",
];

/// Adds what the scripts of packages would have added, and removes what only booting needs.
fn finish_root(tree: &Path) -> Result<(), BootImageError> {
    for name in ["boot", "usr/lib/modules", "lib/modules"] {
        let path = tree.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).map_err(BootImageError::file("remove", &path))?;
        }
    }
    for (name, text) in FILES {
        write(&tree.join(name), text.as_bytes())?;
    }
    for (name, target) in LINKS {
        let link = tree.join(name);
        if !link.exists() {
            symlink(target, &link).map_err(BootImageError::file("make", &link))?;
        }
    }
    write(&tree.join("etc/ssl/certs/ca-certificates.crt"), &certificates(tree)?)
}

/// All certificates of the package, as its script would write them.
fn certificates(tree: &Path) -> Result<Vec<u8>, BootImageError> {
    let directory = tree.join("usr/share/ca-certificates/mozilla");
    let failed = || BootImageError::file("read", &directory);
    let mut paths = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed())? {
        paths.push(entry.map_err(failed())?.path());
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(fs::read(&path).map_err(BootImageError::file("read", &path))?);
    }
    Ok(all)
}

/// Writes the modules of a kernel in an initramfs; with none for a kernel that needs none.
fn modules(from: Option<&Path>, to: &Path) -> Result<(), BootImageError> {
    let ordered = |wanted: &[&str]| from.map(|from| load_order(from, wanted)).transpose();
    let modules = ordered(&WANTED_MODULES)?.unwrap_or_default();
    let mut for_disks = ordered(&WANTED_FOR_DISKS)?.unwrap_or_default();
    for_disks.retain(|module| !modules.contains(module));
    let packed = || {
        let mut archive = Cpio::new(Vec::new());
        for name in ["dev", "proc", "sys", "new", "image", "layer", "files"] {
            archive.directory(Path::new(name))?;
        }
        list(&mut archive, "order", &modules)?;
        list(&mut archive, "order-disk", &for_disks)?;
        archive.finish()
    };
    let bytes = packed().map_err(BootImageError::file("pack", to))?;
    fs::write(to, bytes).map_err(BootImageError::file("write", to))
}

/// Adds modules, and a file with their names in the order of loading.
fn list(archive: &mut Cpio<Vec<u8>>, order: &str, modules: &[ModuleFile]) -> io::Result<()> {
    let mut names = String::new();
    for module in modules {
        let name = format!("{}.ko", module.name);
        archive.file(&Path::new("modules").join(&name), 0o444, &module.bytes)?;
        names.push_str(&name);
        names.push('\n');
    }
    archive.file(&Path::new("modules").join(order), 0o444, names.as_bytes())
}

/// Writes a tree as a squashfs on which root owns everything, independent of the calling user.
fn squash(tree: &Path, to: &Path) -> Result<(), BootImageError> {
    let mut squash = command("mksquashfs");
    squash.arg(tree).arg(to);
    squash.args(["-noappend", "-quiet", "-no-progress", "-no-xattrs", "-all-root"]);
    // Decompressing lz4 costs least in a machine without KVM.
    squash.args(["-comp", "lz4", "-Xhc", "-mkfs-time", TIME, "-all-time", TIME]);
    // Only mksquashfs's own options set times.
    squash.env_remove("SOURCE_DATE_EPOCH");
    finish("mksquashfs", squash).map(|_| ())
}

/// Hashes all files and writes the description.
fn describe(
    request: &BuildRequest,
    image: &Path,
    kernel: String,
    packages: Vec<String>,
) -> Result<Manifest, BootImageError> {
    let mut files = BTreeMap::new();
    let mut bytes = 0;
    for name in [KERNEL, MODULES, ROOT, PASSWD] {
        let path = image.join(name);
        let failed = || BootImageError::file("read", &path);
        fs::set_permissions(&path, Permissions::from_mode(0o444)).map_err(failed())?;
        bytes += fs::metadata(&path).map_err(failed())?.len();
        files.insert(name.to_owned(), hash(&path).map_err(failed())?);
    }
    let texts: Vec<&str> = files.values().map(String::as_str).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let manifest = Manifest {
        id: format!("sha256:{}", hash_of(&texts)),
        from: match &request.source {
            Source::Debian => "debian".to_owned(),
            Source::Tree { origin, .. } => origin.clone(),
        },
        kernel,
        packages,
        created: i64::try_from(now).unwrap_or(i64::MAX),
        bytes,
        files,
    };
    let path = image.join(MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|source| BootImageError::Manifest { path: path.clone(), source })?;
    fs::write(&path, text).map_err(BootImageError::file("write", path))?;
    Ok(manifest)
}

fn copy(from: &Path, to: &Path) -> Result<(), BootImageError> {
    fs::copy(from, to).map(|_| ()).map_err(BootImageError::file("copy", from))
}

fn write(path: &Path, content: &[u8]) -> Result<(), BootImageError> {
    let written = || {
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(path, content)?;
        fs::set_permissions(path, Permissions::from_mode(0o644))
    };
    written().map_err(BootImageError::file("write", path))
}
