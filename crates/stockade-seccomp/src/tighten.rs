//! The built-in profile with a custom one on top.

use super::{Action, Architecture, Call, CompileError, Profile, Program, compile};

/// The filters of one sandbox. The kernel runs all and applies the strictest result, so no filter
/// can allow what another denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    built_in: Profile,
    custom: Option<Profile>,
}

impl Filters {
    /// Only the built-in profile.
    pub fn built_in(built_in: Profile) -> Filters {
        Filters { built_in, custom: None }
    }

    /// The programs in the order of installation. The custom one is last, since it may refuse
    /// seccomp(2) itself.
    pub fn compile(&self, architecture: Architecture) -> Result<Vec<Program>, CompileError> {
        let profiles = std::iter::once(&self.built_in).chain(&self.custom);
        profiles.map(|profile| compile(profile, architecture)).collect()
    }

    /// The action for a call: the strictest; of equally strict ones that of the custom profile,
    /// because the kernel runs the newest filter first and only a stricter result replaces it.
    pub fn evaluate(&self, architecture: Architecture, call: &Call) -> Action {
        let built_in = self.built_in.evaluate(architecture, call);
        match self.custom.as_ref().map(|custom| custom.evaluate(architecture, call)) {
            Some(custom) if custom.rank() <= built_in.rank() => custom,
            _ => built_in,
        }
    }
}

/// Adds a custom profile on top of the built-in one. It can only deny more.
pub fn tighten(built_in: Profile, custom: Profile) -> Filters {
    Filters { built_in, custom: Some(custom) }
}

#[cfg(test)]
#[path = "tighten_tests.rs"]
mod tests;
