//! What this host offers for walls, for display by `stockade doctor`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use stockade_cgroup::{Controller, Layout, Version};
use stockade_interpreters::{Surroundings, find};
use stockade_provider::{Language, Obstacle};

use crate::knobs::Knobs;
use crate::machine::Landlock;
use crate::sub_ids::SubIds;

/// A host, inspected without changing or starting anything.
#[derive(Clone, Debug, Serialize)]
pub struct HostLook {
    /// The kernel's release, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// The user id of this process.
    pub user: u32,
    /// Settings that can forbid namespaces.
    pub knobs: Knobs,
    /// The state of Landlock.
    pub landlock: Landlock,
    /// The cgroup hierarchies that a sandbox would use.
    pub cgroups: Vec<CgroupLook>,
    /// Each unusable controller, with the reason.
    pub missing_controllers: BTreeMap<String, Obstacle>,
    /// The ids that the host delegates to this user for sandboxes; `None` for root, who needs no
    /// delegation.
    pub sub_ids: Option<SubIds>,
    /// Why the user has no such ids.
    pub no_sub_ids: Option<Obstacle>,
    /// The interpreter of each language.
    pub interpreters: Vec<InterpreterLook>,
}

/// One cgroup hierarchy.
#[derive(Clone, Debug, Serialize)]
pub struct CgroupLook {
    /// 1 or 2.
    pub version: u8,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The parent of the sandboxes' cgroups.
    pub parent: PathBuf,
    /// The usable controllers.
    pub controllers: Vec<String>,
}

/// The interpreter that runs a script of a language.
#[derive(Clone, Debug, Serialize)]
pub struct InterpreterLook {
    /// The language, as `--language` takes it.
    pub language: String,
    /// The program, if a usable one was found.
    pub program: Option<PathBuf>,
    /// Its version, as far as file names contain it.
    pub version: Option<String>,
    /// Why no usable interpreter was found.
    pub missing: Option<Obstacle>,
}

impl HostLook {
    /// Inspects the host with this environment.
    pub fn look(surroundings: &Surroundings) -> HostLook {
        let layout = Layout::foresee();
        let user = rustix::process::geteuid();
        let sub_ids = SubIds::look(user.as_raw());
        HostLook {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            user: user.as_raw(),
            knobs: Knobs::look(),
            landlock: Landlock::look(),
            cgroups: cgroups(&layout),
            missing_controllers: missing_controllers(&layout),
            sub_ids: sub_ids.as_ref().ok().copied().filter(|_| !user.is_root()),
            no_sub_ids: sub_ids.err().filter(|_| !user.is_root()),
            interpreters: [Language::Python, Language::JavaScript, Language::Bash]
                .map(|language| interpreter(language, surroundings))
                .into(),
        }
    }
}

fn cgroups(layout: &Layout) -> Vec<CgroupLook> {
    let look = |hierarchy: &stockade_cgroup::Hierarchy| CgroupLook {
        version: match hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        },
        mount: hierarchy.mount.clone(),
        parent: hierarchy.parent.clone(),
        controllers: hierarchy.controllers.iter().map(ToString::to_string).collect(),
    };
    layout.hierarchies().iter().map(look).collect()
}

/// Checks every controller except `devices`, which a sandbox does not need.
fn missing_controllers(layout: &Layout) -> BTreeMap<String, Obstacle> {
    let missing = layout.obstacles().iter().filter(|(it, _)| **it != Controller::Devices);
    missing.map(|(controller, obstacle)| (controller.to_string(), obstacle.clone())).collect()
}

fn interpreter(language: Language, surroundings: &Surroundings) -> InterpreterLook {
    let found = find(language, surroundings);
    let language = language.to_string();
    match found {
        Ok(found) => InterpreterLook {
            language,
            program: Some(found.program),
            version: found.version,
            missing: None,
        },
        Err(error) => {
            let reason = stockade_provider::chain(&error);
            let missing = Some(Obstacle { reason, remedy: error.hint().to_owned() });
            InterpreterLook { language, program: None, version: None, missing }
        }
    }
}
