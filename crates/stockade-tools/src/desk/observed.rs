//! What was refused, without repetitions and bounded.

use std::collections::BTreeSet;

use stockade_policy::{Denial, Limit};

/// The most different denials that are kept.
const MAX_DENIALS: usize = 256;

/// What a desk saw so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Refusals, each once, in the order of their first time.
    pub denials: Vec<Denial>,
    /// How many more there were after the list was full.
    pub dropped_denials: u64,
    /// Limits of calls that were met.
    pub limits_hit: BTreeSet<Limit>,
    /// Calls that were told to the record, however they ended.
    pub calls: u64,
}

impl Observed {
    /// Keeps a denial unless the same was kept before.
    pub(super) fn note(&mut self, denial: &Denial) {
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
