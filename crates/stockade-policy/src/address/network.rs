//! A range of addresses in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::embedded_v4;

/// A range of addresses: an address whose bits after the prefix are zero, and the prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is not a valid range; the caller prints the text first.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The part before the slash is not an IP address in its plain spelling.
    #[error("does not start with an IP address")]
    BadAddress,
    /// The part after the slash is not a prefix length for this kind of address.
    #[error("has a prefix length that is not a number from 0 to {maximum}")]
    BadPrefix {
        /// 32 for IPv4, 128 for IPv6.
        maximum: u8,
    },
    /// The address has bits beyond the prefix, so the intended range is unclear.
    #[error("names a single address inside the range {network}")]
    HostBits {
        /// The range with those bits cleared.
        network: Network,
    },
    /// An IPv4 range written as IPv6.
    #[error("is the IPv4 range {network} written as IPv6")]
    Mapped {
        /// The same range as IPv4.
        network: Network,
    },
}

impl NetworkError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        match self {
            NetworkError::BadAddress => {
                "write a range such as `203.0.113.0/24` or `2001:db8::/32`".to_owned()
            }
            NetworkError::BadPrefix { maximum } => {
                format!("write a number from 0 to {maximum} after the slash")
            }
            NetworkError::HostBits { network } | NetworkError::Mapped { network } => {
                format!("write `{network}`")
            }
        }
    }
}

impl Network {
    /// Parses `address/prefix`; an address alone is the range of just that address.
    pub fn parse(text: &str) -> Result<Network, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::BadAddress)?;
        let maximum = width(address);
        let prefix = match prefix {
            Some(digits) => parse_prefix(digits, maximum)?,
            None => maximum,
        };
        let network = Network { address: clear_after(address, prefix), prefix };
        if network.address != address {
            return Err(NetworkError::HostBits { network });
        }
        match address {
            IpAddr::V6(v6) if prefix >= 96 => match v6.to_ipv4_mapped() {
                Some(v4) => Err(NetworkError::Mapped {
                    network: Network { address: v4.into(), prefix: prefix - 96 },
                }),
                None => Ok(network),
            },
            _ => Ok(network),
        }
    }

    /// The range of one address; one mapped into IPv6 counts as its IPv4 address.
    pub fn single(address: IpAddr) -> Network {
        let address = address.to_canonical();
        Network { address, prefix: width(address) }
    }

    /// Whether the range contains the address, also if it is embedded in an IPv6 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let directly = |address: IpAddr| {
            width(address) == width(self.address)
                && clear_after(address, self.prefix) == self.address
        };
        directly(address)
            || match address {
                IpAddr::V4(_) => false,
                IpAddr::V6(v6) => embedded_v4(v6).into_iter().any(|v4| directly(v4.into())),
            }
    }

    /// Whether this range contains every address of the other one.
    pub fn covers(&self, other: &Network) -> bool {
        width(self.address) == width(other.address)
            && self.prefix <= other.prefix
            && clear_after(other.address, self.prefix) == self.address
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn parse_prefix(digits: &str, maximum: u8) -> Result<u8, NetworkError> {
    let written_plainly = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    match digits.parse() {
        Ok(prefix) if written_plainly && prefix <= maximum => Ok(prefix),
        _ => Err(NetworkError::BadPrefix { maximum }),
    }
}

/// The address with every bit after the prefix set to zero.
fn clear_after(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}
