//! The system-call filters of a container: the engine's, and those that the guest installs in
//! programs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use stockade_carrier::Filter;
use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, CustomProfile, ExecutableMemfd, Host, Options, Profile, Program, Syscall,
    Tracing, built_in, compile, engine_json, forbids_start, is_forbidden, ready,
};

use crate::DockerError;

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
pub(crate) fn filters(policy: &Policy, kernel: (u32, u32)) -> Result<Filters, DockerError> {
    let architecture = Architecture::native().ok_or(DockerError::NoGuest)?;
    let options = Options { executable_memfd: ExecutableMemfd::Allowed, tracing: Tracing::Refused };
    let profile = built_in(options);
    let own = match ready(options, architecture) {
        Some(program) => program,
        None => compile(&profile, architecture)?,
    };
    let host = Host { architecture, kernel };
    let custom = policy.seccomp.iter().map(|profile| custom(&profile.value, host));
    let mut custom = custom.collect::<Result<Vec<_>, _>>()?;
    // Each filter is installed under those before it, so one that refuses seccomp(2) comes last.
    let install = Syscall::named("seccomp");
    let refuses = |profile: &Profile| install.is_some_and(|call| is_forbidden(profile, call));
    custom.sort_by_key(refuses);
    let forbidden = custom.iter().find_map(|profile| forbids_start(profile, architecture));
    let refused = forbidden.or(match custom.iter().filter(|one| refuses(one)).count() {
        0 | 1 => None,
        _ => install,
    });
    let mut programs = vec![filter(&own)];
    for profile in &custom {
        programs.push(filter(&compile(profile, architecture)?));
    }
    Ok(Filters {
        engine: engine_json(&profile, architecture),
        programs,
        refused_call: refused.map(|call| call.name().to_owned()),
    })
}

fn filter(program: &Program) -> Filter {
    let instructions = program.instructions().iter();
    Filter { instructions: instructions.map(|it| (it.code, it.jt, it.jf, it.k)).collect() }
}

fn custom(path: &Path, host: Host) -> Result<Profile, DockerError> {
    let text =
        read(path).map_err(|source| DockerError::ReadProfile { path: path.to_owned(), source })?;
    let profile = CustomProfile::parse(&text)
        .map_err(|source| DockerError::Profile { path: path.to_owned(), source })?;
    profile
        .resolve(host)
        .map_err(|source| DockerError::ForeignProfile { path: path.to_owned(), source })
}

/// Reads one byte more than the parser accepts, so that the parser rejects a longer file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CustomProfile::MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
