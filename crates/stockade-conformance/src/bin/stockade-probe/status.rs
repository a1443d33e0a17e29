//! The credentials, environment and limits of this process.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use stockade_conformance::Tried;

use crate::Act;

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("status", status),
    ("environment", environment),
    ("session", session),
    ("place", place),
    ("processes", processes),
    ("no-new-privileges", no_new_privileges),
    ("core-limit", core_limit),
    ("host-names", host_names),
];

/// Lines of `/proc/self/status`, by name.
fn status(words: &[&str]) -> Tried {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':')
            && words.contains(&name)
        {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(format!("{name}={value}"));
        }
    }
    Tried::one(Ok(found.join(" ")))
}

/// The environment of this process, and of process 1.
fn environment(_: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for (name, value) in std::env::vars_os() {
        tried.add(&name.to_string_lossy(), Ok(value.to_string_lossy()));
    }
    let first = fs::read("/proc/1/environ");
    tried.add("1", first.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ")));
    tried
}

/// Whether this process is its session's leader, and whether it has a terminal.
fn session(_: &[&str]) -> Tried {
    let leads = rustix::process::getsid(None).is_ok_and(|it| it == rustix::process::getpid());
    let terminal = fs::File::open("/dev/tty").is_ok();
    Tried::one(Ok(format!("leads={leads} terminal={terminal}")))
}

/// The working directory, user, group and umask.
fn place(_: &[&str]) -> Tried {
    let directory = std::env::current_dir().unwrap_or_default();
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let mask = mask.as_raw_mode();
    Tried::one(Ok(format!("{} {user}:{group} {mask:03o}", directory.display())))
}

/// The number of other visible processes.
fn processes(_: &[&str]) -> Tried {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_other = |name: &String| *name != own && name.bytes().all(|it| it.is_ascii_digit());
    Tried::counted(names.filter(is_other).count() as i64, None)
}

/// Tries to unset no_new_privs, and reports whether it is still set.
fn no_new_privileges(_: &[&str]) -> Tried {
    let taken_back = rustix::thread::set_no_new_privs(false).map_err(io::Error::from);
    let mut tried = status(&["NoNewPrivs"]);
    tried.refused.extend(taken_back.err());
    tried
}

/// Whether a crashing child dumps core: with the current limit, and with a core limit of 0, at
/// which the kernel still feeds a pipe handler of the host.
fn core_limit(_: &[&str]) -> Tried {
    let as_it_is = leaves_core();
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Ignored: a limit that cannot be lowered stays in force.
    let _ = setrlimit(Resource::Core, none);
    let dumped = as_it_is.and_then(|before| Ok(before || leaves_core()?));
    Tried::one(dumped.map(|dumped| format!("dumped={dumped}")))
}

fn leaves_core() -> io::Result<bool> {
    use std::os::unix::process::ExitStatusExt;
    let program = std::env::current_exe()?;
    Ok(std::process::Command::new(program).args(["die", "6"]).status()?.core_dumped())
}

/// Files that identify the host.
fn host_names(_: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in [
        "/etc/hostname",
        "/etc/hosts",
        "/etc/machine-id",
        "/etc/resolv.conf",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/random/boot_id",
        "/proc/cmdline",
        "/sys/class/dmi/id/product_uuid",
    ] {
        tried.add(path, fs::read_to_string(path));
    }
    tried
}
