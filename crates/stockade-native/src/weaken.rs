//! Omits one layer of the wall, to show that a probe then fails. Compiled only for the suite
//! `probes`: no released build has the feature or reads the variable.

use std::path::PathBuf;

use stockade_cgroup::Limits;
use stockade_interpreters::Bind;
use stockade_launcher::{Plan, SharedNamespace, Step, ToolSocket, TreeKind};

use crate::host_files::Base;
use crate::machine::LANDLOCK_HOLDS_SOCKETS;

/// The environment variable that names the layer.
const VARIABLE: &str = "STOCKADE_WEAKEN";

/// The name of the omitted layer.
fn layer() -> String {
    std::env::var(VARIABLE).unwrap_or_default()
}

/// The plan without a namespace, or without the steps of a layer.
pub(crate) fn plan(mut plan: Plan) -> Plan {
    match layer().as_str() {
        "network" => plan.birth.shared.push(SharedNamespace::Network),
        "ipc" => plan.birth.shared.push(SharedNamespace::Ipc),
        _ => {}
    }
    plan.inside = steps(plan.inside);
    plan
}

/// Shows more of the host than the policy lists.
pub(crate) fn base(base: Base) -> Base {
    match (layer().as_str(), base) {
        ("files", Base::System { mut binds, links }) => {
            let places = ["/home", "/mnt", "/opt", "/root", "/srv"].map(PathBuf::from);
            let shown = places.into_iter().filter(|place| place.is_dir());
            binds
                .extend(shown.map(|place| {
                    (Bind { host: place.clone(), guest: place }, TreeKind::Directory)
                }));
            Base::System { binds, links }
        }
        (_, base) => base,
    }
}

/// Removes all cgroup limits.
pub(crate) fn limits(limits: Limits) -> Limits {
    match layer().as_str() {
        "cgroup" => Limits::default(),
        _ => limits,
    }
}

/// Whether shown directories are searched for sockets.
pub(crate) fn searches_for_sockets() -> bool {
    layer() != "sockets"
}

/// The steps without those of the layer.
fn steps(steps: Vec<Step>) -> Vec<Step> {
    let layer = layer();
    let kept = steps.into_iter().filter(|step| match layer.as_str() {
        "seccomp" => !matches!(step, Step::Seccomp { .. }),
        "landlock" => !matches!(step, Step::Landlock { .. }),
        "capabilities" => !matches!(step, Step::SealPrivileges),
        "rlimits" => !matches!(step, Step::Limit { .. } | Step::ProgramFiles(_)),
        "proc" => !is_about_proc(step),
        "pins" => !matches!(step, Step::Pin { .. }),
        "read-only" => !matches!(step, Step::SealRoot),
        "user-namespaces" => !matches!(step, Step::ForbidUserNamespaces),
        "cgroup-view" => !matches!(step, Step::OwnCgroups),
        // Only the owner of a network namespace may bring its loopback up.
        "network" => !matches!(step, Step::Loopback),
        _ => true,
    });
    kept.map(|step| match step {
        Step::BecomeUser { .. } if layer == "identity" => Step::BecomeUser { user: 0, group: 0 },
        Step::Landlock { version, rules } if layer == "sockets" => {
            Step::Landlock { version: version.min(LANDLOCK_HOLDS_SOCKETS - 1), rules }
        }
        Step::ToolSocket(socket) if layer == "tools" => {
            Step::ToolSocket(ToolSocket { writable: true, ..socket })
        }
        step => step,
    })
    .collect()
}

/// Whether a step masks or protects something below `/proc`.
fn is_about_proc(step: &Step) -> bool {
    match step {
        Step::Mask { path } | Step::Cover { path, .. } | Step::ReadOnly { path } => {
            path.starts_with("/proc")
        }
        _ => false,
    }
}
