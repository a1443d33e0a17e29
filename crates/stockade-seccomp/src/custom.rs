//! A profile that the user wrote, in the JSON format of Docker and OCI.
//!
//! Also accepts older spellings with the same meaning: `name` with one call instead of `names`, and
//! `val` and `val2` instead of `value` and `valueTwo`.
//!
//! The parser is strict: it refuses everything that it does not fully understand, with the
//! position, because a misread rule is a security hole. A custom profile is only used on top of the
//! built-in one.

mod action;
mod decode;
mod json;
mod words;

use std::collections::BTreeMap;

use super::{Action, Architecture, Condition, Profile, Rule, Syscall};

/// Why a text is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}; {remedy}")]
#[non_exhaustive]
pub struct ProfileError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

/// Why a profile cannot be used on a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// It lists its architectures without this one.
    #[error("the seccomp profile is not for {architecture:?}: it lists only {}", listed.join(", "))]
    OtherArchitecture {
        /// The architecture of the host.
        architecture: Architecture,
        /// The listed architectures.
        listed: Vec<String>,
    },
}

/// The host on which a profile is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The processor.
    pub architecture: Architecture,
    /// The major and minor version of the kernel.
    pub kernel: (u32, u32),
}

/// A parsed profile, not yet resolved for a host.
///
/// If several rules match a call, the strictest one applies, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomProfile {
    default: Action,
    /// Words of `SCMP_ARCH_*`; empty if the profile lists none.
    architectures: Vec<String>,
    entries: Vec<SyscallEntry>,
    notes: Vec<String>,
}

impl CustomProfile {
    /// The maximum size of the text.
    pub const MOST_BYTES: usize = 1 << 20;

    /// Parses a profile.
    pub fn parse(text: &str) -> Result<CustomProfile, ProfileError> {
        decode::profile(text)
    }

    /// Notes for the user: unknown names, whose calls stay refused.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The profile for a host. A sandbox never has a capability, so entries included for one do not
    /// apply and entries excluded for one do.
    pub fn resolve(&self, host: Host) -> Result<Profile, ResolveError> {
        let own = [words::architecture(host.architecture), "SCMP_ARCH_NATIVE"];
        let is_own = |one: &String| own.contains(&one.as_str());
        if !self.architectures.is_empty() && !self.architectures.iter().any(is_own) {
            let listed = self.architectures.clone();
            return Err(ResolveError::OtherArchitecture {
                architecture: host.architecture,
                listed,
            });
        }
        let mut rules: BTreeMap<Syscall, Vec<Rule>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.applies(host)) {
            for syscall in &entry.syscalls {
                let rule = Rule { conditions: entry.conditions.clone(), action: entry.action };
                rules.entry(*syscall).or_default().push(rule);
            }
        }
        for rules in rules.values_mut() {
            rules.sort_by_key(|rule| rule.action.rank());
        }
        Ok(Profile { default: self.default, rules })
    }
}

/// One element of `syscalls`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SyscallEntry {
    syscalls: Vec<Syscall>,
    action: Action,
    conditions: Vec<Condition>,
    includes: Selector,
    excludes: Selector,
}

impl SyscallEntry {
    fn applies(&self, host: Host) -> bool {
        let Selector { has_capabilities, architectures, kernel } = &self.includes;
        let own = words::container_architecture(host.architecture);
        let included = !has_capabilities
            && (architectures.is_empty() || architectures.iter().any(|one| one == own))
            && kernel.is_none_or(|least| host.kernel >= least);
        let excluded = self.excludes.architectures.iter().any(|one| one == own)
            || self.excludes.kernel.is_some_and(|least| host.kernel >= least);
        included && !excluded
    }
}

/// The conditions under which an entry applies, or does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selector {
    has_capabilities: bool,
    architectures: Vec<String>,
    kernel: Option<(u32, u32)>,
}

#[cfg(test)]
#[path = "custom_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "custom_spelling_tests.rs"]
mod spelling_tests;
