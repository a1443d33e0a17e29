//! The system-call filters that the guest installs in programs.

use stockade_carrier::Filter;
use stockade_hostfiles::{FilterError, program_filters};
use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, ExecutableMemfd, Options, Program, Tracing, built_in, compile, ready,
};

/// The filters of one machine.
pub(crate) struct Filters {
    /// The built-in profile and then those of the policy.
    pub(crate) programs: Vec<Filter>,
    /// A system call that every start needs and a profile refuses, so that no program can start.
    pub(crate) refused_call: Option<String>,
}

/// Compiles the filters of a policy for the machine's kernel. Reads profiles, so it may block.
pub(crate) fn filters(policy: &Policy, kernel: (u32, u32)) -> Result<Filters, FilterError> {
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
    let options = Options { executable_memfd: ExecutableMemfd::Allowed, tracing: Tracing::Refused };
    let own = match ready(options, architecture) {
        Some(program) => program,
        None => compile(&built_in(options), architecture)?,
    };
    let custom = program_filters(policy, kernel)?;
    let programs = [&own].into_iter().chain(&custom.programs).map(filter).collect();
    Ok(Filters { programs, refused_call: custom.refused_call })
}

fn filter(program: &Program) -> Filter {
    let instructions = program.instructions().iter();
    Filter { instructions: instructions.map(|it| (it.code, it.jt, it.jf, it.k)).collect() }
}
