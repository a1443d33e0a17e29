//! Secrets: values that only the gate has. Programs inside have placeholders, which the gate
//! replaces in one named place of requests to the bound hosts, and nowhere else.

mod needles;
mod place;
mod placeholder;
mod reading;
mod screen;
mod source;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::AhoCorasick;
use stockade_policy::{Basis, Control, Denial, Host, HostPattern, Policy, SecretPlace};
use zeroize::Zeroizing;

use self::needles::{Needles, searcher};
pub(crate) use self::place::place_all;
pub(crate) use self::screen::{Misplaced, Screen};

/// The shortest and the longest value. A shorter one cannot be found reliably in what a server
/// sends back.
const MIN_BYTES: usize = 8;
const MAX_BYTES: usize = 4096;
/// How many replaced values of one secret are still redacted.
const MAX_OLD: usize = 8;

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The source has no value.
    #[error("cannot read the secret {name} from {from}: {why}")]
    Source {
        /// The secret.
        name: String,
        /// Its source.
        from: String,
        /// Why, without the value.
        why: String,
    },
    /// The value cannot be sent or searched for.
    #[error("the value of the secret {name} cannot be used: {why}")]
    Value {
        /// The secret.
        name: String,
        /// Why, without the value.
        why: String,
    },
    /// The session has no such secret.
    #[error("this session has no secret {name}; its policy defines: {known}")]
    Unknown {
        /// The secret.
        name: String,
        /// The names of the session's secrets.
        known: String,
    },
    /// There is not enough randomness for a placeholder.
    #[error("cannot make a placeholder for the secret {name}: the system gives no random bytes")]
    Randomness {
        /// The secret.
        name: String,
    },
}

impl SecretError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            SecretError::Source { .. } => "set the source of the secret, or leave the secret out",
            SecretError::Value { .. } => {
                "use a key of 8 to 4096 visible ASCII characters, or pass the value in with \
                 --env-secret NAME if the program may read it"
            }
            SecretError::Unknown { .. } => "name a secret of the session's policy",
            SecretError::Randomness { .. } => "see that /dev/urandom can be read",
        }
    }
}

/// The secrets of one session. Clones share them.
#[derive(Clone, Default)]
pub struct Secrets {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    bound: Vec<Bound>,
    /// Finds placeholders; each belongs to the secret with the same index.
    placeholders: Arc<Needles>,
    values: RwLock<Values>,
}

/// One secret without its value.
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) place: SecretPlace,
    pub(crate) placeholder: String,
    hosts: Vec<HostPattern>,
    basis: Basis,
}

struct Values {
    /// The current values, by the index of their secret.
    current: Vec<Arc<Zeroizing<String>>>,
    /// Values that were replaced.
    old: Vec<(usize, Arc<Zeroizing<String>>)>,
    /// Finds every form of every value.
    needles: Arc<Needles>,
}

impl Secrets {
    /// Reads the values of a policy's secrets from their sources on this host. Blocks.
    pub fn load(policy: &Policy) -> Result<Secrets, SecretError> {
        if policy.secrets.is_empty() {
            return Ok(Secrets::default());
        }
        let mut bound = Vec::new();
        let mut current = Vec::new();
        for secret in &policy.secrets {
            let value = source::read(&secret.name, &secret.from)?;
            check(&secret.name, &value)?;
            let placeholder = placeholder::like(&value)
                .ok_or_else(|| SecretError::Randomness { name: secret.name.clone() })?;
            bound.push(Bound {
                name: secret.name.clone(),
                place: secret.place.clone(),
                placeholder,
                hosts: secret.hosts.clone(),
                basis: secret.basis.clone(),
            });
            current.push(Arc::new(value));
        }
        let mut forms = Vec::new();
        for (index, bound) in bound.iter().enumerate() {
            // Names of hosts and of headers of HTTP/2 come in lower case.
            for form in [bound.placeholder.clone(), bound.placeholder.to_ascii_lowercase()] {
                forms.push((index, Zeroizing::new(form.into_bytes())));
            }
        }
        let placeholders = Arc::new(searcher(forms));
        let needles = Arc::new(needles::of_values(&current, &[]));
        let values = RwLock::new(Values { current, old: Vec::new(), needles });
        Ok(Secrets { shared: Some(Arc::new(Shared { bound, placeholders, values })) })
    }

    /// The variables inside: the name of each secret with its placeholder.
    pub fn placeholders(&self) -> Vec<(String, String)> {
        let variable = |bound: &Bound| (bound.name.clone(), bound.placeholder.clone());
        self.bound().iter().map(variable).collect()
    }

    /// Replaces a value; the placeholder stays. The old value is still redacted.
    pub fn set(&self, name: &str, value: String) -> Result<(), SecretError> {
        let value = Zeroizing::new(value);
        let index = self.bound().iter().position(|bound| bound.name == name);
        let (Some(index), Some(shared)) = (index, &self.shared) else {
            let known: Vec<&str> = self.bound().iter().map(|bound| bound.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(SecretError::Unknown { name: name.to_owned(), known });
        };
        check(name, &value)?;
        let mut values = shared.values.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut values.current[index], Arc::new(value));
        values.old.push((index, before));
        let of_this = values.old.iter().filter(|(owner, _)| *owner == index).count();
        if of_this > MAX_OLD
            && let Some(oldest) = values.old.iter().position(|(owner, _)| *owner == index)
        {
            values.old.remove(oldest);
        }
        values.needles = Arc::new(needles::of_values(&values.current, &values.old));
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shared.is_none()
    }

    pub(crate) fn bound(&self) -> &[Bound] {
        self.shared.as_ref().map_or(&[], |shared| &shared.bound)
    }

    /// The secrets that are sent to a host, by their index.
    pub(crate) fn for_host(&self, host: &Host) -> Vec<usize> {
        let sent = |bound: &Bound| bound.hosts.iter().any(|pattern| pattern.matches(host));
        let bound = self.bound().iter().enumerate().filter(|(_, bound)| sent(bound));
        bound.map(|(index, _)| index).collect()
    }

    pub(crate) fn value(&self, index: usize) -> Option<Arc<Zeroizing<String>>> {
        let shared = self.shared.as_ref()?;
        let values = shared.values.read().unwrap_or_else(PoisonError::into_inner);
        values.current.get(index).map(Arc::clone)
    }

    /// Refuses bytes with a placeholder in them. Does nothing if there are no secrets.
    pub(crate) fn detector(&self) -> Screen {
        match &self.shared {
            Some(shared) => Screen::detecting(Arc::clone(&shared.placeholders)),
            None => Screen::off(),
        }
    }

    /// Redacts the values in what a host sends back. Does nothing if no secret is sent there.
    pub(crate) fn redactor(&self, host: &Host) -> Screen {
        match &self.shared {
            Some(shared) if !self.for_host(host).is_empty() => {
                let values = shared.values.read().unwrap_or_else(PoisonError::into_inner);
                Screen::redacting(Arc::clone(&values.needles))
            }
            _ => Screen::off(),
        }
    }

    /// The secret whose placeholder is in some bytes.
    pub(crate) fn placeholder_in(&self, bytes: &[u8]) -> Option<usize> {
        self.shared.as_ref().and_then(|shared| shared.placeholders.first_in(bytes))
    }

    /// The secret whose placeholder is in the name of a host, and its denial.
    pub(crate) fn in_host_name(&self, host: &str, target: &str) -> Option<(&str, Denial)> {
        let index = self.placeholder_in(host.to_ascii_lowercase().as_bytes())?;
        Some((self.name(index), self.misplaced(index, "the name of the host", target)))
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.bound().get(index).map_or("", |bound| &bound.name)
    }

    /// The denial of a placeholder in a wrong place.
    pub(crate) fn misplaced(&self, index: usize, seen: &str, target: &str) -> Denial {
        let (name, rule, place, hosts) = match self.bound().get(index) {
            Some(bound) => {
                let hosts: Vec<String> = bound.hosts.iter().map(ToString::to_string).collect();
                let place = bound.place.to_string();
                (bound.name.as_str(), bound.basis.to_string(), place, hosts.join(", "))
            }
            None => ("", String::new(), String::new(), String::new()),
        };
        Denial {
            control: Control::Secrets.as_str().into(),
            rule,
            target: target.to_owned(),
            why: format!("the placeholder of the secret {name} was in {seen}"),
            how_to_allow: format!(
                "send it only in its place, {place}, of https requests to {hosts}"
            ),
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.bound().iter().map(|bound| &bound.name);
        formatter.debug_list().entries(names).finish()
    }
}

/// A value is visible ASCII, so that it means the same in a header and in a URL.
fn check(name: &str, value: &str) -> Result<(), SecretError> {
    let why = if value.len() < MIN_BYTES {
        format!("it is shorter than {MIN_BYTES} characters, and could not be found in responses")
    } else if value.len() > MAX_BYTES {
        format!("it is longer than {MAX_BYTES} characters")
    } else if !value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        "it has characters other than visible ASCII".to_owned()
    } else {
        return Ok(());
    };
    Err(SecretError::Value { name: name.to_owned(), why })
}

/// A searcher that is not built over secrets it must forget.
type Searcher = AhoCorasick;

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
