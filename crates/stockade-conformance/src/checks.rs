//! Judgements that are more than one comparison. Each must fail without the wall.

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

/// The folder that is shown has its name from the host; the sandbox does not see it.
pub(crate) fn no_label(bench: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.answer.is_some() && !seen.note().contains(&bench.names["place"]), seen)
}

/// Every cgroup looks like the top.
pub(crate) fn cgroups_are_tops(_: &Bench, seen: &Seen) -> Checked {
    let lines = seen.note().trim_start_matches("/proc/self/cgroup: ").lines();
    otherwise(seen.answer.is_some() && { lines }.all(|line| line.ends_with(":/")), seen)
}

/// No file says what the same file of the host says.
pub(crate) fn no_host_identity(_: &Bench, seen: &Seen) -> Checked {
    for part in seen.note().split("; ") {
        let Some((path, text)) = part.split_once(": ") else { continue };
        let host = fs::read_to_string(path).unwrap_or_default();
        let is_same = !host.trim().is_empty() && host.trim() == text.trim();
        // The boot's id is drawn anew at each reading of some kernels; the host's stays.
        if is_same {
            return Err(format!("{path} is the host's"));
        }
    }
    otherwise(seen.answer.is_some(), seen)
}

/// The memory of the machine is that of the policy: 512 MiB in the default one.
pub(crate) fn memory_is_the_limit(_: &Bench, seen: &Seen) -> Checked {
    let total = seen.note().split_once("MemTotal:").map(|(_, rest)| rest.trim_start());
    let total = total.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    otherwise(total.is_some_and(|kibibytes| kibibytes <= 512 << 10), seen)
}

/// Threads and children work, both of them.
pub(crate) fn helpers_run(_: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.note() == "thread: ran; child: ran", seen)
}

/// Unix, IPv4, IPv6 and netlink, and of the first three none that is raw.
pub(crate) fn few_families(_: &Bench, seen: &Seen) -> Checked {
    let fine = |made: &str| match made.split_once('/') {
        Some(("1" | "2" | "10", kind)) => kind != "3" || made == "1/3",
        Some(("16", _)) => true,
        _ => false,
    };
    otherwise(seen.answer.is_some() && seen.note().split_whitespace().all(fine), seen)
}

/// A lock that somebody on the host holds is no hindrance.
pub(crate) fn lock_is_own(_: &Bench, seen: &Seen) -> Checked {
    otherwise(seen.ret() == Some(1), seen)
}

/// Neither root's group nor any other that has a name on the host.
pub(crate) fn no_group_of_root(_: &Bench, seen: &Seen) -> Checked {
    otherwise(matches!(seen.note(), "Groups=" | "Groups=65534"), seen)
}

/// Output beyond what is kept is counted and dropped, and the program is not held up.
pub(crate) fn output_is_cut(_: &Bench, seen: &Seen) -> Checked {
    let count = |key: &str| seen.report["output"]["stdout"][key].as_u64().unwrap_or(0);
    let (kept, dropped) = (count("kept_bytes"), count("dropped_bytes"));
    let fits = kept <= 1 << 20 && kept + dropped > 4 << 20;
    otherwise(fits && seen.outcome() == "exited", seen)
}
