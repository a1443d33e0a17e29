//! `http`: the URL and the headers of a tool's requests.

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use stockade_policy::check_name;
use stockade_text::{Node, TextSpan, describe};
use url::Url;

use super::fields::Decoder;
use super::{HeaderSource, HttpEntry};

const HTTP: &[&str] = &["url", "method", "headers", "headers_from"];

/// Headers that frame the request; the file cannot set them.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Decoder<'_, '_> {
    pub(super) fn http(&mut self, node: &Node) -> Option<HttpEntry> {
        let table = self.table(node, "http", HTTP)?;
        let url = self.required(&table, "url", "http").and_then(|node| self.url(node));
        let method = match table.get("method") {
            Some(node) => self.method(node),
            None => Some(Method::POST),
        };
        let mut headers: Vec<(HeaderName, HeaderSource)> = Vec::new();
        for (key, is_secret) in [("headers", false), ("headers_from", true)] {
            let entries = table.get(key).and_then(|node| self.map(node, key)).unwrap_or_default();
            for entry in entries {
                let name = self.header_name(&entry.key, entry.key_place)?;
                let source = match is_secret {
                    true => self.header_source(&entry.value)?,
                    false => HeaderSource::Value(self.header_value(&entry.value)?),
                };
                if headers.iter().any(|(other, _)| *other == name) {
                    self.mistake(
                        entry.key_place,
                        format!("the header `{name}` occurs twice"),
                        "keep one of the two",
                    );
                }
                headers.push((name, source));
            }
        }
        Some(HttpEntry { url: url?, method: method?, headers })
    }

    fn url(&mut self, node: &Node) -> Option<Url> {
        let text = self.text(node, "url")?;
        let (why, remedy) = match Url::parse(&text) {
            Err(error) => (
                format!("is not a URL: {error}"),
                "write a URL such as https://api.example.org/path",
            ),
            Ok(url) if !matches!(url.scheme(), "http" | "https") => (
                "is not a web address".to_owned(),
                "write a URL that begins with https:// or http://",
            ),
            Ok(url) if !url.username().is_empty() || url.password().is_some() => (
                "holds a password".to_owned(),
                "send it as a header: `headers_from: {Authorization: \"env:VARIABLE\"}`",
            ),
            Ok(url) if url.fragment().is_some() => (
                "has a fragment, which is never sent".to_owned(),
                "remove the `#` and what follows it",
            ),
            Ok(url) => return Some(url),
        };
        // The message does not repeat the value: it may hold a secret.
        self.mistake(node.place, format!("this {why}"), remedy);
        None
    }

    fn method(&mut self, node: &Node) -> Option<Method> {
        let text = self.text(node, "method")?;
        let method = match text.as_str() {
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            _ => {
                let message =
                    format!("method cannot be {}: arguments are sent as a body", describe(node));
                self.mistake(node.place, message, "write POST, PUT or PATCH");
                return None;
            }
        };
        Some(method)
    }

    fn header_name(&mut self, written: &str, place: TextSpan) -> Option<HeaderName> {
        let name = HeaderName::from_bytes(written.as_bytes()).ok();
        let name = name.filter(|name| !FRAMING.contains(&name.as_str()));
        if name.is_none() {
            let message = format!("`{written}` is not a header that can be set");
            self.mistake(place, message, "write a header such as `Authorization` or `X-Api-Key`");
        }
        name
    }

    fn header_value(&mut self, node: &Node) -> Option<HeaderValue> {
        let text = self.text(node, "the value of a header")?;
        let value = HeaderValue::from_str(&text).ok();
        if value.is_none() {
            self.mistake(
                node.place,
                "this cannot be the value of a header",
                "write one line of plain text",
            );
        }
        value
    }

    fn header_source(&mut self, node: &Node) -> Option<HeaderSource> {
        let text = self.text(node, "the source of a header")?;
        match text.split_once(':') {
            Some(("env", name)) if check_name(name).is_ok() => {
                Some(HeaderSource::Variable(name.to_owned()))
            }
            Some(("file", path)) if !path.is_empty() => {
                Some(HeaderSource::File(self.base.join(path)))
            }
            _ => {
                // Neither the message nor its line repeats the value: it may be the secret itself.
                self.hide(node);
                let message = "this does not name the source of the header's value";
                self.mistake(node.place, message, "write `env:NAME` or `file:PATH`");
                None
            }
        }
    }
}
