//! Creates groups: sets every limit before a program is inside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disks::disks;
use super::files;
use super::hand_down::hand_down_to_children;
use super::limits::{Optional, Setting};
use super::{CgroupError, Controller, GroupName, Hierarchy, Layout, Limits, Version};

/// One group of processes: a directory in each used hierarchy.
///
/// The leaf of an execution is also a group, without limits of its own. Dropping a group kills its
/// processes and removes it, waiting up to two seconds; [`Group::kill_all`] and [`Group::remove`]
/// return whether it worked.
#[derive(Debug)]
pub struct Group {
    pub(super) directories: Vec<Directory>,
    pub(super) removed: bool,
}

/// The directory of a group in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) version: Version,
    pub(super) path: PathBuf,
    pub(super) controllers: Vec<Controller>,
    pub(super) seating: Seating,
}

/// Where the processes of a directory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seating {
    /// In the group itself.
    Group,
    /// In the leaf `guest`: a v2 group that enables controllers for its children cannot have
    /// processes.
    GuestLeaf,
    /// In the group itself, which is the leaf of an execution: no group is below it.
    ExecLeaf,
}

impl Directory {
    /// The group that a process enters.
    pub(super) fn seat(&self) -> PathBuf {
        match self.seating {
            Seating::Group | Seating::ExecLeaf => self.path.clone(),
            Seating::GuestLeaf => self.path.join("guest"),
        }
    }

    pub(super) fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

impl Group {
    /// Creates a group with limits. Refuses a limit that the layout cannot enforce, and leaves
    /// nothing after a failure.
    pub fn create(
        layout: &Layout,
        name: &GroupName,
        limits: &Limits,
    ) -> Result<Group, CgroupError> {
        let needs = limits.needs()?;
        // Every group must support killing all its processes.
        for controller in needs.iter().chain([&Controller::Kill]) {
            if !layout.has(*controller) {
                return Err(unavailable(layout, *controller));
            }
        }
        let disks = if needs.contains(&Controller::Io) { disks() } else { Vec::new() };
        // Filled step by step: an early return drops the group, which removes the directories made
        // so far.
        let mut group = Group { directories: Vec::new(), removed: false };
        for hierarchy in layout.hierarchies() {
            let used = used(&hierarchy.controllers, &needs);
            if used.is_empty() {
                continue;
            }
            let directory = make(hierarchy, name, used)?;
            group.directories.push(directory.clone());
            furnish(&directory)?;
            limit(&directory, limits, &disks)?;
        }
        Ok(group)
    }

    /// Creates the leaf of one execution, see [`LeafParent::create`].
    pub fn exec_leaf(&self, number: u64) -> Result<Group, CgroupError> {
        self.leaf_parent().create(number)
    }

    /// What is needed to create leaves below this group.
    pub fn leaf_parent(&self) -> LeafParent {
        LeafParent { directories: self.directories.clone() }
    }

    /// The directory with a controller.
    pub(super) fn directory(&self, controller: Controller) -> Result<&Directory, CgroupError> {
        let found = self.directories.iter().find(|it| it.has(controller));
        found.ok_or(CgroupError::NoController { controller })
    }
}

/// Creates the leaves of executions below a group.
#[derive(Clone, Debug)]
pub struct LeafParent {
    directories: Vec<Directory>,
}

impl LeafParent {
    /// Creates the leaf of one execution, with separate counts and a separate kill. A leaf on v1
    /// inherits from its parent that the kernel starts no program when it becomes empty.
    ///
    /// If there is a v1 freezer, the leaf is only on v1, because entering a v2 group other than by
    /// cloning waits for RCU. The process that removes the parent also removes the leaf, unless
    /// [`Group::remove`] does it before; dropping it does nothing.
    pub fn create(&self, number: u64) -> Result<Group, CgroupError> {
        const OF_A_LEAF: [Controller; 4] =
            [Controller::CpuTime, Controller::Kill, Controller::Memory, Controller::Pids];
        let freezer =
            self.directories.iter().any(|it| it.version == Version::V1 && it.has(Controller::Kill));
        let mut leaf = Group { directories: Vec::new(), removed: false };
        for directory in &self.directories {
            let controllers: Vec<Controller> =
                OF_A_LEAF.into_iter().filter(|it| is_in_leaf(directory, *it)).collect();
            let beside_freezer =
                freezer && directory.version == Version::V2 && directory.seating == Seating::Group;
            if controllers.is_empty() || beside_freezer {
                continue;
            }
            let path = directory.path.join(format!("exec-{number}"));
            create_directory(&path)?;
            let version = directory.version;
            let made = Directory { version, path, controllers, seating: Seating::ExecLeaf };
            leaf.directories.push(made);
        }
        leaf.disown();
        Ok(leaf)
    }
}

/// The controllers that a group uses in a hierarchy: always those that count and kill, and those
/// that only limit on request.
fn used(controllers: &[Controller], needs: &[Controller]) -> Vec<Controller> {
    let limits_only = |it: &Controller| matches!(it, Controller::Cpu | Controller::Io);
    let used = |it: &Controller| !limits_only(it) || needs.contains(it);
    controllers.iter().copied().filter(used).collect()
}

/// Makes the directory of a group in one hierarchy.
fn make(
    hierarchy: &Hierarchy,
    name: &GroupName,
    controllers: Vec<Controller>,
) -> Result<Directory, CgroupError> {
    let version = hierarchy.version;
    let seating = match version == Version::V2 && controllers.contains(&Controller::Memory) {
        true => Seating::GuestLeaf,
        false => Seating::Group,
    };
    let path = hierarchy.parent.join(name.to_string());
    create_directory(&path)?;
    Ok(Directory { version, path, controllers, seating })
}

/// Sets the limits of a directory.
fn limit(directory: &Directory, limits: &Limits, disks: &[String]) -> Result<(), CgroupError> {
    for controller in &directory.controllers {
        for setting in limits.settings(directory.version, *controller, disks) {
            apply(&directory.path, &setting)?;
        }
    }
    Ok(())
}

/// Creates the guest's leaf in a new directory.
fn furnish(directory: &Directory) -> Result<(), CgroupError> {
    never_notify(directory)?;
    if directory.seating == Seating::GuestLeaf {
        // Only memory: the kernel counts a pids event in the group of the forking task, so pids
        // must not be enabled further down; every group counts cpu time.
        let write = |source| CgroupError::Write {
            path: directory.path.join("cgroup.subtree_control"),
            value: "+memory".to_owned(),
            source,
        };
        hand_down_to_children(&directory.path, "memory").map_err(write)?;
        create_directory(&directory.seat())?;
    }
    Ok(())
}

/// Whether the leaf of an execution uses a controller of its parent. On v2 pids are not enabled for
/// the leaves, see [`furnish`].
fn is_in_leaf(directory: &Directory, controller: Controller) -> bool {
    let is_handed_down = controller != Controller::Pids || directory.version == Version::V1;
    directory.has(controller) && is_handed_down
}

/// Disables `notify_on_release`, which a v1 group inherits: the kernel would start a program when
/// the group becomes empty.
fn never_notify(directory: &Directory) -> Result<(), CgroupError> {
    match directory.version {
        Version::V1 => files::write(&directory.path.join("notify_on_release"), "0"),
        Version::V2 => Ok(()),
    }
}

fn apply(path: &Path, setting: &Setting) -> Result<(), CgroupError> {
    let file = path.join(setting.file);
    match files::put(&file, &setting.value) {
        Ok(()) => Ok(()),
        Err(error) if may_be_missing(setting.optional, &error) => Ok(()),
        Err(source) => Err(CgroupError::Write { path: file, value: setting.value.clone(), source }),
    }
}

fn may_be_missing(optional: Optional, error: &io::Error) -> bool {
    match optional {
        Optional::Nothing => false,
        Optional::File => error.kind() == io::ErrorKind::NotFound,
        Optional::Disk => error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()),
    }
}

fn create_directory(path: &Path) -> Result<(), CgroupError> {
    fs::create_dir(path).map_err(|source| CgroupError::Create { path: path.to_owned(), source })
}

fn unavailable(layout: &Layout, controller: Controller) -> CgroupError {
    let obstacle = layout.obstacles().get(&controller).cloned();
    let (reason, remedy) = match obstacle {
        Some(obstacle) => (obstacle.reason, obstacle.remedy),
        None => ("the layout has no hierarchy with it".to_owned(), "detect again".to_owned()),
    };
    CgroupError::Unavailable { controller, reason, remedy }
}
