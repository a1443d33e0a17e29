//! The seccomp profiles of a policy, read and compiled for programs.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stockade_policy::Policy;
use stockade_seccomp::{
    Architecture, CompileError, CustomProfile, Host, Profile, ProfileError, Program, ResolveError,
    Syscall, compile, forbids_start, is_forbidden,
};

/// The filters of a policy.
#[derive(Clone, Debug, Default)]
pub struct ProgramFilters {
    /// In the order of installation.
    pub programs: Vec<Program>,
    /// A system call that every start needs and a profile refuses, so that no program can start.
    pub refused_call: Option<String>,
}

/// A system-call filter cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// A seccomp profile cannot be read.
    #[error("cannot read the seccomp profile {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A file is not a valid seccomp profile.
    #[error("the seccomp profile {} is not understood", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: ProfileError,
    },
    /// A seccomp profile does not support this machine's architecture.
    #[error("cannot use the seccomp profile {}", path.display())]
    ForeignProfile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ResolveError,
    },
    /// Stockade has no filter for this architecture.
    #[error("no system-call filter is known for this processor")]
    ForeignMachine,
    /// A seccomp profile is too large for the kernel.
    #[error("cannot compile the system-call filter")]
    Compile {
        /// Why.
        #[from]
        source: CompileError,
    },
}

impl FilterError {
    /// What to do.
    pub fn remedy(&self) -> String {
        match self {
            FilterError::Read { .. } => "check the path and its permissions".to_owned(),
            FilterError::Profile { source, .. } => source.remedy.clone(),
            FilterError::ForeignProfile { .. } => {
                "add this machine's architecture to it".to_owned()
            }
            FilterError::ForeignMachine => "use x86_64 or aarch64".to_owned(),
            FilterError::Compile { .. } => "use a profile with fewer rules".to_owned(),
        }
    }
}

/// Compiles the profiles of a policy for a kernel. Reads files, so it may block.
pub fn program_filters(policy: &Policy, kernel: (u32, u32)) -> Result<ProgramFilters, FilterError> {
    let architecture = Architecture::native().ok_or(FilterError::ForeignMachine)?;
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
    let programs = profiles.iter().map(|profile| compile(profile, architecture));
    Ok(ProgramFilters {
        programs: programs.collect::<Result<_, _>>()?,
        refused_call: refused.map(|call| call.name().to_owned()),
    })
}

fn custom(path: &Path, host: Host) -> Result<Profile, FilterError> {
    let path = || path.to_owned();
    let text = read(&path()).map_err(|source| FilterError::Read { path: path(), source })?;
    let profile = CustomProfile::parse(&text)
        .map_err(|source| FilterError::Profile { path: path(), source })?;
    profile.resolve(host).map_err(|source| FilterError::ForeignProfile { path: path(), source })
}

/// Reads one byte more than the parser accepts, so that the parser rejects a longer file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(CustomProfile::MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
