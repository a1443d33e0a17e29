//! Turns a policy into the configuration of a container. Pure.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountTmpfsOptions, MountType,
    MountVolumeOptions, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use stockade_hostfiles::{MASKED_PROC, Mode, Shown};
use stockade_policy::{Limit, Policy, SCRATCH, WORKSPACE, Workspace};
use stockade_provider::{FilePath, ToolAccess, WritablePlace};
use stockade_wire::{DENIAL_SOCKET, NAME_SERVER};

use crate::archive::{GUEST, SOCKET};
use crate::bundles::Bundle;
use crate::files::Files;
use crate::image::Image;
use crate::volumes::Volumes;
use crate::{EngineFacts, Runtime};

/// What a configuration is made from.
pub(crate) struct Inputs<'i> {
    pub(crate) policy: &'i Policy,
    pub(crate) facts: &'i EngineFacts,
    pub(crate) runtime: Runtime,
    pub(crate) image: &'i Image,
    pub(crate) volumes: &'i Volumes,
    pub(crate) files: &'i Files,
    /// Whether programs reach the network through the gate.
    pub(crate) has_network: bool,
    /// Whether programs can call tools.
    pub(crate) has_tools: bool,
    /// The bundles of the image that programs find replaced.
    pub(crate) bundles: &'i [Bundle],
    /// The labels of the container and its volume.
    pub(crate) labels: &'i HashMap<String, String>,
    /// The built-in system-call profile, as the engine reads it.
    pub(crate) seccomp: &'i str,
}

/// The host name inside.
const HOST_NAME: &str = "sandbox";
/// The guest is one process with one thread.
const OWN_TASKS: u64 = 1;
/// The guest's open descriptors other than connections, and its connections for each of two kinds.
const GUEST_FILES: u64 = 64 + 2 * 1024;
/// Too small for any core dump. Unlike 0, it also keeps the kernel from running a host's pipe
/// handler in `core_pattern`, core(5).
const CORE_BYTES: u64 = 1;
/// Linux's defaults for a user.
const QUEUE_BYTES: u64 = 819_200;
const PENDING_SIGNALS: u64 = 4096;
const LOCKED_BYTES: u64 = 8 << 20;

/// The configuration of the container.
pub(crate) fn plan(inputs: &Inputs<'_>) -> ContainerCreateBody {
    let (user, group) = inputs.files.user;
    ContainerCreateBody {
        image: Some(inputs.image.id.clone()),
        hostname: Some(HOST_NAME.to_owned()),
        user: Some(format!("{user}:{group}")),
        entrypoint: Some(guest_words(inputs)),
        // The image's own command would become arguments of the guest.
        cmd: Some(Vec::new()),
        env: Some(Vec::new()),
        working_dir: Some("/".to_owned()),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // The guest exits at the end of its input: with this option the engine closes the input
        // when the host's connection ends, for any reason.
        stdin_once: Some(true),
        tty: Some(false),
        stop_signal: Some("SIGKILL".to_owned()),
        stop_timeout: Some(0),
        labels: Some(inputs.labels.clone()),
        host_config: Some(host_config(inputs)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(inputs: &Inputs<'_>) -> HostConfig {
    let limit = |limit| limit_of(inputs.policy, limit);
    let signed = |amount: u64| Some(i64::try_from(amount).unwrap_or(i64::MAX));
    let memory = limit(Limit::Memory) << 20;
    HostConfig {
        runtime: Some(inputs.runtime.name().to_owned()),
        // With it the engine removes the container and its volume, even if this process is gone.
        auto_remove: Some(true),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(Vec::new()),
        security_opt: Some(security_options(inputs)),
        readonly_rootfs: Some(true),
        masked_paths: Some(masked_paths()),
        network_mode: Some("none".to_owned()),
        // A private namespace without the engine's /dev/shm: ours has a limit of inodes too.
        ipc_mode: Some("none".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        init: Some(false),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        devices: Some(Vec::new()),
        dns: Some(vec![NAME_SERVER.ip().to_string()]),
        dns_options: Some(resolver_options(inputs.has_network)),
        // Without a search list, so that resolvers do not append a domain of the host.
        dns_search: Some(vec![".".to_owned()]),
        memory: signed(memory),
        memory_swap: signed(memory),
        // cgroup v2 has no such setting.
        memory_swappiness: (inputs.facts.cgroups == 1).then_some(0),
        oom_kill_disable: (inputs.facts.cgroups == 1).then_some(false),
        nano_cpus: signed(limit(Limit::Cpu) * 1_000_000),
        pids_limit: signed(engine_pids(inputs)),
        ulimits: Some(ulimits(inputs)),
        tmpfs: Some(tmpfs(inputs)),
        mounts: Some(mounts(inputs)),
        sysctls: Some(HashMap::from([(
            // The guest and programs bind every port; the network namespace has no other user.
            "net.ipv4.ip_unprivileged_port_start".to_owned(),
            "0".to_owned(),
        )])),
        ..HostConfig::default()
    }
}

fn guest_words(inputs: &Inputs<'_>) -> Vec<String> {
    let mut words = vec![GUEST.to_owned(), "stdio".to_owned(), "kernel".to_owned()];
    let tools = inputs.has_tools.then_some(SOCKET);
    words.extend(stockade_carrier::guest_words(inputs.policy, inputs.has_network, tools));
    if inputs.image.is_hardened {
        words.push(format!("denials={DENIAL_SOCKET}"));
    }
    words
}

/// The paths that engines mask by default, which a list of our own replaces, and those that are
/// missing or hidden behind the native wall.
fn masked_paths() -> Vec<String> {
    const MASKED: [&str; 8] = [
        "/proc/acpi",
        "/proc/kcore",
        "/proc/latency_stats",
        "/proc/sched_debug",
        "/proc/sys/kernel/random/boot_id",
        "/proc/timer_list",
        "/proc/timer_stats",
        "/sys",
    ];
    MASKED.into_iter().chain(MASKED_PROC).map(str::to_owned).collect()
}

fn security_options(inputs: &Inputs<'_>) -> Vec<String> {
    let mut options = vec!["no-new-privileges".to_owned(), format!("seccomp={}", inputs.seccomp)];
    if inputs.facts.has_apparmor {
        options.push("apparmor=docker-default".to_owned());
    }
    options
}

fn resolver_options(has_network: bool) -> Vec<String> {
    let options: &[&str] = match has_network {
        true => &["edns0", "ndots:1"],
        // No server listens there, so a lookup fails at once instead of timing out.
        false => &["timeout:1", "attempts:1"],
    };
    options.iter().map(|option| (*option).to_owned()).collect()
}

/// The engine's limit of tasks. gVisor's own threads count too, several for each process inside, and
/// one too many ends the whole sandbox; there it is only a backstop for RLIMIT_NPROC inside.
fn engine_pids(inputs: &Inputs<'_>) -> u64 {
    let pids = limit_of(inputs.policy, Limit::Pids);
    match inputs.runtime {
        Runtime::Runsc => 32 * pids + 1024,
        Runtime::Runc | Runtime::Crun | Runtime::Kata => pids + OWN_TASKS,
    }
}

fn ulimits(inputs: &Inputs<'_>) -> Vec<ResourcesUlimits> {
    let files = limit_of(inputs.policy, Limit::OpenFiles);
    let files = match inputs.has_network || inputs.has_tools {
        true => files.max(GUEST_FILES),
        false => files,
    };
    let mut limits = vec![
        ("core", CORE_BYTES),
        ("memlock", LOCKED_BYTES),
        ("msgqueue", QUEUE_BYTES),
        ("nofile", files),
        ("sigpending", PENDING_SIGNALS),
    ];
    if inputs.runtime == Runtime::Runsc {
        // Counted inside gVisor only. On the host's kernel it would count the processes of this
        // user in all containers.
        limits.push(("nproc", limit_of(inputs.policy, Limit::Pids) + OWN_TASKS));
    }
    let limit = |(name, amount): (&str, u64)| {
        let amount = Some(i64::try_from(amount).unwrap_or(i64::MAX));
        ResourcesUlimits { name: Some(name.to_owned()), soft: amount, hard: amount }
    };
    limits.into_iter().map(limit).collect()
}

/// The writable places of the sandbox.
fn tmpfs(inputs: &Inputs<'_>) -> HashMap<String, String> {
    let disk = limit_of(inputs.policy, Limit::Disk);
    let inodes = limit_of(inputs.policy, Limit::Inodes);
    let (user, group) = inputs.files.user;
    let options =
        |rest: String| format!("rw,exec,nosuid,nodev,size={disk}m,nr_inodes={inodes},{rest}");
    let own = || options(format!("mode=0755,uid={user},gid={group}"));
    let mut places: HashMap<String, String> = SCRATCH
        .iter()
        .map(|place| {
            let options = match *place {
                "/run" => own(),
                _ => options("mode=1777".to_owned()),
            };
            ((*place).to_owned(), options)
        })
        .collect();
    match inputs.policy.workspace.value {
        Workspace::Scratch => _ = places.insert(WORKSPACE.to_owned(), own()),
        Workspace::Nothing => {
            let nothing = "ro,noexec,nosuid,nodev,size=4k,nr_inodes=1,mode=0555";
            places.insert(WORKSPACE.to_owned(), nothing.to_owned());
        }
        Workspace::Host { .. } => {}
    }
    places.extend(inputs.volumes.places.iter().map(|volume| (volume.clone(), own())));
    let is_shown = |place: &String| {
        inputs.files.shown.iter().any(|shown| shown.guest == Path::new(place.as_str()))
    };
    places.retain(|place, _| !is_shown(place));
    places
}

/// The writable places of the sandbox, as [`tmpfs`] creates them.
pub(crate) fn places(policy: &Policy, volumes: &Volumes) -> Vec<WritablePlace> {
    let place = |volume: &String| FilePath::new(volume.as_bytes()).ok();
    let own = volumes.places.iter().filter_map(place);
    let own = own.map(|path| WritablePlace { path, base: None, skip: Vec::new() });
    WritablePlace::of(policy).into_iter().chain(own).collect()
}

fn mounts(inputs: &Inputs<'_>) -> Vec<Mount> {
    let volume = |target: &str, keeps_content: bool| Mount {
        typ: Some(MountType::VOLUME),
        target: Some(target.to_owned()),
        // Writable only to root, which no process inside is; the engine refuses to fill a read-only
        // volume before the start.
        read_only: Some(false),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(!keeps_content),
            labels: Some(inputs.labels.clone()),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    };
    let own = volume(ToolAccess::DIRECTORY, false);
    let bundles = inputs.bundles.iter().map(|bundle| volume(&bundle.directory, true));
    let hidden = inputs.policy.hide.iter().map(|hide| Mount {
        typ: Some(MountType::TMPFS),
        target: Some(hide.value.as_str().to_owned()),
        read_only: Some(true),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(4096),
            mode: Some(0o555),
            ..MountTmpfsOptions::default()
        }),
        ..Mount::default()
    });
    let shown = inputs.files.shown.iter().map(bind);
    std::iter::once(own).chain(bundles).chain(shown).chain(hidden).collect()
}

fn bind(shown: &Shown) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(shown.host.display().to_string()),
        target: Some(shown.guest.display().to_string()),
        read_only: Some(shown.mode != Mode::Write),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            // An old engine leaves mounts below a read-only one writable. There are none, and none
            // that appears later is shown.
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// A limit of the policy; every policy has a value for each limit that is used here.
fn limit_of(policy: &Policy, limit: Limit) -> u64 {
    policy.limits.value(limit).unwrap_or_else(|| limit.spec().min)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
