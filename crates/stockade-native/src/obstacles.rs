//! Explains what forbids a wall, by which setting, with the remedy. Pure: the caller passes what it
//! knows about the host.

use rustix::io::Errno;
use stockade_provider::Obstacle;

use crate::knobs::Knobs;

/// The number of user ids in the initial user namespace.
const ALL_IDS: u64 = 4_294_967_295;

/// Why the first process could not be created in its namespaces: `step` is `clone` or `maps`.
pub(crate) fn of_birth(step: &str, errno: Option<i32>, knobs: &Knobs) -> Obstacle {
    if knobs.clone_refused.is_some() {
        return filter(knobs);
    }
    let errno = errno.map(Errno::from_raw_os_error);
    let known = match errno {
        Some(Errno::NOSPC) => Some(used_up(knobs)),
        Some(Errno::USERS) => Some(obstacle(
            "user namespaces are nested too deep here",
            "run Stockade in fewer containers within each other; the kernel allows 32",
        )),
        Some(Errno::NOSYS) if knobs.clone3_refused.is_some() => Some(no_clone3(knobs)),
        Some(Errno::NOSYS | Errno::INVAL) if step == "clone" => Some(obstacle(
            "this kernel has no user namespaces",
            "use a kernel that is built with CONFIG_USER_NS",
        )),
        Some(Errno::AGAIN | Errno::NOMEM) => Some(obstacle(
            "the host is short of processes or memory",
            "end something else, or raise the limit of processes (ulimit -u)",
        )),
        Some(Errno::PERM | Errno::ACCESS) | None => forbidden(knobs),
        Some(_) => None,
    };
    if let Some(known) = known {
        return known;
    }
    let few = knobs.user_ids.filter(|ids| knobs.is_root && *ids < ALL_IDS);
    if let (Some(ids), "maps") = (few, step) {
        return small_root(ids);
    }
    match &knobs.container {
        Some(_) => obstacle(
            "this container may not make namespaces",
            "start the container with `--security-opt seccomp=unconfined --security-opt \
             apparmor=unconfined`, or run Stockade outside",
        ),
        None => obstacle(
            "the kernel refuses new namespaces",
            "see whether it allows them at all: `unshare -Ur true`; a process in a chroot may not",
        ),
    }
}

/// The remedy after a step inside failed.
pub(crate) fn of_step(step: &str, errno: Option<i32>, knobs: &Knobs) -> String {
    let errno = errno.map(Errno::from_raw_os_error);
    let other_kind = matches!(errno, Some(Errno::NOTDIR | Errno::ISDIR | Errno::INVAL)); // move_mount(2)
    if step.starts_with("attach_") && other_kind {
        return "a directory cannot stand where the sandbox has a file, nor a file in the place of a \
                directory; choose another place inside, such as one below /opt"
            .to_owned();
    }
    let fills_the_root = matches!(step, "directory" | "file" | "link" | "copy_file");
    let in_the_way =
        matches!(errno, Some(Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::EXIST));
    if fills_the_root && in_the_way {
        return "the root that was given has something else there, or a link on the way; give one in \
                which /dev, /etc, /proc, /run, /tmp and /workspace are directories or not there"
            .to_owned();
    }
    if errno == Some(Errno::ROFS) {
        return "it is below something read-only in which it does not exist; choose another place \
                inside, such as one below /opt"
            .to_owned();
    }
    if restricted_by_apparmor(knobs) {
        return format!(
            "AppArmor takes the rights of unprivileged namespaces away (the sysctl {APPARMOR} is \
             1); {}",
            with_profile()
        );
    }
    match (step, &knobs.container) {
        ("proc", _) => "parts of /proc are covered here, as in containers, and then no other may \
                        be mounted; start the container with `--security-opt \
                        systempaths=unconfined`, or run Stockade outside"
            .to_owned(),
        (_, Some(_)) => format!(
            "this container or its kernel refuses `{step}`; start the container with \
             `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        ),
        (_, None) => {
            format!(
                "this kernel or a system-call filter refuses `{step}`; full strength needs Linux 5.15"
            )
        }
    }
}

/// Why egress cannot be set up, from the errno of a kernel without nftables or with only parts of
/// it.
pub(crate) fn of_egress(errno: Option<i32>) -> Obstacle {
    const PARTS: &str = "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4 and CONFIG_NFT_NAT, as modules or \
                         built in";
    match errno.map(Errno::from_raw_os_error) {
        Some(
            Errno::PROTONOSUPPORT
            | Errno::AFNOSUPPORT
            | Errno::OPNOTSUPP
            | Errno::NOENT
            | Errno::INVAL,
        ) => Obstacle {
            reason: "this kernel has no nftables that can redirect connections, and without it \
                     none leaves a sandbox"
                .to_owned(),
            remedy: format!(
                "load it as root: `modprobe -a nf_tables nft_chain_nat nft_nat`; or use a kernel \
                 with {PARTS}; or remove what the policy says of the network"
            ),
        },
        _ => obstacle(
            "the kernel or a system-call filter refuses to redirect connections in a network \
             namespace of the sandbox's own, and without that none leaves it",
            "let the filter allow netlink sockets; or remove what the policy says of the network",
        ),
    }
}

/// The first known setting or filter that forbids user namespaces to this process.
pub(crate) fn forbidden(knobs: &Knobs) -> Option<Obstacle> {
    if knobs.clone_refused.is_some() {
        return Some(filter(knobs));
    }
    if knobs.unprivileged_userns_clone == Some(0) && !knobs.is_root {
        let knob = "kernel.unprivileged_userns_clone";
        return Some(by_sysctl(knob, 0, &format!("{}, or run Stockade as root", set(knob, 1))));
    }
    restricted_by_apparmor(knobs).then(|| by_sysctl(APPARMOR, 1, &with_profile()))
}

const APPARMOR: &str = "kernel.apparmor_restrict_unprivileged_userns";

fn restricted_by_apparmor(knobs: &Knobs) -> bool {
    knobs.apparmor_restrict_unprivileged_userns == Some(1) && !knobs.is_root
}

fn with_profile() -> String {
    "give Stockade a profile: `stockade doctor --apparmor-profile | sudo tee \
     /etc/apparmor.d/stockade`, then `sudo apparmor_parser -r /etc/apparmor.d/stockade`"
        .to_owned()
}

fn used_up(knobs: &Knobs) -> Obstacle {
    let user = "user.max_user_namespaces";
    let zero = knobs.max_namespaces.iter().find(|(_, value)| **value == 0);
    match zero {
        Some((knob, _)) if knob == user => by_sysctl(user, 0, &set(user, 15_000)),
        Some((knob, value)) => Obstacle {
            reason: format!("namespaces are forbidden by the sysctl {knob}, which is {value}"),
            remedy: set(knob, 15_000),
        },
        None => obstacle(
            "no more namespaces can be made: one of the sysctls user.max_*_namespaces is reached",
            "end other sandboxes or containers, or raise them: `sysctl user` shows their values",
        ),
    }
}

fn filter(knobs: &Knobs) -> Obstacle {
    const CALLS: &str = "clone and unshare with namespaces, clone3, mount, umount2, pivot_root, \
                         open_tree, move_mount, fsopen, fsconfig, fsmount, mount_setattr and \
                         sethostname";
    match &knobs.container {
        Some(_) => Obstacle {
            reason: "user namespaces are forbidden by a system-call filter, this container's \
                     seccomp profile"
                .to_owned(),
            remedy: format!(
                "start the container with `--security-opt seccomp=unconfined`, or with a profile \
                 that also allows {CALLS}"
            ),
        },
        None => Obstacle {
            reason: "user namespaces are forbidden by a seccomp filter over the process that \
                     started Stockade"
                .to_owned(),
            remedy: format!(
                "start it from elsewhere, or let the filter (SystemCallFilter= or \
                 RestrictNamespaces= of a service) allow {CALLS}"
            ),
        },
    }
}

fn no_clone3(knobs: &Knobs) -> Obstacle {
    let whose = match &knobs.container {
        Some(_) => "this container's seccomp profile",
        None => "a seccomp filter or an old kernel",
    };
    Obstacle {
        reason: format!("clone3, by which a process is born in a cgroup, is refused by {whose}"),
        remedy: "allow clone3; of a container, `--security-opt seccomp=unconfined` does".to_owned(),
    }
}

/// Root in a user namespace that maps fewer ids than a host.
fn small_root(ids: u64) -> Obstacle {
    let has = if ids == 1 { "one user id".to_owned() } else { format!("{ids} user ids") };
    let reason = format!(
        "root has only {has} here, as in a rootless container, and gives each sandbox 65536 of its \
         own"
    );
    let remedy = match ids {
        0..=65_534 => "run Stockade outside of this user namespace",
        _ => {
            "run Stockade here as another user than root, such as by `setpriv --reuid 65534 \
             --regid 65534 --clear-groups`"
        }
    };
    Obstacle { reason, remedy: remedy.to_owned() }
}

fn by_sysctl(knob: &str, value: u64, remedy: &str) -> Obstacle {
    Obstacle {
        reason: format!("user namespaces are forbidden by the sysctl {knob}, which is {value}"),
        remedy: remedy.to_owned(),
    }
}

fn set(knob: &str, value: u64) -> String {
    format!("allow them as root: `sysctl -w {knob}={value}`")
}

fn obstacle(reason: &str, remedy: &str) -> Obstacle {
    Obstacle { reason: reason.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
#[path = "obstacles_tests.rs"]
mod tests;
