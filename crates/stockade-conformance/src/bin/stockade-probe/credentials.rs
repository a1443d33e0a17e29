//! Changing credentials, and gaining rights from files.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use stockade_conformance::Tried;

use crate::{Act, errno, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("become", become_other),
    ("run-as-owner", run_as_owner),
    ("effective-user", effective_user),
    ("rewrite-map", rewrite_map),
    ("raise-limit", raise_limit),
    ("trace", trace),
    ("start", start),
    ("start-memory", start_memory),
];

/// Changes user ids, groups or capabilities.
fn become_other(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for name in words {
        let result = match *name {
            "uid" => rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT),
            "gid" => rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT),
            "groups" => rustix::thread::set_thread_groups(&[Gid::ROOT]),
            "capabilities" => {
                let all = CapabilitySet::from_bits_retain(1 << 21);
                let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
                rustix::thread::set_capabilities(None, sets)
            }
            _ => Err(rustix::io::Errno::DOM),
        };
        tried.add(name, result.map(|()| "became").map_err(io::Error::from));
    }
    tried
}

/// Runs a set-user-ID copy of this program, which reports its effective user.
fn run_as_owner(words: &[&str]) -> Tried {
    let output = std::process::Command::new(word(words, 0)).arg("effective-user").output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    Tried::one(printed.and_then(|printed| match printed.contains("\"note\":\"0\"") {
        true => Ok("root"),
        false => Err(errno(libc::EPERM)),
    }))
}

fn effective_user(_: &[&str]) -> Tried {
    Tried::one(Ok(rustix::process::geteuid().as_raw().to_string()))
}

/// Writes an id map; the kernel allows that once per user namespace.
fn rewrite_map(words: &[&str]) -> Tried {
    let map = || -> io::Result<&str> {
        if word(words, 0) == "fresh" {
            let flags = [stockade_sys::probe::Argument::Number(libc::CLONE_NEWUSER as u32)];
            stockade_sys::probe::raw_call(libc::SYS_unshare, &mut { flags })?;
        }
        std::fs::write("/proc/self/uid_map", "0 0 1\n")?;
        Ok("written")
    };
    Tried::one(map())
}

/// Raises limits above their hard limits.
fn raise_limit(_: &[&str]) -> Tried {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let mut tried = Tried::default();
    let limits = [
        ("open files", Resource::Nofile),
        ("core", Resource::Core),
        ("signals", Resource::Sigpending),
        ("queues", Resource::Msgqueue),
        ("locked", Resource::Memlock),
    ];
    for (name, resource) in limits {
        let most = getrlimit(resource).maximum.map_or(u64::MAX - 1, |most| most + 1);
        let wider = Rlimit { current: Some(most), maximum: Some(most) };
        let raised = setrlimit(resource, wider).map_err(io::Error::from);
        // The resulting limit counts, not the call's return value.
        let raised = raised.and_then(|()| match getrlimit(resource).maximum {
            Some(now) if now < most => Err(errno(libc::EPERM)),
            _ => Ok("raised"),
        });
        tried.add(name, raised);
    }
    tried
}

/// Attaches to a process with ptrace(2), as a debugger does.
fn trace(words: &[&str]) -> Tried {
    use stockade_sys::probe::{Argument, raw_call};
    const ATTACH: u32 = 16;
    const DETACH: u32 = 17;
    let process = u32::try_from(crate::number(words, 0)).unwrap_or(0);
    let call = |request| {
        let zero = || Argument::Number(0);
        let request = Argument::Number(request);
        raw_call(libc::SYS_ptrace, &mut [request, Argument::Number(process), zero(), zero()])
    };
    let attached = call(ATTACH);
    if attached.is_ok() {
        let process = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
        // Detaching needs a stopped tracee; if it fails, the kernel detaches when this process
        // ends.
        let _ = rustix::process::waitpid(process, rustix::process::WaitOptions::UNTRACED);
        let _ = call(DETACH);
    }
    Tried::one(attached.map(|_| "attached"))
}

/// Starts each program.
fn start(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for program in words {
        let output = std::process::Command::new(program).arg("effective-user").output();
        tried.add(program, output.map(|_| "started"));
    }
    tried
}

/// Runs a copy of this program from a memfd, without any file on disk.
fn start_memory(_: &[&str]) -> Tried {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let run = || -> io::Result<&str> {
        let mut memory = std::fs::File::from(memfd_create("probe", MemfdFlags::empty())?);
        memory.write_all(&std::fs::read("/proc/self/exe")?)?;
        // Reopened read-only: a file that is open for writing cannot be executed (ETXTBSY).
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let copy = std::fs::File::open(&path)?;
        drop(memory);
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        std::process::Command::new(path).arg("effective-user").output()?;
        Ok("started")
    };
    Tried::one(run())
}
