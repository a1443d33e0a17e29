//! What a program was seen to use.

use std::collections::BTreeSet;

use stockade_policy::{Host, Protocol};

/// The most different uses that are kept.
const MAX_LEARNED: usize = 4096;

/// A host that a program reached while its needs were being learned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Learned {
    /// The host, as it was asked for.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// `Web` where a policy without a word about the protocol would have let it pass, else `Tcp`.
    pub protocol: Protocol,
}

/// Every different use, bounded.
#[derive(Debug, Default)]
pub(crate) struct Uses(BTreeSet<Learned>);

impl Uses {
    pub(crate) fn note(&mut self, use_of: Learned) {
        if self.0.len() < MAX_LEARNED {
            self.0.insert(use_of);
        }
    }

    pub(crate) fn list(&self) -> Vec<Learned> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_uses_is_bounded() {
        let mut uses = Uses::default();
        let host = Host::parse("a.example.org").unwrap();
        for port in 1..=u16::MAX {
            uses.note(Learned { host: host.clone(), port, protocol: Protocol::Tcp });
        }
        assert_eq!(uses.list().len(), MAX_LEARNED);
    }
}
