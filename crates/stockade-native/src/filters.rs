//! The system-call filters of one sandbox: the built-in one, and those of the policy on top.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, Carries, CustomProfile, ExecutableMemfd, Filters, Host, Ids, MemoryHolder,
    Options, Profile, Program, Syscall, Tracing, built_in, compile, leaves_guest, ready, reduced,
    tighten,
};

use crate::error::StartError;

/// A filter as the launcher takes it.
pub(crate) type RawFilter = Vec<(u16, u8, u8, u32)>;

/// Compiles the filters for a policy, the built-in one first.
pub(crate) fn filters(
    policy: &Policy,
    kernel: (u32, u32),
    carries: Carries,
) -> Result<Vec<RawFilter>, StartError> {
    let memfd = match policy.commands {
        Some(_) => ExecutableMemfd::Refused,
        None => ExecutableMemfd::Allowed,
    };
    let options = Options { executable_memfd: memfd, tracing: Tracing::Refused };
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    let mut programs = match ready(options, architecture) {
        Some(program) => vec![program],
        None => Filters::built_in(built_in(options)).compile(architecture)?,
    };
    for profile in &policy.seccomp {
        let host = Host { architecture, kernel };
        let custom = custom(&profile.value, host)?;
        let tightened = leaves_guest(&custom, carries)
            .and_then(|()| tighten(built_in(options), custom))
            .map_err(|source| StartError::StrictProfile { path: profile.value.clone(), source })?;
        // The kernel keeps the strictest answer of all that are installed.
        programs.extend(tightened.compile(architecture)?.pop());
    }
    Ok(programs.iter().map(raw).collect())
}

/// The same and a further filter, which holds what namespaces hold elsewhere.
pub(crate) fn reduced_filters(
    policy: &Policy,
    kernel: (u32, u32),
    ids: Ids,
    memory: MemoryHolder,
) -> Result<Vec<RawFilter>, StartError> {
    let architecture = Architecture::native().ok_or(StartError::ForeignMachine)?;
    // First: a profile of the policy may refuse to install another.
    let mut programs = vec![raw(&compile(&reduced(ids, memory), architecture)?)];
    programs.extend(filters(policy, kernel, Carries::default())?);
    Ok(programs)
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
