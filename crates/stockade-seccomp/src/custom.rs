//! A profile the user wrote, in the JSON of Docker and OCI.
//!
//! Of older spellings those with the same meaning are read too: `name` with one call in place of
//! `names`, and `val` and `val2` in place of `value` and `valueTwo`.
//!
//! It is read strictly: what is not understood in full is refused with its place, because a rule
//! that is read wrongly is a hole. It only ever runs on top of the built-in profile.

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

/// Why a profile means nothing on a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// It lists its architectures and this one is not among them.
    #[error("the seccomp profile is not for {architecture:?}: it lists only {}", listed.join(", "))]
    OtherArchitecture {
        /// Where it was to be used.
        architecture: Architecture,
        /// What it is for.
        listed: Vec<String>,
    },
}

/// Where a profile is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// The processor.
    pub architecture: Architecture,
    /// The first two numbers of the kernel's version.
    pub kernel: (u32, u32),
}

/// A profile that was read, not yet bound to a host.
///
/// Of several rules that match one call the strictest answers, in whatever order they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomProfile {
    default: Action,
    /// Words of `SCMP_ARCH_*`; none when the profile does not say.
    architectures: Vec<String>,
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl CustomProfile {
    /// The largest text that is read.
    pub const MOST_BYTES: usize = 1 << 20;

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<CustomProfile, ProfileError> {
        decode::profile(text)
    }

    /// What a person should know: names that are not known here, and so stay refused.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The profile as it applies to a host. Inside a sandbox no capability is ever held, so what is
    /// included for one does not apply and what is excluded for one does.
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
struct Entry {
    syscalls: Vec<Syscall>,
    action: Action,
    conditions: Vec<Condition>,
    includes: Selector,
    excludes: Selector,
}

impl Entry {
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

/// When an entry applies, or does not.
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
