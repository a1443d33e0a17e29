//! The kernel's modules: which are needed, in which order, and their bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::BootImageError;
use crate::program::{command, no_program};

/// The modules for the disks, the port and the root; some kernels have some built in.
pub(crate) const WANTED: [&str; 5] =
    ["virtio_pci", "virtio_blk", "virtio_console", "squashfs", "overlay"];

/// The modules for a root on a disk of the caller. The kernel finds its checksums by name only.
pub(crate) const WANTED_FOR_DISKS: [&str; 2] = ["crc32c_generic", "ext4"];

/// A module, decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleFile {
    /// The name, without directory and ending.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The modules in the order in which they can be loaded. `modules` is the directory of one kernel's
/// modules, as its package has it.
pub fn load_order(modules: &Path, wanted: &[&str]) -> Result<Vec<ModuleFile>, BootImageError> {
    let mut files = BTreeMap::new();
    find(&modules.join("kernel"), &mut files)?;
    let built_in_path = modules.join("modules.builtin");
    let built_in =
        fs::read_to_string(&built_in_path).map_err(BootImageError::file("read", &built_in_path))?;
    let built_in: Vec<String> = built_in.lines().filter_map(|line| stem(Path::new(line))).collect();
    let mut order = Vec::new();
    for name in wanted {
        add(name, &files, &built_in, &mut order, 0)?;
    }
    Ok(order)
}

/// Adds a module behind those that it needs.
fn add(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    built_in: &[String],
    order: &mut Vec<ModuleFile>,
    depth: usize,
) -> Result<(), BootImageError> {
    const MOST_DEPTH: usize = 32;
    if order.iter().any(|known| known.name == name) || built_in.iter().any(|known| known == name) {
        return Ok(());
    }
    let missing = |reason: String| BootImageError::Kernel { reason };
    let path = files.get(name).ok_or_else(|| missing(format!("it has no module {name}")))?;
    if depth == MOST_DEPTH {
        return Err(missing(format!("the module {name} needs itself")));
    }
    let bytes = read(path)?;
    for needed in needs(&bytes) {
        add(&needed, files, built_in, order, depth + 1)?;
    }
    order.push(ModuleFile { name: name.to_owned(), bytes });
    Ok(())
}

/// The modules that a module names as dependencies in its section `.modinfo`.
fn needs(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(plain).collect()
}

/// Files spell some names with `-` and the kernel all with `_`.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// The name of a module's file, without `.ko` and the ending of its compression.
fn stem(path: &Path) -> Option<String> {
    let (name, rest) = path.file_name()?.to_str()?.split_once(".ko")?;
    ["", ".xz"].contains(&rest).then(|| plain(name))
}

fn find(directory: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<(), BootImageError> {
    let failed = || BootImageError::file("read", directory);
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let path = entry.path();
        match entry.file_type().map_err(failed())?.is_dir() {
            true => find(&path, found)?,
            false => found.extend(stem(&path).map(|name| (name, path))),
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, BootImageError> {
    if path.extension().is_none_or(|ending| ending != "xz") {
        return fs::read(path).map_err(BootImageError::file("read", path));
    }
    let mut xz = command("xz");
    xz.args(["--decompress", "--stdout"]).arg(path);
    let output = xz.output().map_err(|source| no_program("xz", source))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BootImageError::Program { program: "xz", output });
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(files: &[(&str, &[u8])], built_in: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join("kernel").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), built_in).unwrap();
        folder
    }

    #[test]
    fn modules_are_loaded_after_those_they_need_and_built_in_ones_are_not() {
        let folder = kernel(
            &[
                ("drivers/virtio_pci.ko", b"ELF\0depends=virtio,virtio-ring\0license=GPL\0"),
                ("drivers/virtio.ko", b"ELF\0depends=virtio_ring\0"),
                ("drivers/virtio-ring.ko", b"ELF\0depends=\0"),
                ("block/virtio_blk.ko", b"ELF\0depends=virtio\0"),
                ("fs/overlay.ko", b"ELF\0depends=\0"),
            ],
            "kernel/fs/squashfs/squashfs.ko\nkernel/char/virtio_console.ko\n",
        );
        let order = load_order(folder.path(), &WANTED).unwrap();
        let names: Vec<&str> = order.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio_ring", "virtio", "virtio_pci", "virtio_blk", "overlay"]);
    }

    #[test]
    fn kernel_without_a_needed_module_is_refused_by_name() {
        let folder = kernel(&[("virtio_pci.ko", b"\0depends=gone\0")], "");
        let error = load_order(folder.path(), &WANTED).unwrap_err();
        assert_eq!(error.to_string(), "cannot use the kernel: it has no module gone");
    }
}
