//! Turns a policy into the create call of a sandbox. Pure.

use std::collections::BTreeMap;

use stockade_policy::{Limit, Policy, Workspace};
use stockade_provider::{Root, SandboxRequest};

use crate::AcaError;
use crate::egress::egress_policy;
use crate::settings::Settings;
use crate::wire::{
    AutoDelete, AutoSuspend, CreateSandbox, DiskImage, Lifecycle, Resources, SourcesRef,
};

/// The shortest time without use after which the service suspends a sandbox.
const LEAST_IDLE: u64 = 300;
/// How much longer a suspended sandbox is kept.
const SUSPENDED: u64 = 600;
/// The longest idle time that a create request can have.
const MOST_IDLE: u64 = 24 * 3600;

/// The create call for a request.
pub(crate) fn plan(
    request: &SandboxRequest,
    settings: &Settings,
    labels: BTreeMap<String, String>,
) -> Result<CreateSandbox, AcaError> {
    let policy = &*request.policy;
    refuse_host_files(policy)?;
    let disk = disk(&request.root, settings)?;
    let milliseconds = |limit| policy.limits.value(limit).unwrap_or(0);
    // An execution must not be suspended, so the time without use is longer than it may run. A
    // suspended session is resumed by its next program, a deleted one is gone.
    let busy = milliseconds(Limit::Timeout).div_ceil(1000);
    let unused = milliseconds(Limit::Idle).div_ceil(1000).max(busy);
    let suspended = (busy + 60).max(LEAST_IDLE);
    let deleted = (unused + 60).clamp(LEAST_IDLE, MOST_IDLE).max(suspended) + SUSPENDED;
    Ok(CreateSandbox {
        sources_ref: SourcesRef { disk_image: DiskImage { name: disk, is_public: true } },
        resources: resources(policy),
        lifecycle: Lifecycle {
            auto_suspend_policy: AutoSuspend { enabled: true, interval: suspended, mode: "Memory" },
            auto_delete_policy: AutoDelete { enabled: true, delete_interval_in_seconds: deleted },
        },
        labels,
        egress_policy: egress_policy(policy)?,
    })
}

/// The processors and the memory of a policy, in the service's units.
pub(crate) fn resources(policy: &Policy) -> Resources {
    let limit = |limit: Limit| policy.limits.value(limit).unwrap_or_else(|| limit.spec().min);
    Resources {
        cpu: format!("{}m", limit(Limit::Cpu)),
        memory: format!("{}Mi", limit(Limit::Memory)),
    }
}

/// The service has no files of this host.
fn refuse_host_files(policy: &Policy) -> Result<(), AcaError> {
    let what = match (&policy.workspace.value, policy.mounts.first()) {
        (Workspace::Host { host, .. }, _) => format!("the workspace {}", host.display()),
        (_, Some(mount)) => format!("the mount {}", mount.host.display()),
        (Workspace::Scratch | Workspace::Nothing, None) => return Ok(()),
    };
    Err(AcaError::Unsupported {
        what,
        reason: "a sandbox of the service sees no files of this host".to_owned(),
        remedy: "copy files with `stockade cp` or the files of a session, or use another wall",
    })
}

fn disk(root: &Root, settings: &Settings) -> Result<String, AcaError> {
    match root {
        Root::Standard => Ok(settings.disk.clone()),
        Root::Directory(_) | Root::Image(_) => Err(AcaError::Unsupported {
            what: "a root or an image of this host".to_owned(),
            reason: "sandboxes of the service start from its own disk images".to_owned(),
            remedy: "name a public disk image with --aca-disk",
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::json;
    use stockade_provider::{EntryProgram, ImageRoot, Language};

    use super::*;
    use crate::AcaOptions;

    fn request(text: &str) -> SandboxRequest {
        SandboxRequest {
            policy: Arc::new(Policy::parse_str("p", text, Path::new("/srv")).unwrap()),
            root: Root::Standard,
            entry: EntryProgram::Interpreter(Language::Python),
            protected: Vec::new(),
            gateway: None,
            tools: None,
            authorities: None,
        }
    }

    fn settings() -> Settings {
        let named = |name: &str| Some(name.to_owned());
        Settings::of(&AcaOptions {
            resource_group: named("rg"),
            sandbox_group: named("sg"),
            subscription_id: named("sub"),
            region: named("westus2"),
            ..AcaOptions::default()
        })
        .unwrap()
    }

    #[test]
    fn create_call_has_the_resources_the_lifecycle_and_the_egress_policy() {
        let text = "{defaults: {max_cpu: 0.5, max_memory_mb: 1024, timeout_seconds: 1200}, \
                    limits: {idle_seconds: 60}, network_allowlist: [packages.example.net]}";
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let body = plan(&request(text), &settings(), labels).unwrap();
        assert_eq!(
            serde_json::to_value(body).unwrap(),
            json!({
                "sourcesRef": {"diskImage": {"name": "python-3.13", "isPublic": true}},
                "resources": {"cpu": "500m", "memory": "1024Mi"},
                "lifecycle": {
                    "autoSuspendPolicy": {"enabled": true, "interval": 1260, "mode": "Memory"},
                    "autoDeletePolicy": {"enabled": true, "deleteIntervalInSeconds": 1860},
                },
                "labels": {"a": "b"},
                "egressPolicy": {
                    "defaultAction": "Deny",
                    "hostRules": [{"pattern": "packages.example.net", "action": "Allow"}],
                    "trafficInspection": "Full",
                },
            })
        );
    }

    #[test]
    fn files_and_images_of_this_host_are_refused_by_name() {
        for text in [
            "filesystem: {read: [/usr/share]}",
            "filesystem: {workspace: {host: ., mode: read}}",
            "sandbox_mounts: {input_dir: ./in}",
        ] {
            let error = plan(&request(text), &settings(), BTreeMap::new()).unwrap_err();
            assert!(error.to_string().contains("no files of this host"), "{text}: {error}");
        }
        for root in [Root::Directory("/srv".into()), Root::Image(ImageRoot::named("x"))] {
            let wanted = SandboxRequest { root, ..request("{}") };
            let error = plan(&wanted, &settings(), BTreeMap::new()).unwrap_err();
            assert!(error.to_string().contains("its own disk images"), "{error}");
        }
    }
}
