//! The system-call filters of one sandbox: those of the wall, and those of the policy for programs.

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

/// A filter as the launcher takes it.
pub(crate) type RawFilter = Vec<(u16, u8, u8, u32)>;

/// What counts the memory of a sandbox.
pub(crate) fn memory_holder(is_held_by_cgroup: bool) -> MemoryHolder {
    match is_held_by_cgroup {
        true => MemoryHolder::Cgroup,
        false => MemoryHolder::Watchdog,
    }
}

/// Compiles the filters of the wall for a policy, which guest and programs run under.
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

/// The same and a further filter, which holds what namespaces hold elsewhere.
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

/// What the profiles of a policy are for a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramFilters {
    /// Compiled, in the order in which they are installed.
    pub(crate) filters: Vec<Filter>,
    /// A call that every start needs and a profile refuses: nothing can be started.
    pub(crate) refused_call: Option<String>,
}

/// Compiles the profiles of a policy. They bind what is executed, and not the guest.
pub(crate) fn program_filters(
    policy: &Policy,
    kernel: (u32, u32),
) -> Result<ProgramFilters, StartError> {
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let host = Host { architecture, kernel };
    let profiles = policy.seccomp.iter().map(|profile| custom(&profile.value, host));
    let mut profiles = profiles.collect::<Result<Vec<_>, _>>()?;
    // Each is installed under those before it: one that refuses to install another comes last.
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

/// A filter that asks before a program is started, and lets everything else pass. Calls in another
/// convention are not its concern: the built-in filter ends whoever makes them.
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
        // The calling convention, and the number of the call, of `struct seccomp_data`.
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

/// One byte more than may be parsed, so that the parser sees that it does not fit.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CustomProfile::MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn raw(program: &Program) -> RawFilter {
    program.instructions().iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect()
}
