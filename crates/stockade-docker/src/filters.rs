//! The system-call filters of a container: the engine's, and those that the guest installs in
//! programs.

use stockade_carrier::Filter;
use stockade_hostfiles::{FilterError, program_filters};
use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, ExecutableMemfd, Options, Program, Tracing, built_in, compile, engine_json, ready,
};

/// The filters of one container.
#[derive(Debug)]
pub(crate) struct Filters {
    /// The built-in profile, as the engine reads it.
    pub(crate) engine: String,
    /// The same profile, compiled, and the policy's, in the order of installation.
    pub(crate) programs: Vec<Filter>,
    /// A system call that every start needs and a profile refuses, so that no program can start.
    pub(crate) refused_call: Option<String>,
}

/// Compiles the filters of a policy for a kernel. Reads profiles, so it may block.
pub(crate) fn filters(policy: &Policy, kernel: (u32, u32)) -> Result<Filters, FilterError> {
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
    let options = Options { executable_memfd: ExecutableMemfd::Allowed, tracing: Tracing::Refused };
    let profile = built_in(options);
    let own = match ready(options, architecture) {
        Some(program) => program,
        None => compile(&profile, architecture)?,
    };
    let custom = program_filters(policy, kernel)?;
    Ok(Filters {
        engine: engine_json(&profile, architecture),
        programs: [&own].into_iter().chain(&custom.programs).map(filter).collect(),
        refused_call: custom.refused_call,
    })
}

fn filter(program: &Program) -> Filter {
    let instructions = program.instructions().iter();
    Filter { instructions: instructions.map(|it| (it.code, it.jt, it.jf, it.k)).collect() }
}
