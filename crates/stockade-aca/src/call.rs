//! One call of the service: its token, its repetitions, and what a status means.

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use serde_json::Value;
use stockade_policy::Printable;
use tokio::time::sleep;
use url::Url;

use crate::AcaError;
use crate::http::{Answered, Http, Outgoing, origin};
use crate::options::Timing;
use crate::token::Tokens;

/// The version of the interface.
const API_VERSION: &str = "2026-02-01-preview";
/// How often a request that may be repeated is sent.
const MOST_ATTEMPTS: u32 = 4;
/// The longest pause that a service may ask for.
const MOST_PAUSE: Duration = Duration::from_secs(30);
/// How many characters of an error's body are shown.
const MOST_SHOWN: usize = 300;
/// The most bytes of a response that is not a file.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// Whether a request may be sent more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// As often as it fails: its effect is the same.
    Freely,
    /// Only after an answer that means that nothing happened.
    IfRefused,
    /// Never, whatever the answer.
    Never,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// What is done, for messages.
    pub(crate) doing: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) body: Body,
    pub(crate) repeats: Repeats,
    /// Longer than other calls may take.
    pub(crate) limit: Option<Duration>,
    pub(crate) most_bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Nothing,
    Json(Value),
    Bytes(Bytes),
}

impl Call {
    pub(crate) fn new(doing: &'static str, method: Method, path: String) -> Call {
        let repeats = match method {
            Method::GET | Method::PUT | Method::DELETE => Repeats::Freely,
            _ => Repeats::Never,
        };
        Call {
            doing,
            method,
            path,
            query: Vec::new(),
            body: Body::Nothing,
            repeats,
            limit: None,
            most_bytes: MOST_BYTES,
        }
    }

    pub(crate) fn json(self, body: Value) -> Call {
        Call { body: Body::Json(body), ..self }
    }

    pub(crate) fn query(mut self, name: &str, value: impl Into<String>) -> Call {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn repeats(self, repeats: Repeats) -> Call {
        Call { repeats, ..self }
    }

    /// The address, with the version of the interface first.
    fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        url.set_path(&self.path);
        url.query_pairs_mut().append_pair("api-version", API_VERSION).extend_pairs(&self.query);
        url
    }
}

/// A part of the service: its address and the audience of its tokens.
pub(crate) struct Plane {
    pub(crate) base: Url,
    pub(crate) scope: &'static str,
}

/// Sends calls.
pub(crate) struct Caller {
    pub(crate) http: Http,
    pub(crate) tokens: Tokens,
    pub(crate) timing: Timing,
}

impl Caller {
    /// Makes a call and returns the response of a success.
    pub(crate) async fn call(&self, plane: &Plane, call: &Call) -> Result<Answered, AcaError> {
        let url = call.url(&plane.base);
        let started = Instant::now();
        let mut attempts = 0;
        let mut pause = self.timing.pause;
        let mut is_renewed = false;
        loop {
            attempts += 1;
            let token = self.tokens.get(plane.scope).await?;
            let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            let mut bearer = bearer.map_err(|_| AcaError::Credential {
                reason: "the token has characters that cannot be sent".to_owned(),
            })?;
            bearer.set_sensitive(true);
            let sent = self.http.send(self.outgoing(call, url.clone(), bearer)?).await;
            let error = match sent {
                Ok(answered) if (200..300).contains(&answered.status) => return Ok(answered),
                Ok(answered) => {
                    let error = refusal(call.doing, &answered);
                    if call.repeats == Repeats::Never {
                        return Err(error);
                    }
                    let asked = retry_after(&answered);
                    let (may_wait, is_effect_free) = match answered.status {
                        // A token can be withdrawn before it expires.
                        401 if !is_renewed => {
                            is_renewed = true;
                            self.tokens.refused(plane.scope, &token).await;
                            continue;
                        }
                        // New roles take some time until they are known everywhere.
                        403 => (started.elapsed() < self.timing.roles, true),
                        429 => (started.elapsed() < self.timing.busy, true),
                        500 | 502 | 503 | 504 => (attempts < MOST_ATTEMPTS, false),
                        _ => return Err(error),
                    };
                    if !may_wait || !(is_effect_free || call.repeats == Repeats::Freely) {
                        return Err(error);
                    }
                    pause = asked.map_or(pause, |asked| asked.max(pause)).min(MOST_PAUSE);
                    error
                }
                Err(source) => {
                    let host = origin(&url);
                    let may_have_arrived = source.may_have_arrived;
                    let error = AcaError::Transport { doing: call.doing, host, source };
                    let may_repeat = match call.repeats {
                        Repeats::Freely => true,
                        Repeats::IfRefused => !may_have_arrived,
                        Repeats::Never => false,
                    };
                    if !may_repeat || attempts >= MOST_ATTEMPTS {
                        return Err(error);
                    }
                    error
                }
            };
            drop(error);
            sleep(pause).await;
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }

    /// Makes a call and reads the response as JSON.
    pub(crate) async fn json(&self, plane: &Plane, call: &Call) -> Result<Value, AcaError> {
        let answered = self.call(plane, call).await?;
        serde_json::from_slice(&answered.body).map_err(|error| AcaError::Response {
            doing: call.doing,
            reason: format!("it is not JSON: {error}"),
        })
    }

    fn outgoing(&self, call: &Call, url: Url, bearer: HeaderValue) -> Result<Outgoing, AcaError> {
        let id = stockade_sys::random_bytes::<16>()
            .map_err(|source| AcaError::Prepare { doing: "name a request", source })?;
        let id = format!("{:032x}", u128::from_be_bytes(id));
        let id = HeaderValue::from_str(&id).expect("hexadecimal digits are a header's value");
        let mut headers = vec![
            (AUTHORIZATION, bearer),
            (HeaderName::from_static("x-ms-client-request-id"), id),
            (USER_AGENT, HeaderValue::from_static(concat!("stockade/", env!("CARGO_PKG_VERSION")))),
        ];
        let (kind, body) = match &call.body {
            Body::Nothing => (None, Bytes::new()),
            Body::Json(value) => (Some("application/json"), Bytes::from(value.to_string())),
            Body::Bytes(bytes) => (Some("application/octet-stream"), bytes.clone()),
        };
        headers.extend(kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind))));
        Ok(Outgoing {
            method: call.method.clone(),
            url,
            headers,
            body,
            limit: call.limit.unwrap_or(self.timing.request),
            most_bytes: call.most_bytes,
            reuses: call.repeats == Repeats::Freely,
        })
    }
}

/// A response of another status as an error.
fn refusal(doing: &'static str, answered: &Answered) -> AcaError {
    let detail = detail(&answered.body);
    match answered.status {
        status @ (401 | 403) => AcaError::Refused { doing, status, detail },
        404 => AcaError::Missing { doing, detail },
        409 => AcaError::Conflict { doing, detail },
        429 => AcaError::Busy { doing },
        status => AcaError::Status { doing, status, detail },
    }
}

/// The body of an error response: `{"error": {"code": …, "message": …}}`, bounded. Its exact
/// form is not documented, so any other body is not shown.
fn detail(body: &[u8]) -> String {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let error = body.as_ref().map(|body| body.get("error").unwrap_or(body));
    let part = |name: &str| error.and_then(|error| error[name].as_str()).map(harmless);
    match (part("code"), part("message")) {
        (Some(code), Some(message)) => format!(": {code}: {message}"),
        (Some(one), None) | (None, Some(one)) => format!(": {one}"),
        (None, None) => String::new(),
    }
}

/// The start of a text from outside, with unprintable characters escaped.
pub(crate) fn harmless(text: &str) -> String {
    let cut: String = text.chars().take(MOST_SHOWN).collect();
    Printable(&cut).to_string().chars().take(MOST_SHOWN).collect()
}

/// How long the service asks to wait, in seconds; the form with a date is ignored.
pub(crate) fn retry_after(answered: &Answered) -> Option<Duration> {
    let text = answered.headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_version_and_encoded_values() {
        let base = Url::parse("https://management.westus2.azuredevcompute.io").unwrap();
        let call = Call::new("read a file", Method::GET, "/a/files".to_owned());
        let url = call.query("path", "/tmp/a b&c").url(&base);
        let expected = "https://management.westus2.azuredevcompute.io/a/files\
                        ?api-version=2026-02-01-preview&path=%2Ftmp%2Fa+b%26c";
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn detail_of_an_error_is_bounded_and_printable() {
        let body = br#"{"error":{"code":"SandboxNotRunning","message":"not\u001b[2J now"}}"#;
        assert_eq!(detail(body), ": SandboxNotRunning: not\\u{1b}[2J now");
        assert_eq!(detail(br#"{"message":"top"}"#), ": top");
        for body in ["", "<html>", "[]", "7", r#"{"error":[1]}"#] {
            assert_eq!(detail(body.as_bytes()), "", "{body}");
        }
        let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(100_000));
        assert!(detail(long.as_bytes()).len() < 400);
    }

    #[test]
    fn a_request_that_changes_something_is_not_repeated_unless_it_says_so() {
        let of = |method| Call::new("x", method, String::new()).repeats;
        assert_eq!(of(Method::POST), Repeats::Never);
        assert_eq!(of(Method::GET), Repeats::Freely);
    }
}
