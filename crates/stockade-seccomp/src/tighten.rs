//! The built-in profile with one of the user's on top.

use super::{
    Action, Architecture, Call, Carries, CompileError, Profile, Program, compile, forbids_guest,
    forbids_start,
};

/// Why a custom profile cannot be put on top.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TightenError {
    /// Nothing could start under it.
    #[error("the seccomp profile refuses {syscall}, which every program needs to start")]
    ForbidsStart {
        /// The call.
        syscall: &'static str,
    },
    /// The guest could not start or carry anything under it.
    #[error("the seccomp profile refuses {syscall}, which the guest in the sandbox needs")]
    ForbidsGuest {
        /// The call.
        syscall: &'static str,
    },
}

/// The filters of one sandbox. The kernel asks all and keeps the strictest answer, so what one
/// denies no other can allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    built_in: Profile,
    custom: Option<Profile>,
}

impl Filters {
    /// The built-in profile alone.
    pub fn built_in(built_in: Profile) -> Filters {
        Filters { built_in, custom: None }
    }

    /// The programs in the order in which they are installed. The custom one comes last, since it
    /// may refuse seccomp(2) itself.
    pub fn compile(&self, architecture: Architecture) -> Result<Vec<Program>, CompileError> {
        let profiles = std::iter::once(&self.built_in).chain(&self.custom);
        profiles.map(|profile| compile(profile, architecture)).collect()
    }

    /// The answer to a call: the strictest, and of equally strict ones that of the custom profile,
    /// because the kernel asks the newest filter first and only a stricter answer replaces it.
    pub fn evaluate(&self, architecture: Architecture, call: &Call) -> Action {
        let built_in = self.built_in.evaluate(architecture, call);
        match self.custom.as_ref().map(|custom| custom.evaluate(architecture, call)) {
            Some(custom) if custom.rank() <= built_in.rank() => custom,
            _ => built_in,
        }
    }
}

/// Puts a custom profile on top of the built-in one. It can only deny more.
pub fn tighten(built_in: Profile, custom: Profile) -> Result<Filters, TightenError> {
    match forbids_start(&custom) {
        Some(syscall) => Err(TightenError::ForbidsStart { syscall: syscall.name() }),
        None => Ok(Filters { built_in, custom: Some(custom) }),
    }
}

/// Refuses a custom profile under which the guest could not do its work.
pub fn leaves_guest(custom: &Profile, carries: Carries) -> Result<(), TightenError> {
    match forbids_guest(custom, carries) {
        Some(syscall) => Err(TightenError::ForbidsGuest { syscall: syscall.name() }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "tighten_tests.rs"]
mod tests;
