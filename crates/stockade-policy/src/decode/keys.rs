//! Every key of the language, by its mapping.

pub(super) const POLICY: &[&str] = &[
    "version",
    "name",
    "description",
    "isolation",
    "defaults",
    "limits",
    "filesystem",
    "network_allowlist",
    "network_ports",
    "network_blocklist",
    "secrets",
    "tool_allowlist",
    "tool_arguments",
    "command_allowlist",
    "environment",
    "seccomp",
    "sandbox_mounts",
    "rules",
    "also",
    "inherit",
    "scope",
];
pub(super) const DEFAULTS: &[&str] = &[
    "action",
    "max_cpu",
    "max_memory_mb",
    "timeout_seconds",
    "max_tool_calls",
    "network_default",
    "max_tokens",
    "confidence_threshold",
];
pub(super) const LIMITS: &[&str] = &[
    "max_pids",
    "max_disk_mb",
    "max_inodes",
    "max_open_files",
    "max_output_bytes",
    "max_cpu_seconds",
    "max_io_bytes_per_second",
    "max_connections",
    "max_forwarded_ports",
    "max_egress_bytes",
    "max_egress_bytes_per_second",
    "max_tool_seconds",
    "max_tool_bytes",
    "max_tool_depth",
    "max_tool_calls_per_second",
    "max_concurrent_tool_calls",
    "max_lifetime_seconds",
    "idle_seconds",
    "cancel_grace_seconds",
    "timeout_grace_seconds",
    "exact",
];
pub(super) const FILESYSTEM: &[&str] = &["read", "write", "hide", "workspace", "exact"];
pub(super) const MOUNT: &[&str] = &["host", "guest"];
pub(super) const WORKSPACE: &[&str] = &["host", "mode"];
pub(super) const SANDBOX_MOUNTS: &[&str] = &["input_dir", "output_dir"];
pub(super) const NETWORK_ENTRY: &[&str] =
    &["host", "ports", "methods", "paths", "protocol", "inspect"];
pub(super) const SECRET: &[&str] = &["name", "from", "hosts", "header", "format", "query", "basic"];
pub(super) const RULE: &[&str] =
    &["name", "condition", "action", "priority", "message", "dynamic_condition", "override"];
pub(super) const CONDITION: &[&str] = &["field", "operator", "value"];
pub(super) const DYNAMIC_CONDITION: &[&str] =
    &["type", "timezone", "start_time", "end_time", "days_of_week", "window", "limit"];
pub(super) const ALSO: &[&str] =
    &["name", "action", "rules", "network_default", "network_allowlist", "network_ports"];

/// The mappings of the language, with their names in messages.
pub(crate) const SECTIONS: &[(&str, &[&str])] = &[
    ("the policy", POLICY),
    ("defaults", DEFAULTS),
    ("limits", LIMITS),
    ("filesystem", FILESYSTEM),
    ("filesystem.workspace", WORKSPACE),
    ("filesystem.read[]", MOUNT),
    ("sandbox_mounts", SANDBOX_MOUNTS),
    ("network_allowlist[]", NETWORK_ENTRY),
    ("secrets[]", SECRET),
    ("rules[]", RULE),
    ("rules[].condition", CONDITION),
    ("rules[].dynamic_condition", DYNAMIC_CONDITION),
    ("also[]", ALSO),
];

/// Common words for keys that have another name here.
pub(super) const OTHER_WORDS: &[(&str, &str)] = &[
    ("env", "environment"),
    ("env_vars", "environment"),
    ("mounts", "filesystem"),
    ("volumes", "filesystem"),
    ("files", "filesystem"),
    ("network", "network_allowlist"),
    ("allowed_hosts", "network_allowlist"),
    ("allowed_domains", "network_allowlist"),
    ("blocked_hosts", "network_blocklist"),
    ("denied_domains", "network_blocklist"),
    ("tools", "tool_allowlist"),
    ("commands", "command_allowlist"),
    ("timeout", "timeout_seconds"),
    ("timeout_ms", "timeout_seconds"),
    ("memory", "max_memory_mb"),
    ("memory_mb", "max_memory_mb"),
    ("cpu", "max_cpu"),
    ("cpus", "max_cpu"),
    ("cpu_limit", "max_cpu"),
    ("pids", "max_pids"),
    ("disk", "max_disk_mb"),
    ("path", "host"),
    ("source", "host"),
    ("target", "guest"),
    ("port", "ports"),
    ("method", "methods"),
    ("value_from", "from"),
    ("op", "operator"),
    ("wall", "isolation"),
];
