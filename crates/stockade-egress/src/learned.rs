//! The hosts that a program used.

use std::collections::BTreeSet;

use stockade_policy::{Host, Method, Protocol, UrlPath};

/// The most distinct uses that are kept.
const MAX_LEARNED: usize = 4096;

/// A host that a program reached while the gate was learning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Learned {
    /// The host, as requested.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// `Web` if an entry without `protocol` would have allowed it, otherwise `Tcp`; or the protocol
    /// of the entry that did allow it.
    pub protocol: Protocol,
    /// The method and path, if the gate read the request and a rule can judge it.
    pub request: Option<(Method, UrlPath)>,
}

/// Every distinct use, bounded.
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
            let (host, protocol) = (host.clone(), Protocol::Tcp);
            uses.note(Learned { host, port, protocol, request: None });
        }
        assert_eq!(uses.list().len(), MAX_LEARNED);
    }
}
