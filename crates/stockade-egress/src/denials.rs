//! Denials, deduplicated and bounded.

use std::collections::BTreeSet;

use stockade_policy::{Denial, Limit};

/// The most distinct denials that are kept.
const MAX_DENIALS: usize = 256;

/// What a gate has observed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Denials, each once, in the order of their first occurrence.
    pub denials: Vec<Denial>,
    /// How many denials came after the list was full, repetitions included.
    pub dropped_denials: u64,
    /// Limits that refused or slowed something: connections, bytes, rate.
    pub limits_hit: BTreeSet<Limit>,
}

impl Observed {
    /// Keeps a denial unless an equal one is kept already.
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
    fn repeated_denials_are_kept_once_and_counted_when_full() {
        let mut observed = Observed::default();
        for target in (0..300).chain(0..200) {
            observed.note(&denial(target));
        }
        assert_eq!(observed.denials.len(), MAX_DENIALS);
        assert_eq!(observed.denials[255], denial(255));
        assert_eq!(observed.dropped_denials, 44);
    }
}
