//! What this host has for walls, as a person is told it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use stockade_cgroup::{Controller, Layout, Version};
use stockade_interpreters::{Surroundings, find};
use stockade_provider::{Language, Obstacle};

use crate::knobs::Knobs;
use crate::machine::Landlock;
use crate::sub_ids::SubIds;

/// A host, found by looking. Nothing is changed and nothing is started.
#[derive(Clone, Debug, Serialize)]
pub struct HostLook {
    /// The kernel's release, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// The user who looks.
    pub user: u32,
    /// What can forbid namespaces.
    pub knobs: Knobs,
    /// What the kernel says of Landlock.
    pub landlock: Landlock,
    /// The cgroups that a sandbox would be put into.
    pub cgroups: Vec<CgroupLook>,
    /// Why a controller cannot be used, for each that cannot.
    pub missing_controllers: BTreeMap<String, Obstacle>,
    /// The ids that the host gives to this user, which sandboxes then have; none for root, who
    /// needs none.
    pub sub_ids: Option<SubIds>,
    /// Why there are none, if so.
    pub no_sub_ids: Option<Obstacle>,
    /// The interpreter of each language.
    pub interpreters: Vec<InterpreterLook>,
}

/// One hierarchy of cgroups.
#[derive(Clone, Debug, Serialize)]
pub struct CgroupLook {
    /// 1 or 2.
    pub version: u8,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The group below which sandboxes get theirs.
    pub parent: PathBuf,
    /// What groups there can do.
    pub controllers: Vec<String>,
}

/// The interpreter that a script of a language would run with.
#[derive(Clone, Debug, Serialize)]
pub struct InterpreterLook {
    /// The language, as `--language` takes it.
    pub language: String,
    /// The program, if there is one that may be used.
    pub program: Option<PathBuf>,
    /// Its version, as far as names tell it.
    pub version: Option<String>,
    /// Why there is none, if so.
    pub missing: Option<Obstacle>,
}

impl HostLook {
    /// Looks at the host as a person in these surroundings finds it.
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

/// All but devices, which a sandbox needs no cgroup for.
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
