//! What a caller may ask for who must not widen a sandbox: a model behind an MCP client.
//!
//! Policies combine, so that the stricter of each clause holds, and a limit over the maximum
//! becomes the maximum. The result never allows what the arguments of the command do not allow.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stockade_policy::{Limit, Policy, PolicyText};

use crate::{Problem, load};

/// What narrows a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Narrowing {
    /// The policy files of the arguments as they were read once; a file that changes later counts
    /// no more.
    pub(crate) files: Option<Vec<PolicyFile>>,
    /// A policy text of the caller.
    pub(crate) policy: Option<String>,
    /// Limits of the caller.
    pub(crate) limits: Limits,
}

/// A policy file that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyFile {
    name: String,
    text: String,
    base: PathBuf,
}

/// Limits in the units of policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) memory_mb: Option<u64>,
    pub(crate) cpus: Option<f64>,
    pub(crate) timeout_seconds: Option<f64>,
    pub(crate) lifetime_seconds: Option<f64>,
    pub(crate) idle_seconds: Option<f64>,
}

impl PolicyFile {
    /// Reads a policy file.
    pub(crate) fn read(file: &Path) -> anyhow::Result<PolicyFile> {
        let PolicyText { name, bytes, base } = load::text(file)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = format!("the policy in {name} is not UTF-8 text");
            Problem::new(message, "save it as UTF-8")
        })?;
        Ok(PolicyFile { name, text, base })
    }

    pub(super) fn text(&self) -> PolicyText {
        let PolicyFile { name, text, base } = self.clone();
        PolicyText { name, bytes: text.into_bytes(), base }
    }
}

impl Narrowing {
    /// The policy with the caller's restrictions.
    pub(crate) fn narrowed(&self, most: Policy, here: &Path) -> anyhow::Result<Policy> {
        let policy = match &self.policy {
            None => most,
            Some(text) => combined(&most, text, here)?,
        };
        let said = self.limits.said(&policy)?;
        if said.is_empty() {
            return Ok(policy);
        }
        let limits = Policy::parse_str("the limits", &said, here).map_err(|errors| {
            let first = errors.diagnostics().first();
            let remedy = first.map_or("choose a larger value", |first| &first.remedy);
            let why = first.map_or("they make no policy", |first| &first.message);
            Problem::new(format!("a limit cannot be used: {why}"), remedy)
        })?;
        policy.tightened(&limits).map_err(|error| {
            Problem::new(error.to_string(), "leave the limit out, or choose a smaller one").into()
        })
    }
}

/// What both policies allow.
fn combined(most: &Policy, text: &str, here: &Path) -> anyhow::Result<Policy> {
    let text = PolicyText {
        name: "policy".to_owned(),
        bytes: text.as_bytes().to_vec(),
        base: here.to_owned(),
    };
    let asked =
        Policy::parse(&text).map_err(|errors| Problem::refused(&errors, Problem::POLICY_KEYS))?;
    // The wall would open the file on the host, with its path chosen by the caller.
    if !asked.seccomp.is_empty() {
        let message = "a policy of a call cannot name a seccomp profile: it is a file of the host";
        return Err(Problem::new(message, "leave `seccomp` out").into());
    }
    let combined = Policy::combine_all(&[most.clone(), asked]);
    Ok(combined.map_err(|error| Problem::new(error.to_string(), "write a shorter policy"))?)
}

impl Limits {
    /// The limits as a policy text, none over that of the policy; empty without limits.
    fn said(&self, policy: &Policy) -> Result<String, Problem> {
        let asked = [
            (Limit::Memory, self.memory_mb.map(|mebibytes| mebibytes as f64)),
            (Limit::Cpu, self.cpus),
            (Limit::Timeout, self.timeout_seconds.or(self.shorter_timeout(policy))),
            (Limit::Lifetime, self.lifetime_seconds),
            (Limit::Idle, self.idle_seconds),
        ];
        let mut sections = [("defaults", String::new()), ("limits", String::new())];
        for (limit, asked) in asked {
            let Some(asked) = asked else { continue };
            let spec = limit.spec();
            if !asked.is_finite() || asked <= 0.0 {
                let message = format!("the limit {} must be more than 0, not {asked}", spec.key);
                return Err(Problem::new(message, "leave it out for the limit of the server"));
            }
            // Saturates: a larger value is over every maximum.
            let stored = (asked * spec.unit.scale() as f64).ceil() as u64;
            let held = stored.min(policy.limits.value(limit).unwrap_or(spec.max));
            for (section, lines) in &mut sections {
                if *section == spec.section {
                    lines.push_str(&format!("  {}: {}\n", spec.key, spec.unit.write(held)));
                }
            }
        }
        let written = sections.iter().filter(|(_, lines)| !lines.is_empty());
        Ok(written.map(|(section, lines)| format!("{section}:\n{lines}")).collect())
    }

    /// A program cannot run longer than its session.
    fn shorter_timeout(&self, policy: &Policy) -> Option<f64> {
        let held = policy.limits.value(Limit::Timeout)?;
        let held = held as f64 / Limit::Timeout.spec().unit.scale() as f64;
        self.lifetime_seconds.filter(|lifetime| *lifetime < held)
    }
}

#[cfg(test)]
mod tests {
    use stockade_policy::{Access, GuestPath, Host, parse_host_port};

    use super::*;

    fn host(name: &str) -> Host {
        parse_host_port(name).unwrap().0
    }

    fn policy(text: &str) -> Policy {
        Policy::parse_str("most", text, Path::new("/srv")).unwrap()
    }

    const MOST: &str = "{name: most, defaults: {max_memory_mb: 256, timeout_seconds: 20}, \
                        network_allowlist: [a.test, b.test], filesystem: {read: [/data]}}";

    fn narrowed(narrowing: &Narrowing) -> Policy {
        narrowing.narrowed(policy(MOST), Path::new("/srv")).unwrap()
    }

    #[test]
    fn no_text_and_no_limit_widens_the_maximum() {
        let wide = "{isolation: process, defaults: {max_memory_mb: 4096, timeout_seconds: 900, \
                     network_default: allow}, network_allowlist: ['*'], \
                     filesystem: {read: [/opt, /data], write: [/srv/x]}, tool_allowlist: [all]}";
        let limits = Limits {
            memory_mb: Some(u64::MAX),
            cpus: Some(1e300),
            timeout_seconds: Some(1e9),
            lifetime_seconds: Some(1e12),
            idle_seconds: Some(1e12),
        };
        for text in [None, Some(wide.replace("'*'", "c.test")), Some("{}".to_owned())] {
            let narrowing = Narrowing { files: None, policy: text, limits: limits.clone() };
            assert_eq!(narrowed(&narrowing).widenings(&policy(MOST)), []);
        }
    }

    #[test]
    fn text_and_limits_narrow_each_clause() {
        let narrowing = Narrowing {
            policy: Some("{network_allowlist: [a.test]}".to_owned()),
            limits: Limits {
                memory_mb: Some(64),
                lifetime_seconds: Some(5.0),
                ..Limits::default()
            },
            files: None,
        };
        let narrow = narrowed(&narrowing);
        assert_eq!(narrow.limits.value(Limit::Memory), Some(64));
        assert_eq!(narrow.limits.value(Limit::Timeout), Some(5000));
        assert_eq!(narrow.limits.value(Limit::Lifetime), Some(5000));
        for (policy, expected) in
            [(&policy(MOST), [true, true, true]), (&narrow, [true, false, false])]
        {
            let allowed = [
                policy.judge_host(&host("a.test"), 443),
                policy.judge_host(&host("b.test"), 443),
                policy.judge_path(&GuestPath::parse("/data/x").unwrap(), Access::Read),
            ];
            assert_eq!(allowed.map(|verdict| verdict.allows()), expected, "{}", policy.to_yaml());
        }
    }

    #[test]
    fn text_cannot_name_a_file_of_the_host_and_limits_must_be_positive() {
        let seccomp =
            Narrowing { policy: Some("seccomp: ./x.json".to_owned()), ..Narrowing::default() };
        let error = seccomp.narrowed(policy(MOST), Path::new("/srv")).unwrap_err();
        assert!(error.to_string().contains("seccomp"), "{error}");
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let limits = Limits { cpus: Some(wrong), ..Limits::default() };
            let error = Narrowing { limits, ..Narrowing::default() };
            assert!(error.narrowed(policy(MOST), Path::new("/srv")).is_err(), "{wrong}");
        }
    }
}
