//! Which controllers this process can use, where, and why it cannot use the others.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stockade_provider::Obstacle;

use super::attempt::{Attempt, Handing, Offer, attempts, expectations};
use super::name::GroupName;
use super::refusal::Refusal;
use super::survey::{Mount, survey};
use super::{Controller, Version};
use stockade_sys::kernel_text;

/// The usable cgroups of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    hierarchies: Vec<Hierarchy>,
    obstacles: BTreeMap<Controller, Obstacle>,
}

/// A hierarchy in which this process can create groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The group below which ours are created.
    pub parent: PathBuf,
    /// What groups there can do. One host may have both the freezer and `cgroup.kill`.
    pub controllers: Vec<Controller>,
}

impl Layout {
    /// Reads the mounts and tries each hierarchy with a group that is removed at once.
    ///
    /// On v2 this enables controllers for children of the parent group where the kernel allows it;
    /// without that no group below could have a limit. Leaves no other change.
    pub fn detect() -> Layout {
        let mountinfo = kernel_text("/proc/self/mountinfo");
        let membership = kernel_text("/proc/self/cgroup");
        match (mountinfo, membership, GroupName::new()) {
            (Ok(mountinfo), Ok(membership), Ok(name)) => {
                let mut mounts = survey(&mountinfo, &membership);
                mounts.sort_by_key(|mount| mount.version);
                layout(mounts, |mount, wanted| attempts(mount, wanted, &name))
            }
            _ => Layout::none(),
        }
    }

    /// The layout that this process should find, from permissions and files only: creates no group.
    ///
    /// Used for a start, where creating the group checks the result: a group that cannot be created
    /// is an error. On v2 it enables controllers, as [`Layout::detect`] does.
    pub fn expect() -> Layout {
        Layout::expected(Handing::Now)
    }

    /// Like [`Layout::expect`], but enables nothing: what a start would find after enabling.
    pub fn foresee() -> Layout {
        Layout::expected(Handing::Later)
    }

    /// Like [`Layout::expect`], but only with controllers that are already enabled, so that groups
    /// can be created without changing anything else.
    pub fn as_it_is() -> Layout {
        Layout::expected(Handing::Never)
    }

    fn expected(handing: Handing) -> Layout {
        let mountinfo = kernel_text("/proc/self/mountinfo");
        let membership = kernel_text("/proc/self/cgroup");
        match (mountinfo, membership) {
            (Ok(mountinfo), Ok(membership)) => {
                let mut mounts = survey(&mountinfo, &membership);
                mounts.sort_by_key(|mount| mount.version);
                layout(mounts, |mount, wanted| expectations(mount, wanted, handing))
            }
            _ => Layout::none(),
        }
    }

    /// The layout of a host without cgroups: every controller has an obstacle.
    pub fn none() -> Layout {
        layout(Vec::new(), |_, _| Vec::new())
    }

    /// The layout of a host whose cgroup v2 has every controller, for documentation. No group can be
    /// created in it.
    pub fn complete() -> Layout {
        let nowhere = || PathBuf::from("/nonexistent");
        let hierarchy = Hierarchy {
            version: Version::V2,
            mount: nowhere(),
            parent: nowhere(),
            controllers: Controller::ALL.into(),
        };
        Layout { hierarchies: vec![hierarchy], obstacles: BTreeMap::new() }
    }

    /// The hierarchies in use, v1 first.
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// Whether groups can use this controller here.
    pub fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|it| it.controllers.contains(&controller))
    }

    /// Why a controller cannot be used, for each that cannot.
    pub fn obstacles(&self) -> &BTreeMap<Controller, Obstacle> {
        &self.obstacles
    }

    /// This layout without some of its hierarchies.
    #[cfg(test)]
    pub(super) fn only(mut self, keep: impl Fn(&Hierarchy) -> bool) -> Layout {
        self.hierarchies.retain(keep);
        self
    }
}

/// Decides from the attempts. The mounts are sorted v1 first, because a controller is in only one
/// hierarchy and v2 offers what v1 has not taken.
fn layout(
    mounts: Vec<Mount>,
    mut try_out: impl FnMut(&Mount, &[Controller]) -> Vec<Attempt>,
) -> Layout {
    let mut layout = Layout::default();
    let mut refusals: BTreeMap<Controller, (Refusal, Option<PathBuf>)> = BTreeMap::new();
    for mount in mounts {
        let wanted = match mount.version {
            Version::V1 => mount.controllers.clone(),
            Version::V2 => wanted_of_v2(&layout, &refusals),
        };
        let attempts = try_out(&mount, &wanted);
        let Some(best) = best(&attempts) else { continue };
        for controller in &wanted {
            if let Some(refusal) = refusal(best, *controller) {
                refusals.insert(*controller, (refusal, Some(best.parent.clone())));
            }
        }
        if let Ok(Offer { controllers, .. }) = &best.outcome
            && !controllers.is_empty()
        {
            layout.hierarchies.push(Hierarchy {
                version: mount.version,
                mount: mount.point,
                parent: best.parent.clone(),
                controllers: controllers.clone(),
            });
        }
    }
    for controller in Controller::ALL {
        if !layout.has(controller) {
            let (refusal, parent) =
                refusals.remove(&controller).unwrap_or((Refusal::NotMounted, None));
            layout.obstacles.insert(controller, refusal.obstacle(controller, parent.as_deref()));
        }
    }
    layout
}

/// What to request from v2: everything that no mounted v1 hierarchy has. Killing is always
/// requested, because `cgroup.kill` has no race with forks; a v1 freezer stays in use for the leaves
/// of executions.
fn wanted_of_v2(
    layout: &Layout,
    refusals: &BTreeMap<Controller, (Refusal, Option<PathBuf>)>,
) -> Vec<Controller> {
    let elsewhere = |it: &Controller| layout.has(*it) || refusals.contains_key(it);
    let wanted = |it: &Controller| *it == Controller::Kill || !elsewhere(it);
    let possible = |it: &Controller| *it != Controller::Devices;
    Controller::ALL.into_iter().filter(possible).filter(wanted).collect()
}

/// The parent that offers the most, or the first of equals; if no parent offers anything, the
/// first.
fn best(attempts: &[Attempt]) -> Option<&Attempt> {
    let offered = |it: &Attempt| it.outcome.as_ref().map_or(0, |offer| offer.controllers.len());
    let most = |best, next| if offered(next) > offered(best) { next } else { best };
    attempts.iter().reduce(most)
}

/// Why the child cgroups of a parent lack a controller; `None` if they have it.
fn refusal(attempt: &Attempt, controller: Controller) -> Option<Refusal> {
    match &attempt.outcome {
        Err(refusal) => Some(refusal.clone()),
        Ok(offer) => offer.refused.iter().find(|it| it.0 == controller).map(|it| it.1.clone()),
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
