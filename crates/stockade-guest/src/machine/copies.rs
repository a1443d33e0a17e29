//! Unpacks the copies of host files, whose archives come through the port.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount_bind};
use stockade_archive::{Limits, Links, Rename, unpack};
use stockade_wire::{MachineCopy, MachineLayer, MachinePlan};

use super::cannot;
use super::mounts::{fresh, read_only};
use super::root::below;

/// The name of everything in an archive, and where a file is before it is shown.
const NAME: &[u8] = b"copy";
const FILES: &str = "/files";
/// Where the layers over copies are.
const LAYERS: &str = "/layers";
/// The directories of a layer that are not the programs'.
const OWN_INODES: u64 = 4;
const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Unpacks every copy, each into a file system of its own, which then becomes read-only. Reads no
/// byte after the last archive: the link follows it. Returns the layers that take changes, which no
/// path inside leads to, by the paths of their overlays.
pub(super) fn unpack_all(plan: &MachinePlan, port: &File) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let mut uppers = Vec::new();
    let all = plan.copies.iter().map(|copy| copy.archive_bytes).sum();
    let mut archives = BufReader::with_capacity(1 << 20, port.take(all));
    for (number, copy) in plan.copies.iter().enumerate() {
        let upper = one(&mut archives, number, copy, (plan.user, plan.group))
            .map_err(cannot(format_args!("copy {}", copy.path)))?;
        uppers.extend(upper.map(|upper| (PathBuf::from(&copy.path), upper)));
    }
    Ok(uppers)
}

fn one(
    archives: &mut impl Read,
    number: usize,
    copy: &MachineCopy,
    ids: (u32, u32),
) -> io::Result<Option<OwnedFd>> {
    let target = below(&copy.path);
    let size = format!("size={},mode=0755", copy.bytes);
    let place = match (copy.is_directory, copy.layer) {
        (true, None) => target.clone(),
        _ => Path::new(FILES).join(number.to_string()),
    };
    fresh("tmpfs", &place, FLAGS, &size)?;
    let directory = File::open(&place)?;
    let rename = match copy.is_directory {
        true => Rename::Strip,
        false => Rename::To(NAME.to_vec()),
    };
    let limits = Limits { entries: copy.entries, bytes: copy.bytes };
    let mut archive = archives.take(copy.archive_bytes);
    unpack(&mut archive, directory.as_fd(), rename, Links::Any, limits)
        .map_err(|error| io::Error::other(error.to_string()))?;
    io::copy(&mut archive, &mut io::sink())?;
    if !copy.is_directory {
        if let Some(above) = target.parent() {
            fs::create_dir_all(above)?;
        }
        if !target.exists() {
            File::create(&target)?;
        }
        read_only(&place, FLAGS)?;
        mount_bind(place.join("copy"), &target)?;
        read_only(&target, FLAGS | MountFlags::BIND)?;
        return Ok(None);
    }
    let upper = copy.layer.map(|layer| {
        give(&place, ids)?;
        layered(&place, number, layer, &target, ids)
    });
    let upper = upper.transpose()?;
    read_only(&place, FLAGS)?;
    Ok(upper)
}

/// Mounts an overlay over a copy. Returns the layer that takes all changes.
fn layered(
    copy: &Path,
    number: usize,
    layer: MachineLayer,
    target: &Path,
    ids: (u32, u32),
) -> io::Result<OwnedFd> {
    let place = Path::new(LAYERS).join(number.to_string());
    let size = format!("size={},nr_inodes={},mode=0700", layer.bytes, layer.inodes + OWN_INODES);
    fresh("tmpfs", &place, FLAGS, &size)?;
    let (upper, work) = (place.join("upper"), place.join("work"));
    for directory in [&upper, &work] {
        fs::create_dir(directory)?;
    }
    lchown(&upper, Some(ids.0), Some(ids.1))?;
    let (copy, shown, work) = (copy.display(), upper.display(), work.display());
    // A renamed directory is copied, so that the layer has every change as entries.
    let layers = format!("lowerdir={copy},upperdir={shown},workdir={work},redirect_dir=off");
    fresh("overlay", target, FLAGS, &layers)?;
    Ok(File::open(&upper)?.into())
}

/// Gives a tree to a user. Nothing else runs in the machine yet.
fn give(path: &Path, ids: (u32, u32)) -> io::Result<()> {
    lchown(path, Some(ids.0), Some(ids.1))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), ids)?;
        }
    }
    Ok(())
}
