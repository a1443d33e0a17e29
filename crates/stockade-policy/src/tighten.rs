//! Tightening a policy with smaller limits and a higher isolation floor, such as command line
//! flags.

use crate::limits::{LIMITS, Limit, LimitSpec};
use crate::policy::{Isolation, Policy};

/// The tightening policy is wider than the policy in some clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TightenError {
    /// A larger limit.
    #[error("{asked} is more than the {held} that the policy sets by {path}",
        asked = written(limit.spec(), *.asked), held = written(limit.spec(), *.held),
        path = limit.spec().path())]
    Limit {
        /// Which limit.
        limit: Limit,
        /// The requested value, in stored units.
        asked: u64,
        /// The policy's value, in stored units.
        held: u64,
    },
    /// A lower isolation floor.
    #[error("{} is weaker than the isolation {} that the policy requires", .asked.as_str(), .held.as_str())]
    Floor {
        /// The requested floor.
        asked: Isolation,
        /// The policy's floor.
        held: Isolation,
    },
}

impl Policy {
    /// This policy with the limits and the isolation floor that `caller` sets explicitly, and
    /// nothing else of it. A smaller memory limit also reduces the disk limit to half of it, unless
    /// `caller` sets both.
    pub fn tightened(&self, caller: &Policy) -> Result<Policy, TightenError> {
        let mut tight = self.clone();
        if caller.isolation.basis.origin().is_some() {
            let (asked, held) = (caller.isolation.value, self.isolation.value);
            if asked < held {
                return Err(TightenError::Floor { asked, held });
            }
            tight.isolation = caller.isolation.clone();
        }
        for LimitSpec { limit, .. } in &LIMITS {
            let Some(asked) = caller.limits.get(*limit) else { continue };
            let is_said = asked.basis.origin().is_some();
            let follows = *limit == Limit::Disk
                && caller.limits.basis(Limit::Memory).is_some_and(|basis| basis.origin().is_some());
            let held = self.limits.value(*limit);
            match held {
                Some(held) if is_said && asked.value > held => {
                    return Err(TightenError::Limit { limit: *limit, asked: asked.value, held });
                }
                Some(held) if asked.value >= held => {}
                _ if is_said || follows => tight.limits.set(*limit, asked.clone()),
                _ => {}
            }
        }
        Ok(tight)
    }
}

fn written(spec: &LimitSpec, held: u64) -> String {
    format!("{} {}", spec.unit.write(held), spec.unit.as_str()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::parse_str("p", text, Path::new("/srv")).unwrap()
    }

    const WIDE: &str = "{defaults: {max_memory_mb: 2048, timeout_seconds: 90}, \
         filesystem: {read: [/data]}, environment: {LANG: C}, tool_allowlist: [t]}";

    #[test]
    fn only_explicit_limits_become_smaller() {
        let tight = policy(WIDE).tightened(&policy("defaults: {timeout_seconds: 5}")).unwrap();
        let mut expected = policy(WIDE);
        expected.limits.set(Limit::Timeout, crate::Sourced::built_in(5000, "test"));
        assert_eq!(tight, expected);
    }

    #[test]
    fn smaller_memory_also_reduces_the_disk_limit() {
        let tight = policy(WIDE).tightened(&policy("defaults: {max_memory_mb: 64}")).unwrap();
        assert_eq!(tight.limits.value(Limit::Memory), Some(64));
        assert_eq!(tight.limits.value(Limit::Disk), Some(32));
        let same = policy(WIDE).tightened(&policy("defaults: {max_memory_mb: 2048}")).unwrap();
        assert_eq!(same, policy(WIDE));
    }

    #[test]
    fn wider_limit_is_refused_naming_both() {
        let error = policy(WIDE).tightened(&policy("defaults: {timeout_seconds: 91}")).unwrap_err();
        let expected = "91 seconds is more than the 90 seconds that the policy sets by defaults.timeout_seconds";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn floor_rises_and_never_falls() {
        let container = policy("isolation: container");
        let vm = container.tightened(&policy("isolation: vm")).unwrap();
        assert_eq!(vm.isolation.value, Isolation::Vm);
        let error = container.tightened(&policy("isolation: process")).unwrap_err();
        let (asked, held) = (Isolation::Process, Isolation::Container);
        assert_eq!(error, TightenError::Floor { asked, held });
        assert_eq!(container.tightened(&policy("{}")).unwrap(), container);
    }

    #[test]
    fn tightened_policy_is_never_wider_than_the_policy() {
        let caller = policy("{isolation: vm, defaults: {max_cpu: 0.5}, limits: {max_pids: 3}}");
        let tight = policy(WIDE).tightened(&caller).unwrap();
        assert_eq!(tight.widenings(&policy(WIDE)), []);
    }
}
