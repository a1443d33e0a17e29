//! The root that programs see: the image under an empty layer, and places in memory.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount_bind, mount_move};
use rustix::process::{chdir, chroot};
use stockade_wire::{MachinePlan, MachineTools};

use super::cannot;
use super::mounts::{fresh, of_device, place, read_only};
use super::start::ToolFile;

/// The root under construction.
pub(super) const NEW: &str = "/new";
/// The image, and the layer for the few files that the plan adds.
pub(super) const IMAGE: &str = "/image";
const LAYER: &str = "/layer";
/// The first disk.
pub(super) const DISK: &str = "/dev/vda";
/// The size of the layer, and of the directory for tools.
const LAYER_BYTES: u64 = 4 << 20;
const TOOLS_BYTES: u64 = 16 << 20;

/// Mounts the image.
pub(super) fn mount_image() -> io::Result<()> {
    of_device(DISK, "squashfs", Path::new(IMAGE), MountFlags::RDONLY | MountFlags::NODEV, "")
}

/// Puts a layer and all places over the image, without what [`finish`] adds.
pub(super) fn build(plan: &MachinePlan, tool_files: &[ToolFile]) -> io::Result<()> {
    let new = Path::new(NEW);
    fresh("tmpfs", Path::new(LAYER), MountFlags::empty(), &format!("size={LAYER_BYTES}"))?;
    let (upper, work) = (format!("{LAYER}/upper"), format!("{LAYER}/work"));
    for directory in [&upper, &work] {
        fs::create_dir(directory)?;
    }
    let layers = format!("lowerdir={IMAGE},upperdir={upper},workdir={work}");
    fresh("overlay", new, MountFlags::NOSUID | MountFlags::NODEV, &layers)?;
    for (path, content) in &plan.files {
        write(&below(path), content).map_err(cannot(format_args!("write {path}")))?;
    }
    for it in plan.places.iter().filter(|it| !it.path.starts_with("/dev/")) {
        place(new, it, (plan.user, plan.group))?;
    }
    tools(&plan.tools, tool_files)
}

/// Makes the root read-only, moves the kernel's file systems into it, and enters it.
pub(super) fn finish(plan: &MachinePlan) -> io::Result<()> {
    let new = Path::new(NEW);
    for path in &plan.hidden {
        hide(&below(path)).map_err(cannot(format_args!("hide {path}")))?;
    }
    for name in ["dev", "proc", "sys"] {
        fs::create_dir_all(new.join(name))?;
    }
    read_only(new, MountFlags::NOSUID | MountFlags::NODEV)?;
    for name in ["dev", "proc", "sys"] {
        mount_move(Path::new("/").join(name), new.join(name))
            .map_err(io::Error::from)
            .map_err(cannot(format_args!("move /{name}")))?;
    }
    // What the initramfs holds is memory that programs could use.
    for name in ["modules", "init"] {
        let path = Path::new("/").join(name);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    chdir(new)?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    devices()?;
    // Places in /dev come after /dev itself.
    for it in plan.places.iter().filter(|it| it.path.starts_with("/dev/")) {
        place(Path::new("/"), it, (plan.user, plan.group))?;
    }
    Ok(())
}

/// Mounts nothing over a path: an empty directory, or over a file an empty file.
fn hide(path: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        let nothing = Path::new(LAYER).join("nothing");
        if !nothing.exists() {
            File::create(&nothing)?;
            fs::set_permissions(&nothing, Permissions::from_mode(0o444))?;
        }
        mount_bind(&nothing, path)?;
        return read_only(path, flags | MountFlags::BIND);
    }
    fresh("tmpfs", path, flags, "size=4k,nr_inodes=1,mode=0555")?;
    read_only(path, flags)
}

/// A path of the plan, below the new root.
pub(super) fn below(path: &str) -> PathBuf {
    Path::new(NEW).join(path.trim_start_matches('/'))
}

fn write(path: &Path, content: &str) -> io::Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    // The image may have a link there, which leads elsewhere.
    let _ = fs::remove_file(path);
    fs::write(path, content)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// The names that programs expect below /dev.
fn devices() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    fresh("devpts", Path::new("/dev/pts"), flags, "gid=5,mode=0620,ptmxmode=0666")?;
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        let _ = symlink(target, Path::new("/dev").join(name));
    }
    let ptmx = Path::new("/dev/ptmx");
    let _ = fs::remove_file(ptmx);
    symlink("pts/ptmx", ptmx).map_err(cannot("link /dev/ptmx"))
}

/// The directory for tools, with the guest's own executable in it. All of it belongs to root.
fn tools(tools: &MachineTools, files: &[ToolFile]) -> io::Result<()> {
    let directory = below(&tools.directory);
    let options = format!("size={TOOLS_BYTES},mode=0755");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    fresh("tmpfs", &directory, flags, &options)?;
    let filled = || {
        copy(&fs::read("/init")?, &directory.join("guest"), 0o555)?;
        for (path, content) in files {
            copy(content, &with_parents(&directory, path)?, 0o444)?;
        }
        for (name, target) in &tools.links {
            symlink(target, with_parents(&directory, name)?)?;
        }
        Ok(())
    };
    filled().map_err(cannot("fill the directory for tools"))?;
    read_only(&directory, flags)
}

/// A path below a directory; makes the directories above it.
fn with_parents(directory: &Path, path: &str) -> io::Result<PathBuf> {
    let path = directory.join(path);
    if let Some(above) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    Ok(path)
}

fn copy(content: &[u8], to: &Path, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(to)?;
    file.write_all(content)
}
