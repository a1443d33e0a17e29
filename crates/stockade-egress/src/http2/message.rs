//! Heads of HTTP/2 as the gate judges them, and back.

use hyper::Version;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use stockade_policy::{Method, parse_host_port};

use crate::dial::Target;
use crate::http::{Field, Fields, HeadError, Length, RequestHead, RequestTarget};

/// The most fields of a head.
const MAX_FIELDS: usize = 100;

/// A request with exactly one interpretation, and its path and query. Its pseudo-header fields must
/// name the host that TLS names.
pub(crate) fn request_of(
    parts: &Parts,
    target: &Target,
    has_body: bool,
) -> Result<(RequestHead, String), HeadError> {
    if parts.headers.len() > MAX_FIELDS {
        return Err(HeadError::TooManyFields);
    }
    if parts.version != Version::HTTP_2 {
        return Err(HeadError::Version);
    }
    let method = parts.method.as_str();
    if Method::parse(method).is_err() {
        return Err(HeadError::Method);
    }
    let named = parts.uri.authority().map(|authority| authority.as_str());
    // The library checks that there is a scheme, and drops it if there is no authority. RFC 9113
    // section 8.3.1 allows a Host field in its place.
    let has_scheme = parts.uri.scheme_str() == Some("https");
    if !has_scheme && (named.is_some() || parts.uri.scheme().is_some()) {
        return Err(HeadError::Scheme);
    }
    let mut hosts = parts.headers.get_all("host").iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return Err(HeadError::Host);
    }
    let host = host.map(|value| value.to_str().map_err(|_| HeadError::Host)).transpose()?;
    let mut any = false;
    for authority in [named, host].into_iter().flatten() {
        any = true;
        let read = parse_host_port(authority);
        let (host, port) = read.map_err(|error| HeadError::Authority(error.to_string()))?;
        if host != target.host || port.unwrap_or(443) != target.port {
            return Err(HeadError::OtherHost);
        }
    }
    if !any {
        return Err(HeadError::Host);
    }
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    if !(path.starts_with('/') || (path == "*" && method == "OPTIONS"))
        || !path.bytes().all(|byte| byte.is_ascii_graphic())
        || path.contains(['#', '\\'])
    {
        return Err(HeadError::Target);
    }
    let mut fields = fields_of(&parts.headers);
    let declared = fields.length(1)?;
    let length = match (declared, has_body) {
        (Some(Length::Chunks | Length::UntilClose), _) => return Err(HeadError::TransferEncoding),
        (Some(length), _) => length,
        (None, true) => Length::Chunks,
        (None, false) => Length::Nothing,
    };
    // RFC 9113 section 8.2.3: cookies may be divided among fields.
    join_cookies(&mut fields);
    let mut fields = fields.without_hops()?;
    fields.0.retain(|field| !field.is("host") && !field.is("expect"));
    let aim = RequestTarget::Origin {
        host: target.host.clone(),
        port: Some(target.port),
        path: path.to_owned(),
    };
    let head = RequestHead {
        method: method.to_owned(),
        aim,
        minor_version: 1,
        length,
        wants_websocket: false,
        is_last: false,
        fields,
    };
    Ok((head, path.to_owned()))
}

pub(super) fn fields_of(headers: &HeaderMap) -> Fields {
    let field = |(name, value): (&HeaderName, &HeaderValue)| Field {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Fields(headers.iter().map(field).collect())
}

/// The fields as headers; `None` if one is not valid.
pub(super) fn headers_of(fields: &Fields) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.0.len());
    for field in &fields.0 {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(&field.value).ok()?);
    }
    Some(headers)
}

fn join_cookies(fields: &mut Fields) {
    let values: Vec<Vec<u8>> = fields
        .0
        .iter()
        .filter(|field| field.is("cookie"))
        .map(|field| field.value.clone())
        .collect();
    if values.len() > 1 {
        fields.0.retain(|field| !field.is("cookie"));
        fields.0.push(Field { name: "cookie".to_owned(), value: values.join(&b"; "[..]) });
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
