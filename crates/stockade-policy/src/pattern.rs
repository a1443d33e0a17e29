//! Patterns over hosts, for allowlists and blocklists.
//!
//! Two patterns are either disjoint or one covers the other, which makes covering and
//! intersecting exact.

mod error;

use std::fmt;
use std::net::IpAddr;

use psl::Psl;
use serde::{Serialize, Serializer};

pub use self::error::PatternError;
use crate::{AddressKind, Host, HostName, Network, classify, is_metadata_name};

/// One host, or every name below one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Exactly this host; an address matches only itself.
    Exact(Host),
    /// Any name at any depth below this one, but not this one itself.
    Below(HostName),
}

impl HostPattern {
    /// Parses an allowlist entry, which may open neither whole registries nor metadata services.
    ///
    /// A wildcard can still match a metadata name, as `*.google.internal` does: code that judges a
    /// host must also call [`is_metadata_name`] and [`classify`].
    pub fn parse_allowed(text: &str) -> Result<HostPattern, PatternError> {
        if looks_like_range(text) {
            return Err(PatternError::Range);
        }
        let pattern = parse_pattern(text)?;
        match &pattern {
            HostPattern::Exact(Host::Address(address))
                if classify(*address) == AddressKind::Metadata =>
            {
                Err(PatternError::Metadata)
            }
            HostPattern::Exact(Host::Name(name)) if is_metadata_name(name) => {
                Err(PatternError::Metadata)
            }
            HostPattern::Exact(Host::Name(name)) | HostPattern::Below(name) if is_own(name) => {
                Err(PatternError::OwnName)
            }
            HostPattern::Below(name) if is_shared_by_registrants(name) => {
                Err(PatternError::PublicSuffix { suffix: name.clone() })
            }
            _ => Ok(pattern),
        }
    }

    /// Parses a blocklist entry; blocking only narrows, so any host may be named.
    pub fn parse_blocked(text: &str) -> Result<HostPattern, PatternError> {
        if looks_like_range(text) {
            return Err(PatternError::Range);
        }
        parse_pattern(text)
    }

    /// Whether the pattern matches the host.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (HostPattern::Exact(exact), _) => exact == host,
            (HostPattern::Below(base), Host::Name(name)) => is_below(name, base),
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }

    /// Whether this pattern matches every host the other one matches.
    pub fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (_, HostPattern::Exact(host)) => self.matches(host),
            (HostPattern::Exact(_), HostPattern::Below(_)) => false,
            (HostPattern::Below(base), HostPattern::Below(name)) => {
                base == name || is_below(name, base)
            }
        }
    }

    /// The pattern for the hosts both match, if there are any.
    pub fn intersect(&self, other: &HostPattern) -> Option<HostPattern> {
        if self.covers(other) {
            Some(other.clone())
        } else if other.covers(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// A sort key: the more specific the pattern, the higher.
    ///
    /// An exact host sorts above every wildcard, a longer wildcard above a shorter one.
    pub fn specificity(&self) -> (bool, usize) {
        match self {
            HostPattern::Exact(host) => (true, host.to_string().len()),
            HostPattern::Below(base) => (false, base.as_str().len()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(host) => host.fmt(formatter),
            HostPattern::Below(base) => write!(formatter, "*.{base}"),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether programs in a sandbox resolve this name to the sandbox itself (RFC 6761).
fn is_own(name: &HostName) -> bool {
    name.as_str() == "localhost" || name.as_str().ends_with(".localhost")
}

/// An entry of a blocklist: hosts, or a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPattern {
    /// Hosts by name, or one address.
    Host(HostPattern),
    /// Every address of a range.
    Range(Network),
}

impl BlockPattern {
    /// Parses a name, a wildcard, an address or a range.
    pub fn parse(text: &str) -> Result<BlockPattern, PatternError> {
        if looks_like_range(text) {
            let network =
                Network::parse(text).map_err(|source| PatternError::Network { source })?;
            return Ok(BlockPattern::Range(network));
        }
        HostPattern::parse_blocked(text).map(BlockPattern::Host)
    }

    /// Whether the requested host is blocked.
    pub fn matches_host(&self, host: &Host) -> bool {
        match (self, host) {
            (_, Host::Address(address)) => self.matches_address(*address),
            (BlockPattern::Host(pattern), Host::Name(_)) => pattern.matches(host),
            (BlockPattern::Range(_), Host::Name(_)) => false,
        }
    }

    /// Whether the address that a name resolved to is blocked, in any of its encodings.
    pub fn matches_address(&self, address: IpAddr) -> bool {
        match self {
            BlockPattern::Range(network) => network.contains(address),
            BlockPattern::Host(HostPattern::Exact(Host::Address(blocked))) => {
                Network::single(*blocked).contains(address)
            }
            BlockPattern::Host(_) => false,
        }
    }
}

impl fmt::Display for BlockPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockPattern::Host(pattern) => pattern.fmt(formatter),
            BlockPattern::Range(network) => network.fmt(formatter),
        }
    }
}

impl Serialize for BlockPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse_pattern(text: &str) -> Result<HostPattern, PatternError> {
    let host = |text: &str| Host::parse(text).map_err(|source| PatternError::Host { source });
    if matches!(text, "*" | "*.") {
        return Err(PatternError::BareWildcard);
    }
    let (is_wildcard, rest) = match text.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest.contains('*') {
        return Err(PatternError::MisplacedWildcard);
    }
    match (is_wildcard, host(rest)?) {
        (false, host) => Ok(HostPattern::Exact(host)),
        (true, Host::Name(name)) => Ok(HostPattern::Below(name)),
        (true, Host::Address(_)) => Err(PatternError::WildcardAddress),
    }
}

fn is_below(name: &HostName, base: &HostName) -> bool {
    name.as_str()
        .strip_suffix(base.as_str())
        .and_then(|above| above.strip_suffix('.'))
        .is_some_and(|above| !above.is_empty())
}

/// Whether unrelated parties can register names directly below this one.
///
/// That is so for a public suffix, including the private section of the list and unlisted top-level
/// domains, and for a name that the list continues with a wildcard, such as
/// `compute.amazonaws.com`.
fn is_shared_by_registrants(name: &HostName) -> bool {
    let is_suffix = |text: &str| {
        psl::List.suffix(text.as_bytes()).is_none_or(|suffix| suffix.as_bytes() == text.as_bytes())
    };
    is_suffix(name.as_str())
        || is_suffix(&format!("any-label-at-all.{name}"))
        || SHARED.contains(&name.as_str())
}

/// Domains below which unrelated parties get names, though the public suffix list does not contain
/// them: clouds, and services that turn any address into a name.
const SHARED: [&str; 21] = [
    "amazonaws.com",
    "amazonaws.com.cn",
    "aws",
    "azure.com",
    "azure.net",
    "azure-api.net",
    "cloudapp.azure.com",
    "windows.net",
    "core.windows.net",
    "googleusercontent.com",
    "digitaloceanspaces.com",
    "linodeobjects.com",
    "backblazeb2.com",
    "cloudflarestorage.com",
    "fastly.net",
    "akamaihd.net",
    "oraclecloud.com",
    "aliyuncs.com",
    "nip.io",
    "sslip.io",
    "xip.io",
];

/// Whether the text looks like `address/prefix`, valid or not.
fn looks_like_range(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('/').is_some_and(|(address, prefix)| {
        digits(prefix) && (address.contains(':') || address.rsplit('.').next().is_some_and(digits))
    })
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
