//! What usually forbids a wall, and the knob for it.

use std::fs;
use std::path::Path;

/// What to do when the first process could not be born in its namespaces.
pub(crate) fn of_birth(errno: Option<i32>) -> String {
    format!("{}; or accept the reduced wall, by `isolation: reduced`", knob(errno))
}

fn knob(errno: Option<i32>) -> String {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if number("/proc/sys/user/max_user_namespaces") == Some(0) {
        return "the sysctl user.max_user_namespaces is 0 here; set it to 1000 or more".to_owned();
    }
    if number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return "the sysctl kernel.unprivileged_userns_clone is 0 here; set it to 1, or run as root"
            .to_owned();
    }
    if number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return "AppArmor forbids user namespaces to programs without a profile (the sysctl \
                kernel.apparmor_restrict_unprivileged_userns); give Stockade a profile with `userns`"
            .to_owned();
    }
    if in_container() {
        return "this container's seccomp profile or capabilities forbid namespaces; allow them, or \
                run Stockade outside"
            .to_owned();
    }
    match errno {
        Some(28) => "too many namespaces: raise the sysctls user.max_*_namespaces".to_owned(),
        Some(11 | 12) => "the host is short of processes or memory; end something else".to_owned(),
        _ => "see whether this kernel allows user namespaces: `unshare -Ur true`".to_owned(),
    }
}

/// What to do when a step inside failed.
pub(crate) fn of_step(step: &str, errno: Option<i32>) -> String {
    const EROFS: i32 = 30;
    const OTHER_KIND: [i32; 3] = [20, 21, 22]; // ENOTDIR, EISDIR, EINVAL: move_mount(2)
    if step.starts_with("attach_") && errno.is_some_and(|errno| OTHER_KIND.contains(&errno)) {
        return "a directory cannot stand where the sandbox has a file, nor a file in the place of a \
                directory; choose another place inside, such as one below /opt"
            .to_owned();
    }
    if errno == Some(EROFS) {
        return "it is below something read-only in which it does not exist; choose another place \
                inside, such as one below /opt"
            .to_owned();
    }
    let knob = "kernel.apparmor_restrict_unprivileged_userns";
    let restricted = fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    if restricted.is_ok_and(|text| text.trim() == "1") {
        return format!(
            "AppArmor takes the rights of unprivileged namespaces away (the sysctl {knob}); give \
             Stockade a profile with `userns`"
        );
    }
    match step {
        "proc" => "parts of /proc are covered here, as in containers, and then no other may be \
                   mounted; run Stockade outside, or with /proc unmasked"
            .to_owned(),
        _ => format!("this kernel or container refuses `{step}`; full strength needs Linux 5.15"),
    }
}

fn in_container() -> bool {
    Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists()
}
