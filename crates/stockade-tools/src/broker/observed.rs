//! Denials, deduplicated and bounded.

use std::collections::BTreeSet;

use stockade_policy::{Denial, Limit};

/// The most distinct denials that are kept.
const MAX_DENIALS: usize = 256;

/// What the tool broker has observed so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Denials, each once, in the order of their first occurrence.
    pub denials: Vec<Denial>,
    /// How many denials came after the list was full.
    pub dropped_denials: u64,
    /// Limits that calls reached.
    pub limits_hit: BTreeSet<Limit>,
    /// Calls that were recorded, with any outcome.
    pub calls: u64,
}

impl Observed {
    /// Keeps a denial unless an equal one is kept already.
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
