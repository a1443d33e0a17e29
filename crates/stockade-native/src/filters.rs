//! Compiles the system-call filters of a sandbox: the wall's, and the policy's for programs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use stockade_carrier::Filter;
use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, CompileError, CustomProfile, ExecutableMemfd, Host, Ids, MemoryHolder, Options,
    Profile, Program, Syscall, Tracing, built_in, compile, forbids_start, is_forbidden, ready,
    reduced, unseen_memory,
};

use crate::error::StartError;

/// A filter in the launcher's format.
pub(crate) type RawFilter = Vec<(u16, u8, u8, u32)>;

/// Which mechanism counts the memory of a sandbox.
pub(crate) fn memory_holder(is_held_by_cgroup: bool) -> MemoryHolder {
    match is_held_by_cgroup {
        true => MemoryHolder::Cgroup,
        false => MemoryHolder::Watchdog,
    }
}

/// Compiles the wall's filters, which apply to the guest and to programs.
pub(crate) fn filters(policy: &Policy, memory: MemoryHolder) -> Result<Vec<RawFilter>, StartError> {
    let memfd = match policy.commands {
        Some(_) => ExecutableMemfd::Refused,
        None => ExecutableMemfd::Allowed,
    };
    let options = Options { executable_memfd: memfd, tracing: Tracing::Refused };
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let mut programs = match ready(options, architecture) {
        Some(program) => vec![program],
        None => vec![compile(&built_in(options), architecture)?],
    };
    if memory == MemoryHolder::Watchdog {
        programs.push(compile(&unseen_memory(), architecture)?);
    }
    Ok(programs.iter().map(raw).collect())
}

/// The same with an additional filter for what namespaces isolate in the native wall.
pub(crate) fn reduced_filters(
    policy: &Policy,
    ids: Ids,
    memory: MemoryHolder,
) -> Result<Vec<RawFilter>, StartError> {
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let mut programs = vec![raw(&compile(&reduced(ids), architecture)?)];
    programs.extend(filters(policy, memory)?);
    Ok(programs)
}

/// The policy's seccomp profiles, compiled for programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramFilters {
    /// In the order of installation.
    pub(crate) filters: Vec<Filter>,
    /// A system call that every start needs and a profile refuses, so that no program can start.
    pub(crate) refused_call: Option<String>,
}

/// Compiles the profiles of a policy. They apply to programs and not to the guest.
pub(crate) fn program_filters(
    policy: &Policy,
    kernel: (u32, u32),
) -> Result<ProgramFilters, StartError> {
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let host = Host { architecture, kernel };
    let profiles = policy.seccomp.iter().map(|profile| custom(&profile.value, host));
    let mut profiles = profiles.collect::<Result<Vec<_>, _>>()?;
    // Each filter is installed under those before it, so one that refuses seccomp(2) comes last.
    let install = Syscall::named("seccomp");
    let refuses = |profile: &Profile| install.is_some_and(|call| is_forbidden(profile, call));
    profiles.sort_by_key(refuses);
    let forbidden = profiles.iter().find_map(|profile| forbids_start(profile, architecture));
    let refused = forbidden.or(match profiles.iter().filter(|one| refuses(one)).count() {
        0 | 1 => None,
        _ => install,
    });
    let compiled = profiles.iter().map(|profile| compile(profile, architecture));
    let filters = compiled.map(|program| Ok(Filter { instructions: raw(&program?) }));
    Ok(ProgramFilters {
        filters: filters.collect::<Result<_, CompileError>>()?,
        refused_call: refused.map(|call| call.name().to_owned()),
    })
}

/// A filter that sends a seccomp notification for each start of a program and allows everything
/// else. It ignores other calling conventions: the built-in filter kills a process that uses one.
pub(crate) fn program_watch() -> Result<RawFilter, StartError> {
    const LOAD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ASK: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let number = |name| {
        let call = Syscall::named(name).and_then(|call| call.number(architecture));
        call.ok_or(StartError::ForeignMachine)
    };
    Ok(vec![
        // Offsets in `struct seccomp_data`: 4 is the architecture, 0 the system call number.
        (LOAD, 0, 0, 4),
        (JUMP_EQUAL, 0, 4, architecture.audit()),
        (LOAD, 0, 0, 0),
        (JUMP_EQUAL, 1, 0, number("execve")?),
        (JUMP_EQUAL, 0, 1, number("execveat")?),
        (RETURN, 0, 0, ASK),
        (RETURN, 0, 0, ALLOW),
    ])
}

fn custom(path: &Path, host: Host) -> Result<Profile, StartError> {
    let text =
        read(path).map_err(|source| StartError::ReadProfile { path: path.to_owned(), source })?;
    let profile = CustomProfile::parse(&text)
        .map_err(|source| StartError::Profile { path: path.to_owned(), source })?;
    profile
        .resolve(host)
        .map_err(|source| StartError::ForeignProfile { path: path.to_owned(), source })
}

/// Reads one byte more than the parser accepts, so that the parser rejects a longer file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CustomProfile::MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn raw(program: &Program) -> RawFilter {
    program.instructions().iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect()
}
