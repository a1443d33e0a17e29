//! Why a text is not a valid host, and what to write instead.

use std::net::Ipv4Addr;

use thiserror::Error;

use super::Host;

/// Why a text is refused as a host.
///
/// The messages are predicates: the caller prints the text first, escaped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The text is empty.
    #[error("is empty")]
    Empty,
    /// The bytes are not UTF-8.
    #[error("is not UTF-8 text")]
    NotText,
    /// The name does not fit the DNS.
    #[error("is longer than the 253 bytes a host name may have")]
    TooLong,
    /// Two dots in a row, a leading dot, or two trailing dots.
    #[error("has an empty label")]
    EmptyLabel,
    /// A label does not fit the DNS.
    #[error("has a label longer than 63 bytes")]
    LabelTooLong,
    /// A label begins or ends with a hyphen.
    #[error("has a label that begins or ends with a hyphen")]
    Hyphen,
    /// A NUL, line end, escape or other control character.
    #[error("contains the control character {}", describe(.character))]
    ControlByte {
        /// The first one found.
        character: char,
    },
    /// A percent escape.
    #[error("contains a percent sign")]
    Percent,
    /// A space of any kind.
    #[error("contains white space ({})", describe(.character))]
    Whitespace {
        /// The first one found.
        character: char,
    },
    /// An ASCII character outside letters, digits, hyphen and dot.
    #[error("contains {}, which no host name may contain", describe(.character))]
    ForbiddenCharacter {
        /// The first one found.
        character: char,
    },
    /// A whole URL.
    #[error("is a URL, not a host name")]
    Scheme {
        /// The host of the URL, if it is clear.
        host: Option<String>,
    },
    /// A user name before the host.
    #[error("is part of a URL, not a host name: it contains `@`")]
    Userinfo,
    /// A path, query or fragment after the host.
    #[error("is part of a URL, not a host name: something follows the host")]
    Path {
        /// The host before it, if it is clear.
        host: Option<String>,
    },
    /// An IPv6 address with a zone.
    #[error("is an address with a zone")]
    ZoneId,
    /// A decimal, octal, hexadecimal or short spelling of an address.
    #[error("is an unusual spelling of the address {meaning}")]
    LegacyAddress {
        /// The address that software which accepts such spellings would use.
        meaning: Ipv4Addr,
    },
    /// It looks like an address but is not a valid one.
    #[error("looks like an IP address but is not a valid one")]
    BadAddress,
    /// Not a valid internationalised DNS name.
    #[error("is not a valid internationalised name")]
    Idna,
    /// Software would silently convert it into another name.
    #[error("would be turned into the different name `{meaning}`")]
    Ambiguous {
        /// The other name.
        meaning: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("has a port that is not a number from 1 to 65535")]
    BadPort,
}

impl HostError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        let sentence = match self {
            HostError::Empty => "write a host name such as `api.example.com`",
            HostError::NotText | HostError::Idna => {
                "write the name in plain ASCII, or in its `xn--` form"
            }
            HostError::TooLong => "write a name of at most 253 bytes",
            HostError::EmptyLabel => "write one dot between two labels and none in front",
            HostError::LabelTooLong => "write labels of at most 63 bytes",
            HostError::Hyphen => "remove the hyphen at the edge of the label",
            HostError::ControlByte { .. } => "remove the control character",
            HostError::Percent => "write the characters themselves, without percent escapes",
            HostError::Whitespace { .. } => "remove the white space",
            HostError::ForbiddenCharacter { character } => remedy_for_character(*character),
            HostError::Scheme { host: Some(host) } | HostError::Path { host: Some(host) } => {
                return format!("write only the host: `{host}`");
            }
            HostError::Scheme { host: None } | HostError::Path { host: None } => {
                "write only the host name, without scheme, path or query"
            }
            HostError::Userinfo => "write only the host name, without a user name or `@`",
            HostError::ZoneId => "write the address without the `%` and what follows it",
            HostError::LegacyAddress { meaning } => return format!("write `{meaning}`"),
            HostError::BadAddress => {
                "write four decimal numbers from 0 to 255, or an IPv6 address such as `[2001:db8::1]`"
            }
            HostError::Ambiguous { meaning } if Host::parse(meaning).is_ok() => {
                return format!("write `{meaning}` if that is the name you mean");
            }
            HostError::Ambiguous { .. } => "write the name in plain ASCII, or in its `xn--` form",
            HostError::BadPort => "write the port in plain digits, such as `:443`",
        };
        sentence.to_owned()
    }
}

fn remedy_for_character(character: char) -> &'static str {
    match character {
        '_' => "underscores are for records, not for hosts: use a name without them",
        '*' => "name one host; a `*` stands only in the first label of a host pattern",
        ':' => "write the name without a port here",
        _ => "write only letters, digits, hyphens and dots",
    }
}

/// The character itself if it is safe to print, otherwise its code point.
fn describe(character: &char) -> String {
    if character.is_ascii_graphic() {
        format!("`{character}`")
    } else {
        format!("U+{:04X}", u32::from(*character))
    }
}
