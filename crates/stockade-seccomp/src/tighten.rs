//! The built-in profile with one of the user's on top.

use super::{Action, Architecture, Call, CompileError, Profile, Program, compile};

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
pub fn tighten(built_in: Profile, custom: Profile) -> Filters {
    Filters { built_in, custom: Some(custom) }
}

#[cfg(test)]
#[path = "tighten_tests.rs"]
mod tests;
