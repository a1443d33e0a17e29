//! A fixed table of names and addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use futures_core::future::BoxFuture;
use stockade_policy::{Host, HostName};

use super::{Resolve, ResolveError, Resolved};

/// A resolver without name servers. A name can have several answers, which are returned one after
/// the other; the last one repeats.
#[derive(Debug, Default)]
pub struct FixedNames {
    answers: Mutex<HashMap<HostName, Vec<Resolved>>>,
}

impl FixedNames {
    /// Adds an answer for a name. Ignores an invalid name.
    pub fn answer(self, name: &str, addresses: &[IpAddr], aliases: &[&str]) -> FixedNames {
        let name_of = |text: &str| match Host::parse(text) {
            Ok(Host::Name(name)) => Some(name),
            Ok(Host::Address(_)) | Err(_) => None,
        };
        if let Some(name) = name_of(name) {
            let aliases = aliases.iter().filter_map(|alias| name_of(alias)).collect();
            let resolved = Resolved { addresses: addresses.to_vec(), aliases };
            let mut answers = self.answers.lock().unwrap_or_else(|held| held.into_inner());
            answers.entry(name).or_default().push(resolved);
        }
        self
    }
}

impl Resolve for FixedNames {
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, Result<Resolved, ResolveError>> {
        let mut answers = self.answers.lock().unwrap_or_else(|held| held.into_inner());
        let answer = match answers.get_mut(name) {
            Some(left) if left.len() > 1 => Some(left.remove(0)),
            Some(left) => left.first().cloned(),
            None => None,
        };
        let answer = answer.ok_or_else(|| ResolveError::Unknown { name: name.clone() });
        Box::pin(async move { answer })
    }
}
