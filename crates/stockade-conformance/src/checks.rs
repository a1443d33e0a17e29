//! Checks that need more than one comparison. Each must fail without the wall.

use std::fs;

use crate::bench::Bench;
use crate::seen::Seen;

type Checked = Result<(), String>;

fn otherwise(held: bool, seen: &Seen) -> Checked {
    match held {
        true => Ok(()),
        false => Err(seen.summary()),
    }
}

/// The shown folder has a host name that the sandbox must not see.
pub(crate) fn no_label(bench: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.answer.is_some() && !seen.note().contains(&bench.names["place"]), seen)
}

/// Every cgroup path is the sandbox's own top, or the leaf of the execution below it, whose number
/// counts the programs of this sandbox.
pub(crate) fn cgroups_are_own(_: &Bench, seen: &Seen) -> Checked {
    let mut lines = seen.note().trim_start_matches("/proc/self/cgroup: ").lines();
    let is_leaf = |name: &str| name.strip_prefix("exec-").is_some_and(|n| n.parse::<u8>().is_ok());
    let is_own = |line: &str| {
        let path = line.splitn(3, ':').nth(2).and_then(|path| path.strip_prefix('/'));
        path.is_some_and(|name| name.is_empty() || is_leaf(name))
    };
    otherwise(seen.answer.is_some() && lines.all(is_own), seen)
}

/// No file has the same content as on the host.
pub(crate) fn no_host_identity(_: &Bench, seen: &Seen) -> Checked {
    for part in seen.note().split("; ") {
        let Some((path, text)) = part.split_once(": ") else { continue };
        let host = fs::read_to_string(path).unwrap_or_default();
        let is_same = !host.trim().is_empty() && host.trim() == text.trim();
        // Some kernels generate boot_id at each read; the host's stays the same.
        if is_same {
            return Err(format!("{path} is the host's"));
        }
    }
    otherwise(seen.answer.is_some(), seen)
}

/// /proc/meminfo shows the policy's memory limit: 512 MiB by default.
pub(crate) fn memory_is_the_limit(_: &Bench, seen: &Seen) -> Checked {
    let total = seen.note().split_once("MemTotal:").map(|(_, rest)| rest.trim_start());
    let total = total.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    otherwise(total.is_some_and(|kibibytes| kibibytes <= 512 << 10), seen)
}

/// Memory that no process maps is limited like any other, or cannot be made: no watchdog sees it.
pub(crate) fn unmapped_memory_is_held(_: &Bench, seen: &Seen) -> Checked {
    let limited = seen.ret().is_none_or(|taken| taken <= 64) && seen.names_limit("max_memory_mb");
    let errno = seen.answer.as_ref().and_then(|answer| answer.errno.as_deref());
    otherwise(limited || (seen.ret() == Some(0) && errno == Some("ENOSYS")), seen)
}

/// Both threads and children work.
pub(crate) fn helpers_run(_: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.note() == "thread: ran; child: ran", seen)
}

/// Only Unix, IPv4, IPv6 and netlink, and no raw sockets of the first three.
pub(crate) fn few_families(_: &Bench, seen: &Seen) -> Checked {
    let fine = |made: &str| match made.split_once('/') {
        Some(("1" | "2" | "10", kind)) => kind != "3" || made == "1/3",
        Some(("16", _)) => true,
        _ => false,
    };
    otherwise(seen.answer.is_some() && seen.note().split_whitespace().all(fine), seen)
}

/// A lock held on the host does not block one inside.
pub(crate) fn lock_is_own(_: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.ret() == Some(1), seen)
}

/// Neither root's group nor another group of the host.
pub(crate) fn no_group_of_root(_: &Bench, seen: &Seen) -> Checked {
    otherwise(matches!(seen.note(), "Groups=" | "Groups=65534"), seen)
}

/// Output beyond the limit is counted and dropped, and does not block the program.
pub(crate) fn output_is_cut(_: &Bench, seen: &Seen) -> Checked {
    let count = |key: &str| seen.report["output"]["stdout"][key].as_u64().unwrap_or(0);
    let (kept, dropped) = (count("kept_bytes"), count("dropped_bytes"));
    let fits = kept <= 1 << 20 && kept + dropped > 4 << 20;
    otherwise(fits && seen.outcome() == "exited", seen)
}
