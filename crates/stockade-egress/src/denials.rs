//! What was refused, without repetitions and bounded.

use std::collections::BTreeSet;

use stockade_policy::{Denial, Limit};

/// The most different denials that are kept.
const MAX_DENIALS: usize = 256;

/// What a gate saw so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Refusals, each once, in the order of their first time.
    pub denials: Vec<Denial>,
    /// How many more different or repeated ones there were after the list was full.
    pub dropped_denials: u64,
    /// Limits that refused or slowed something: connections, bytes, rate.
    pub limits_hit: BTreeSet<Limit>,
}

impl Observed {
    /// Keeps a denial unless the same was kept before.
    pub(crate) fn note(&mut self, denial: &Denial) {
        let same = |held: &Denial| {
            (&held.control, &held.target, &held.why)
                == (&denial.control, &denial.target, &denial.why)
        };
        if self.denials.iter().any(same) {
            return;
        }
        if self.denials.len() < MAX_DENIALS {
            self.denials.push(denial.clone());
        } else {
            self.dropped_denials = self.dropped_denials.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(target: usize) -> Denial {
        Denial {
            control: "network_hosts".into(),
            rule: "r".to_owned(),
            target: target.to_string(),
            why: "w".to_owned(),
            how_to_allow: "h".to_owned(),
        }
    }

    #[test]
    fn repetitions_are_kept_once_and_the_rest_is_counted() {
        let mut observed = Observed::default();
        for target in (0..300).chain(0..200) {
            observed.note(&denial(target));
        }
        assert_eq!(observed.denials.len(), MAX_DENIALS);
        assert_eq!(observed.denials[255], denial(255));
        assert_eq!(observed.dropped_denials, 44);
    }
}
