//! Compiles the system-call filters of a sandbox: the wall's, and the policy's for programs.

use stockade_carrier::Filter;
use stockade_hostfiles::FilterError;
use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, ExecutableMemfd, Ids, MemoryHolder, Options, Program, Syscall, Tracing, built_in,
    compile, ready, reduced, unseen_memory,
};

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
pub(crate) fn filters(
    policy: &Policy,
    memory: MemoryHolder,
) -> Result<Vec<RawFilter>, FilterError> {
    let memfd = match policy.commands {
        Some(_) => ExecutableMemfd::Refused,
        None => ExecutableMemfd::Allowed,
    };
    let options = Options { executable_memfd: memfd, tracing: Tracing::Refused };
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
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
) -> Result<Vec<RawFilter>, FilterError> {
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
    let mut programs = vec![raw(&compile(&reduced(ids), architecture)?)];
    programs.extend(filters(policy, memory)?);
    Ok(programs)
}

/// The policy's filters for programs, in the format of the link.
pub(crate) fn for_link(programs: &[Program]) -> Vec<Filter> {
    programs.iter().map(|program| Filter { instructions: raw(program) }).collect()
}

/// A filter that sends a seccomp notification for each start of a program and allows everything
/// else. It ignores other calling conventions: the built-in filter kills a process that uses one.
pub(crate) fn program_watch() -> Result<RawFilter, FilterError> {
    const LOAD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ASK: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
    let number = |name| {
        let call = Syscall::named(name).and_then(|call| call.number(architecture));
        call.ok_or(FilterError::ForeignMachine)
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

fn raw(program: &Program) -> RawFilter {
    program.instructions().iter().map(|it| (it.code, it.jt, it.jf, it.k)).collect()
}
