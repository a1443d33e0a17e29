//! Combining policies: takes the stricter of each clause, so that the result never allows what one
//! of them denies.

use crate::paths::GuestPath;
use std::path::Path;

use crate::pattern::HostPattern;
use crate::policy::{MAX_GATES, MAX_NAME_CHARS, Mount, Policy, Secret, Workspace};
use crate::rules::{MAX_REGEX_TOTAL, MAX_REGEXES};
use crate::source::Sourced;

/// Why policies cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// There is no policy to combine.
    #[error("no policy was given")]
    None,
    /// More gates than one policy text can contain.
    #[error("more than {MAX_GATES} different policies were combined")]
    TooManyGates,
    /// More entries of some kind than one policy text can contain.
    #[error("the combined policies are larger than one policy may be")]
    TooLarge,
    /// More regular expressions than one policy text can contain.
    #[error("the combined policies have too many or too large regular expressions")]
    TooManyRegexes,
}

impl Policy {
    /// The policy that allows what all of them allow, small enough to be printed and parsed again.
    pub fn combine_all(policies: &[Policy]) -> Result<Policy, CombineError> {
        let (first, rest) = policies.split_first().ok_or(CombineError::None)?;
        let combined = rest.iter().fold(first.clone(), |before, next| before.combine(next));
        let rules = combined.gates.iter().flat_map(|gate| &gate.code.rules);
        let sizes = rules.map(|rule| rule.condition.regex_bytes()).filter(|bytes| *bytes > 0);
        let (regexes, bytes) = sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size));
        let is_readable = |policy: &Policy| {
            Policy::parse_str("combined", &policy.to_yaml(), Path::new("/")).is_ok()
        };
        if combined.gates.len() > MAX_GATES {
            Err(CombineError::TooManyGates)
        } else if regexes > MAX_REGEXES || bytes > MAX_REGEX_TOTAL {
            Err(CombineError::TooManyRegexes)
        } else if !rest.is_empty() && !is_readable(&combined) {
            Err(CombineError::TooLarge)
        } else {
            Ok(combined)
        }
    }

    /// The policy that allows what both allow.
    pub fn combine(&self, other: &Policy) -> Policy {
        let mounts = mounts(self, other);
        Policy {
            name: join(&self.name, &other.name, " + ").chars().take(MAX_NAME_CHARS).collect(),
            description: join(&self.description, &other.description, "\n"),
            isolation: if other.isolation.value > self.isolation.value {
                other.isolation.clone()
            } else {
                self.isolation.clone()
            },
            limits: self.limits.narrow(&other.limits),
            hide: hide(self, other, &mounts),
            mounts,
            workspace: workspace(&self.workspace, &other.workspace),
            files_exact: if self.files_exact.value {
                self.files_exact.clone()
            } else {
                other.files_exact.clone()
            },
            gates: union(&self.gates, &other.gates),
            network_blocklist: union(&self.network_blocklist, &other.network_blocklist),
            secrets: secrets(&self.secrets, &other.secrets),
            tools: Sourced {
                value: common(&self.tools.value, &other.tools.value),
                basis: self.tools.basis.clone(),
            },
            tool_arguments: if other.tool_arguments.value < self.tool_arguments.value {
                other.tool_arguments.clone()
            } else {
                self.tool_arguments.clone()
            },
            commands: commands(self.commands.as_ref(), other.commands.as_ref()),
            environment: common(&self.environment, &other.environment),
            seccomp: union(&self.seccomp, &other.seccomp),
        }
    }
}

fn join(first: &str, second: &str, between: &str) -> String {
    match (first, second) {
        (one, "") | ("", one) => one.to_owned(),
        (one, same) if one == same => one.to_owned(),
        (one, two) => format!("{one}{between}{two}"),
    }
}

/// The entries that both lists contain.
fn common<T: Clone + PartialEq>(first: &[T], second: &[T]) -> Vec<T> {
    first.iter().filter(|item| second.contains(item)).cloned().collect()
}

/// The entries that either list contains.
fn union<T: Clone + PartialEq>(first: &[T], second: &[T]) -> Vec<T> {
    let new = second.iter().filter(|item| !first.contains(item));
    first.iter().chain(new).cloned().collect()
}

type Commands = Sourced<Vec<Sourced<String>>>;

fn commands(first: Option<&Commands>, second: Option<&Commands>) -> Option<Commands> {
    match (first, second) {
        (Some(first), Some(second)) => {
            let value = first
                .value
                .iter()
                .filter(|entry| second.value.contains(entry))
                .cloned()
                .collect::<Vec<_>>();
            Some(Sourced { value, basis: first.basis.clone() })
        }
        (one, other) => one.or(other).cloned(),
    }
}

/// The host files that are visible under both: for each pair where one contains the other at the
/// same place, the inner one with the weaker access.
fn mounts(first: &Policy, second: &Policy) -> Vec<Mount> {
    let mut found: Vec<Mount> = Vec::new();
    for one in &first.mounts {
        for two in &second.mounts {
            let inner = if contains(one, two) {
                two
            } else if contains(two, one) {
                one
            } else {
                continue;
            };
            let access = one.access.min(two.access);
            let mount = Mount { access, ..inner.clone() };
            if shows(first, &mount) && shows(second, &mount) {
                match found.iter_mut().find(|other| other.guest == mount.guest) {
                    // Both policies show the same files, so the access is what both allow.
                    Some(other) => other.access = other.access.max(access),
                    None => found.push(mount),
                }
            }
        }
    }
    found.sort_by(|a, b| a.guest.cmp(&b.guest));
    found
}

/// Whether `inner` shows part of what `outer` shows, at the same place inside.
fn contains(outer: &Mount, inner: &Mount) -> bool {
    inner.guest.below(&outer.guest).is_some_and(|rest| {
        if rest.is_empty() { outer.host == inner.host } else { outer.host.join(rest) == inner.host }
    })
}

/// Whether a policy shows the same files at this place, with enough access.
fn shows(policy: &Policy, mount: &Mount) -> bool {
    let at = policy.mounts.iter().filter(|outer| mount.guest.below(&outer.guest).is_some());
    let Some(deepest) = at.max_by_key(|outer| outer.guest.as_str().len()) else { return false };
    let hidden = policy.hide.iter().any(|hide| {
        mount.guest.below(&hide.value).is_some() && deepest.guest.below(&hide.value).is_none()
    });
    !hidden && contains(deepest, mount) && deepest.access >= mount.access
}

/// The paths that either hides, and the mount points that only one has: files below such a mount
/// must not become visible.
fn hide(first: &Policy, second: &Policy, mounts: &[Mount]) -> Vec<Sourced<GuestPath>> {
    let mut hidden = union(&first.hide, &second.hide);
    for mount in first.mounts.iter().chain(&second.mounts) {
        let kept = mounts.iter().any(|kept| kept.guest == mount.guest);
        if !kept && !hidden.iter().any(|hide| hide.value == mount.guest) {
            hidden.push(Sourced { value: mount.guest.clone(), basis: mount.basis.clone() });
        }
    }
    hidden.retain(|hide| !mounts.iter().any(|mount| mount.guest == hide.value));
    hidden.sort_by(|a, b| a.value.cmp(&b.value));
    hidden
}

fn workspace(first: &Sourced<Workspace>, second: &Sourced<Workspace>) -> Sourced<Workspace> {
    use crate::policy::WorkspaceMode::Read;
    let nothing = || Sourced::built_in(Workspace::Nothing, "the policies share no workspace");
    match (&first.value, &second.value) {
        (Workspace::Nothing, _) => first.clone(),
        (_, Workspace::Nothing) => second.clone(),
        (Workspace::Scratch, Workspace::Host { mode: Read, .. })
        | (Workspace::Host { mode: Read, .. }, Workspace::Scratch) => nothing(),
        (Workspace::Scratch, _) => first.clone(),
        (_, Workspace::Scratch) => second.clone(),
        (Workspace::Host { host: one, mode: a }, Workspace::Host { host: two, mode: b }) => {
            if one != two {
                nothing()
            } else if b < a {
                second.clone()
            } else {
                first.clone()
            }
        }
    }
}

/// The secrets that both define, sent only to hosts that both name.
fn secrets(first: &[Secret], second: &[Secret]) -> Vec<Secret> {
    let mut found = Vec::new();
    for one in first {
        let twin = second
            .iter()
            .find(|two| one.name == two.name && one.from == two.from && one.place == two.place);
        let Some(two) = twin else { continue };
        let mut hosts: Vec<HostPattern> = Vec::new();
        for host in one.hosts.iter().flat_map(|a| two.hosts.iter().filter_map(|b| a.intersect(b))) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts.sort();
        if !hosts.is_empty() {
            found.push(Secret { hosts, ..one.clone() });
        }
    }
    found
}

#[cfg(test)]
#[path = "combine_tests.rs"]
mod tests;
