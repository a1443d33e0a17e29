//! The bodies that cross. Requests have exactly these fields; responses may have more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The body of a create call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateSandbox {
    pub(crate) sources_ref: SourcesRef,
    pub(crate) resources: Resources,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) egress_policy: EgressPolicy,
}

/// What a sandbox starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourcesRef {
    pub(crate) disk_image: DiskImage,
}

/// A disk image by its public name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiskImage {
    pub(crate) name: String,
    pub(crate) is_public: bool,
}

/// Quantities as the service writes them: `500m`, `1024Mi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resources {
    pub(crate) cpu: String,
    pub(crate) memory: String,
}

/// When the service suspends and deletes a sandbox that nothing uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lifecycle {
    pub(crate) auto_suspend_policy: AutoSuspend,
    pub(crate) auto_delete_policy: AutoDelete,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AutoSuspend {
    pub(crate) enabled: bool,
    pub(crate) interval: u64,
    pub(crate) mode: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AutoDelete {
    pub(crate) enabled: bool,
    pub(crate) delete_interval_in_seconds: u64,
}

/// What may leave a sandbox. Read back, an unknown field makes it another policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EgressPolicy {
    pub(crate) default_action: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) host_rules: Vec<HostRule>,
    /// Never sent; a policy that is read back must have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rules: Vec<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traffic_inspection: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostRule {
    pub(crate) pattern: String,
    pub(crate) action: String,
}

/// A sandbox, as the service describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxView {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) state: Option<String>,
    #[serde(default)]
    pub(crate) state_details: Option<StateDetails>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) resources: Option<Resources>,
    /// Compared as a whole, so it is kept as it came.
    #[serde(default)]
    pub(crate) egress_policy: Option<serde_json::Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StateDetails {
    #[serde(default)]
    pub(crate) stopped_reason: Option<String>,
}

/// A page of sandboxes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum SandboxPage {
    All(Vec<SandboxView>),
    Page {
        value: Vec<SandboxView>,
        #[serde(rename = "nextLink", default)]
        next_link: Option<String>,
    },
}

/// What a command printed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Executed {
    pub(crate) exit_code: i64,
    #[serde(default)]
    pub(crate) stdout: String,
    #[serde(default)]
    pub(crate) stderr: String,
}

/// The requests that the service decided.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EgressDecisions {
    #[serde(default)]
    pub(crate) network_egress: Option<NetworkEgress>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct NetworkEgress {
    #[serde(default)]
    pub(crate) allowed: Vec<Decision>,
    #[serde(default)]
    pub(crate) denied: Vec<Decision>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Decision {
    #[serde(default)]
    pub(crate) timestamp: Option<String>,
    #[serde(default)]
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) path: Option<String>,
    #[serde(default)]
    pub(crate) scheme: Option<String>,
}

/// One file, as the service describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileView {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) size: Option<u64>,
    #[serde(default)]
    pub(crate) is_directory: bool,
    #[serde(default)]
    pub(crate) modified_at: Option<String>,
    #[serde(default)]
    pub(crate) mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Listing {
    #[serde(default)]
    pub(crate) entries: Vec<FileView>,
}
