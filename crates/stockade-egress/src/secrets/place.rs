//! Puts values in the place of their placeholders, and finds placeholders in any other place.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stockade_policy::{Denial, SecretPlace};
use zeroize::Zeroizing;

use super::{Bound, Secrets};
use crate::dial::Target;
use crate::http::Fields;

/// What the placeholders of a request became.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The fields that are sent.
    pub(crate) fields: Fields,
    /// The path and query that are sent.
    pub(crate) path: String,
    /// The names of the secrets that are sent.
    pub(crate) sent: Vec<String>,
    /// The names of the secrets in whose header the program sent something else, which is dropped.
    pub(crate) dropped: Vec<String>,
}

/// A placeholder in a wrong place.
#[derive(Debug)]
pub(crate) struct Alarm {
    pub(crate) secret: String,
    pub(crate) denial: Denial,
}

/// Replaces each placeholder in its place; `may_send` if the request goes to a verified server over
/// TLS. Any other occurrence is an alarm. A header that is the place of a secret of this host carries
/// the secret or nothing: code inside cannot use the host with a credential of its own.
pub(crate) fn place_all(
    secrets: &Secrets,
    target: &Target,
    fields: &Fields,
    path: &str,
    may_send: bool,
) -> Result<Placed, Box<Alarm>> {
    let (fields, path_as_sent) = (fields.clone(), path.to_owned());
    let mut placed = Placed { fields, path: path_as_sent, sent: Vec::new(), dropped: Vec::new() };
    if secrets.is_empty() {
        return Ok(placed);
    }
    let of_host = secrets.for_host(&target.host);
    let bound = if may_send { of_host.clone() } else { Vec::new() };
    let alarm = |index: usize, seen: String| {
        let shown = format!("{}:{}", target.host, target.port);
        let secret = secrets.name(index).to_owned();
        Box::new(Alarm { denial: secrets.misplaced(index, &seen, &shown), secret })
    };
    // The connection's name was searched when it was opened; here is the last look before a request
    // is written with it.
    let host = target.host.to_string();
    if let Some((secret, denial)) = secrets.in_host_name(&host, &format!("{host}:{}", target.port))
    {
        return Err(Box::new(Alarm { secret: secret.to_owned(), denial }));
    }
    for mut field in std::mem::take(&mut placed.fields.0) {
        if let Some(index) = secrets.placeholder_in(field.name.as_bytes()) {
            return Err(alarm(index, "the name of a header".to_owned()));
        }
        let candidates =
            bound.iter().filter_map(|index| Some((*index, secrets.bound().get(*index)?)));
        let mut rest = field.value.clone();
        let mut is_placed = false;
        for (index, one) in candidates {
            let Some(found) = in_field(one, &field.name, &field.value) else { continue };
            let Some(value) = secrets.value(index) else { continue };
            field.value = found.with(&value);
            rest = found.rest;
            placed.sent.push(one.name.clone());
            is_placed = true;
            break;
        }
        if let Some(index) = anywhere_in(secrets, &rest) {
            return Err(alarm(index, format!("the header {}", field.name)));
        }
        let owner = of_host.iter().filter_map(|index| secrets.bound().get(*index));
        match owner.into_iter().find(|one| is_place_of(one, &field.name)) {
            Some(owner) if !is_placed => placed.dropped.push(owner.name.clone()),
            _ => placed.fields.0.push(field),
        }
    }
    let mut rest = path.to_owned();
    for index in bound {
        let Some(one) = secrets.bound().get(index) else { continue };
        let SecretPlace::Query { name } = &one.place else { continue };
        let Some(value) = secrets.value(index) else { continue };
        let parameter = format!("{name}={}", one.placeholder);
        if let Some(with) =
            replaced_in_query(&placed.path, &parameter, &format!("{name}={}", *escaped(&value)))
        {
            placed.path = with;
            rest = replaced_in_query(&rest, &parameter, name).unwrap_or(rest);
            placed.sent.push(one.name.clone());
        }
    }
    match anywhere_in(secrets, rest.as_bytes()) {
        Some(index) => Err(alarm(index, "the URL".to_owned())),
        None => Ok(placed),
    }
}

/// A placeholder in its place in a field.
struct InField {
    before: Vec<u8>,
    after: Vec<u8>,
    is_basic: bool,
    /// The field without the placeholder.
    rest: Vec<u8>,
}

impl InField {
    fn with(&self, value: &str) -> Vec<u8> {
        let whole = Zeroizing::new([&self.before, value.as_bytes(), &self.after].concat());
        match self.is_basic {
            true => format!("Basic {}", STANDARD.encode(&*whole)).into_bytes(),
            false => whole.to_vec(),
        }
    }
}

fn in_field(bound: &Bound, name: &str, value: &[u8]) -> Option<InField> {
    let placeholder = bound.placeholder.as_bytes();
    let split = |text: &[u8]| {
        let at = text.windows(placeholder.len()).position(|part| part == placeholder)?;
        let (before, after) = (text[..at].to_vec(), text[at + placeholder.len()..].to_vec());
        Some((before, after))
    };
    match &bound.place {
        SecretPlace::Header { name: wanted, format } if name.eq_ignore_ascii_case(wanted) => {
            let (before, after) = split(value)?;
            let (format_before, format_after) = format.split_once("{}")?;
            let fits = before == format_before.as_bytes() && after == format_after.as_bytes();
            (fits || format == "{}").then(|| {
                let rest = [before.as_slice(), after.as_slice()].concat();
                InField { before, after, is_basic: false, rest }
            })
        }
        SecretPlace::Basic if name.eq_ignore_ascii_case("authorization") => {
            let decoded = basic(value)?;
            let (before, after) = split(&decoded)?;
            // It is the whole user or the whole password.
            let is_user = before.is_empty() && after.starts_with(b":");
            let is_password = after.is_empty() && before.ends_with(b":");
            (is_user || is_password).then(|| {
                let rest = [before.as_slice(), after.as_slice()].concat();
                InField { before, after, is_basic: true, rest }
            })
        }
        SecretPlace::Header { .. } | SecretPlace::Query { .. } | SecretPlace::Basic => None,
    }
}

/// Whether a header is the place of a secret. Some servers treat an underscore in its name as a
/// hyphen.
fn is_place_of(bound: &Bound, name: &str) -> bool {
    let wanted = match &bound.place {
        SecretPlace::Header { name, .. } => name.as_str(),
        SecretPlace::Basic => "authorization",
        SecretPlace::Query { .. } => return false,
    };
    name.replace('_', "-").eq_ignore_ascii_case(&wanted.replace('_', "-"))
}

/// The user and password of basic authentication.
fn basic(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, text) = value.split_first_chunk::<6>()?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    STANDARD.decode(text.trim_ascii()).ok()
}

/// The secret whose placeholder is in a text, as it is, escaped for a URL, or in basic
/// authentication.
fn anywhere_in(secrets: &Secrets, text: &[u8]) -> Option<usize> {
    let plain = || secrets.placeholder_in(text);
    let unescaped = || secrets.placeholder_in(&unescaped(text));
    let decoded = || secrets.placeholder_in(&basic(text)?);
    plain().or_else(unescaped).or_else(decoded)
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let digits = (*first == b'%').then(|| more.first_chunk::<2>()).flatten();
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                plain.push(byte);
                rest = &more[2..];
            }
            None => {
                plain.push(*first);
                rest = more;
            }
        }
    }
    plain
}

fn escaped(value: &str) -> Zeroizing<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part = |byte: u8| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    Zeroizing::new(value.bytes().map(part).collect())
}

/// A path with the first parameter that equals one replaced by another.
fn replaced_in_query(path: &str, parameter: &str, by: &str) -> Option<String> {
    let (path, query) = path.split_once('?')?;
    let mut parameters: Vec<&str> = query.split('&').collect();
    let at = parameters.iter().position(|one| *one == parameter)?;
    parameters[at] = by;
    Some(format!("{path}?{}", parameters.join("&")))
}
