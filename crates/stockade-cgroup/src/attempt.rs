//! Tests a parent group by creating a group below it and removing that group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access as Wanted, AtFlags, CWD, accessat};
use stockade_sys::{kernel_text, kernel_version};

use super::hand_down::{Change, hand_down_to_children, hands_down, may_hand_down};
use super::name::GroupName;
use super::refusal::Refusal;
use super::survey::{Access, Mount};
use super::{Controller, Version};

/// The result of trying one parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) parent: PathBuf,
    pub(super) outcome: Result<Offer, Refusal>,
}

/// What groups below a parent can do, and the reason for each wanted controller they lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) controllers: Vec<Controller>,
    pub(super) refused: Vec<(Controller, Refusal)>,
    /// Whether controllers had to be enabled for the children.
    pub(super) change: Change,
}

/// What to do about a controller that a v2 parent has and does not enable for its children yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handing {
    /// Enable it; it stays enabled.
    Now,
    /// Assume that it can be enabled if permissions allow; change nothing.
    Later,
    /// Do not use it; change nothing.
    Never,
}

/// The most passes over the parents. Each further pass requires that one more ancestor enabled one
/// of at most four controllers.
const PASSES: usize = 32;

/// Tries the parents of a hierarchy in order, until one offers everything wanted.
pub(super) fn attempts(mount: &Mount, wanted: &[Controller], name: &GroupName) -> Vec<Attempt> {
    let mut made = Vec::new();
    for _ in 0..PASSES {
        made = attempts_once(mount, wanted, name);
        // A controller that an ancestor has just enabled may now be available in a nearer group.
        // Repeating makes two consecutive detections return the same result.
        let changed = |it: &Attempt| it.outcome.as_ref().is_ok_and(|it| it.change == Change::Made);
        if !made.iter().any(changed) {
            break;
        }
    }
    made
}

/// What the parents of a hierarchy should offer, without creating a group. A group that then cannot
/// be created is a separate error.
pub(super) fn expectations(mount: &Mount, wanted: &[Controller], handing: Handing) -> Vec<Attempt> {
    let mut expected = Vec::new();
    for parent in &mount.parents {
        let outcome = match (mount.access, mount.version) {
            (Access::ReadOnly, _) => Err(Refusal::ReadOnly),
            (Access::Writable, Version::V1) => may_write(parent).map(|()| Offer {
                controllers: mount.controllers.clone(),
                refused: Vec::new(),
                change: Change::AlreadySo,
            }),
            (Access::Writable, Version::V2) => may_write(parent).and_then(|()| {
                let mut offer = handed_down(parent, wanted, handing)?;
                offer.complete(wanted, kernel_kills());
                Ok(offer)
            }),
        };
        let complete = outcome.as_ref().is_ok_and(|offer| offer.refused.is_empty());
        expected.push(Attempt { parent: parent.clone(), outcome });
        if complete {
            break;
        }
    }
    expected
}

fn may_write(parent: &Path) -> Result<(), Refusal> {
    accessat(CWD, parent, Wanted::WRITE_OK, AtFlags::EACCESS)
        .map_err(|errno| Refusal::from_error(&errno.into()))
}

/// Whether groups have `cgroup.kill`, which exists since Linux 5.14.
fn kernel_kills() -> bool {
    kernel_version() >= (5, 14)
}

fn attempts_once(mount: &Mount, wanted: &[Controller], name: &GroupName) -> Vec<Attempt> {
    let mut made = Vec::new();
    for parent in &mount.parents {
        let outcome = match (mount.access, mount.version) {
            (Access::ReadOnly, _) => Err(Refusal::ReadOnly),
            (Access::Writable, Version::V1) => try_v1(parent, &mount.controllers, name),
            (Access::Writable, Version::V2) => try_v2(parent, wanted, name),
        };
        let complete = outcome.as_ref().is_ok_and(|offer| offer.refused.is_empty());
        made.push(Attempt { parent: parent.clone(), outcome });
        if complete {
            break;
        }
    }
    made
}

fn try_v1(parent: &Path, controllers: &[Controller], name: &GroupName) -> Result<Offer, Refusal> {
    trial_group(parent, name, |_| ())?;
    let controllers = controllers.to_vec();
    Ok(Offer { controllers, refused: Vec::new(), change: Change::AlreadySo })
}

fn try_v2(parent: &Path, wanted: &[Controller], name: &GroupName) -> Result<Offer, Refusal> {
    let mut offer = handed_down(parent, wanted, Handing::Now)?;
    let can_kill = trial_group(parent, name, |group| group.join("cgroup.kill").exists())?;
    offer.complete(wanted, can_kill);
    Ok(offer)
}

/// The controllers that a v2 parent enables for its children, or could enable.
fn handed_down(parent: &Path, wanted: &[Controller], handing: Handing) -> Result<Offer, Refusal> {
    // A process that enters a group needs write access to the nearest common ancestor of its old
    // and new group, cgroups(7); that ancestor is the parent.
    accessat(CWD, parent.join("cgroup.procs"), Wanted::WRITE_OK, AtFlags::EACCESS)
        .map_err(|errno| Refusal::from_error(&errno.into()))?;
    let mut offer =
        Offer { controllers: Vec::new(), refused: Vec::new(), change: Change::AlreadySo };
    let refused = |error: io::Error| Refusal::from_error(&error);
    let handed_down = kernel_text(parent.join("cgroup.controllers")).map_err(refused)?;
    let holds_processes = holds_processes(parent).map_err(refused)?;
    for (controller, word) in wanted.iter().filter_map(|it| Some((*it, it.v2_name()?))) {
        if !handed_down.split_whitespace().any(|listed| listed == word) {
            offer.refused.push((controller, Refusal::NotHandedDown));
            continue;
        }
        if holds_processes {
            offer.refused.push((controller, Refusal::HoldsProcesses));
            continue;
        }
        let handed = match handing {
            Handing::Now => hand_down_to_children(parent, word),
            Handing::Later => may_hand_down(parent, word),
            Handing::Never => match hands_down(parent, word).map_err(refused)? {
                true => Ok(Change::AlreadySo),
                false => {
                    offer.refused.push((controller, Refusal::NotHandedDown));
                    continue;
                }
            },
        };
        match handed {
            Ok(change) => {
                offer.controllers.push(controller);
                if change == Change::Made {
                    offer.change = change;
                }
            }
            Err(error) => offer.refused.push((controller, Refusal::from_error(&error))),
        }
    }
    Ok(offer)
}

impl Offer {
    /// Adds the abilities that every v2 group has.
    fn complete(&mut self, wanted: &[Controller], can_kill: bool) {
        for controller in wanted.iter().filter(|it| it.v2_name().is_none()) {
            match controller {
                Controller::Kill if !can_kill => {
                    self.refused.push((*controller, Refusal::OldKernel));
                }
                Controller::Kill | Controller::CpuTime => self.controllers.push(*controller),
                _ => {}
            }
        }
    }
}

/// Whether a group has processes that prevent it from enabling controllers for its children. The
/// root group is exempt; only it has no `cgroup.type`.
///
/// Trying would not detect this: the kernel lets such a group enable cpu and pids, makes it the
/// root of a threaded subtree, and no process can enter the groups below any more, cgroups(7).
fn holds_processes(group: &Path) -> io::Result<bool> {
    let is_top = !group.join("cgroup.type").exists();
    Ok(!is_top && !kernel_text(group.join("cgroup.procs"))?.is_empty())
}

/// Creates a group, inspects it, and removes it.
fn trial_group<T>(
    parent: &Path,
    name: &GroupName,
    look: impl FnOnce(&Path) -> T,
) -> Result<T, Refusal> {
    let refused = |error: io::Error| Refusal::from_error(&error);
    let group = parent.join(name.to_string());
    fs::create_dir(&group).map_err(refused)?;
    let seen = look(&group);
    fs::remove_dir(&group).map_err(refused)?;
    Ok(seen)
}
