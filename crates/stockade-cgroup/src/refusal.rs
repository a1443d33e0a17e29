//! Why a parent group cannot be used, and advice for the user. Pure.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use stockade_provider::Obstacle;

use super::Controller;

/// Why a group could not be created, or lacks a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No hierarchy with it is mounted.
    NotMounted,
    /// Mounted read-only.
    ReadOnly,
    /// This user lacks the permission.
    NotPermitted,
    /// The group has processes, so it cannot enable controllers for its children: the "no internal
    /// processes" rule of cgroups(7).
    HoldsProcesses,
    /// The controller is not enabled for this group by its parent.
    NotHandedDown,
    /// The kernel lacks it.
    OldKernel,
    /// Another kernel error.
    Failed(String),
}

impl Refusal {
    /// Maps a kernel error.
    pub(super) fn from_error(error: &io::Error) -> Refusal {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ROFS) => Refusal::ReadOnly,
            Some(Errno::ACCESS | Errno::PERM) => Refusal::NotPermitted,
            Some(Errno::BUSY) => Refusal::HoldsProcesses,
            _ => Refusal::Failed(error.to_string()),
        }
    }

    /// The obstacle that the user reads. `parent` is the group below which ours should be created.
    pub(super) fn obstacle(&self, controller: Controller, parent: Option<&Path>) -> Obstacle {
        let parent = parent.unwrap_or(Path::new("/sys/fs/cgroup")).display();
        let (reason, remedy) = match self {
            Refusal::NotMounted if controller == Controller::Devices => (
                "cgroup v2 has no files for devices".to_owned(),
                "none is needed: the sandbox has its own /dev and cannot make device nodes",
            ),
            Refusal::NotMounted => (
                "no cgroup file system with this controller is mounted".to_owned(),
                "mount cgroup2 on /sys/fs/cgroup; in a container, pass the host's cgroup through",
            ),
            Refusal::ReadOnly => (
                format!("{parent} is mounted read-only"),
                "in a container, mount /sys/fs/cgroup writable and give the container its own \
                 cgroup namespace",
            ),
            Refusal::NotPermitted => (
                format!("this user may not make groups below {parent}"),
                "start it with `systemd-run --user --scope -p Delegate=yes`, or as root",
            ),
            Refusal::HoldsProcesses => (
                format!("{parent} has processes of its own and cannot hand controllers on"),
                "start it alone in a delegated group below this one: DelegateSubgroup= of a \
                 systemd service does that",
            ),
            Refusal::NotHandedDown => (
                format!("the controller is not handed down to {parent}"),
                "for a user's own groups, set Delegate=cpu io memory pids in a drop-in of \
                 user@.service; in a container, give the container that controller",
            ),
            Refusal::OldKernel => {
                ("this kernel's cgroups cannot do it".to_owned(), "cgroup.kill needs Linux 5.14")
            }
            Refusal::Failed(error) => (
                format!("a trial group below {parent} failed: {error}"),
                "look for what manages this group and keeps others out",
            ),
        };
        Obstacle { reason, remedy: remedy.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_errors_map_to_refusals() {
        let named = |errno: Errno| Refusal::from_error(&errno.into());
        assert_eq!(named(Errno::ROFS), Refusal::ReadOnly);
        assert_eq!(named(Errno::ACCESS), Refusal::NotPermitted);
        assert_eq!(named(Errno::PERM), Refusal::NotPermitted);
        assert_eq!(named(Errno::BUSY), Refusal::HoldsProcesses);
        assert!(matches!(named(Errno::NOSPC), Refusal::Failed(_)));
    }

    #[test]
    fn obstacle_names_the_group_and_a_remedy() {
        let parent = Path::new("/sys/fs/cgroup/user.slice");
        let obstacle = Refusal::NotPermitted.obstacle(Controller::Memory, Some(parent));
        assert_eq!(
            obstacle,
            Obstacle {
                reason: "this user may not make groups below /sys/fs/cgroup/user.slice".to_owned(),
                remedy: "start it with `systemd-run --user --scope -p Delegate=yes`, or as root"
                    .to_owned(),
            }
        );
    }
}
