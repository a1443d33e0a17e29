//! The credentials of the environment, found as Azure's own libraries find them.
//!
//! ```text
//! AZURE_CLIENT_SECRET ──▶ AZURE_FEDERATED_TOKEN_FILE ──▶ the machine's identity ──▶ az
//! ```
//! The first kind that is configured decides: if it fails, no other identity takes its place.

use std::path::PathBuf;
use std::time::Duration;

use futures_core::future::BoxFuture;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

use crate::http::{Answered, Http, Outgoing};
use crate::options::CredentialKind;
use crate::settings::{address, segment};
use crate::{AcaError, CredentialChoice, Secret, Token, TokenSource};

/// The public cloud's token service.
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// The metadata service of a virtual machine.
const METADATA: &str = "http://169.254.169.254";
/// How long a token service may take.
const MOST_TIME: Duration = Duration::from_secs(20);
/// How long the metadata service may take, which is missing outside Azure.
const MOST_METADATA: Duration = Duration::from_secs(2);
const MOST_BYTES: usize = 64 << 10;
/// The longest federated token.
const MOST_ASSERTION: u64 = 64 << 10;

/// The credentials of the environment.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) choice: CredentialChoice,
    /// The authorities of token services.
    pub(crate) certificates: Option<PathBuf>,
}

impl TokenSource for Credentials {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<Token, AcaError>> {
        Box::pin(self.find(scope))
    }
}

/// Why a kind gives no token.
enum Miss {
    /// It is not configured here.
    Absent(String),
    /// It is configured and fails.
    Failed(String),
}

impl Credentials {
    async fn find(&self, scope: &str) -> Result<Token, AcaError> {
        let kinds = CredentialKind::chosen(self.choice.kinds.as_deref());
        let kinds = kinds.map_err(|_| AcaError::Option {
            what: "value of AZURE_TOKEN_CREDENTIALS".to_owned(),
            reason: "it names no kind of credential that this version has".to_owned(),
            remedy: "use prod, dev, EnvironmentCredential, WorkloadIdentityCredential, \
                     ManagedIdentityCredential or AzureCliCredential"
                .to_owned(),
        })?;
        let mut misses = Vec::new();
        for kind in kinds {
            let found = match kind {
                CredentialKind::Environment => self.with_secret(scope).await,
                CredentialKind::Workload => self.with_federated_token(scope).await,
                CredentialKind::Managed => self.of_machine(scope).await,
                CredentialKind::Cli => self.of_command(scope).await,
            };
            match found {
                Ok(token) => return Ok(token),
                Err(Miss::Absent(why)) => misses.push(format!("{kind}: {why}")),
                Err(Miss::Failed(why)) => {
                    return Err(AcaError::Credential { reason: format!("{kind}: {why}") });
                }
            }
        }
        Err(AcaError::Credential { reason: misses.join("; ") })
    }

    async fn with_secret(&self, scope: &str) -> Result<Token, Miss> {
        let Some(secret) = self.choice.secret.as_ref().filter(|secret| !secret.is_empty()) else {
            return Err(Miss::Absent("AZURE_CLIENT_SECRET is not set".to_owned()));
        };
        self.exchange(scope, &[("client_secret", secret.expose())]).await
    }

    async fn with_federated_token(&self, scope: &str) -> Result<Token, Miss> {
        let Some(file) = self.choice.federated_token_file.clone() else {
            return Err(Miss::Absent("AZURE_FEDERATED_TOKEN_FILE is not set".to_owned()));
        };
        // Read each time: the platform renews the file.
        let read = tokio::task::spawn_blocking(move || {
            use std::io::Read;
            let mut text = String::new();
            std::fs::File::open(&file)?.take(MOST_ASSERTION).read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(Secret::new(text.trim()))
        });
        let assertion = match read.await {
            Ok(Ok(assertion)) => assertion,
            Ok(Err(error)) => {
                return Err(Miss::Failed(format!(
                    "cannot read AZURE_FEDERATED_TOKEN_FILE: {error}"
                )));
            }
            Err(_) => {
                return Err(Miss::Failed("cannot read AZURE_FEDERATED_TOKEN_FILE".to_owned()));
            }
        };
        let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
        let fields = [("client_assertion_type", kind), ("client_assertion", assertion.expose())];
        self.exchange(scope, &fields).await
    }

    /// The client credentials grant of OAuth 2.0.
    async fn exchange(&self, scope: &str, proof: &[(&str, &str)]) -> Result<Token, Miss> {
        let missing = |name: &str| Miss::Failed(format!("{name} is not set"));
        let tenant = self.choice.tenant.as_deref().ok_or_else(|| missing("AZURE_TENANT_ID"))?;
        let client = self.choice.client.as_deref().ok_or_else(|| missing("AZURE_CLIENT_ID"))?;
        let failed = |error: AcaError| Miss::Failed(error.to_string());
        let tenant = segment(tenant, "AZURE_TENANT_ID").map_err(failed)?;
        let authority = self.choice.authority.as_deref().unwrap_or(AUTHORITY);
        let authority = authority.trim_end_matches('/');
        let mut url = address(authority, "AZURE_AUTHORITY_HOST").map_err(failed)?;
        url.set_path(&format!("/{tenant}/oauth2/v2.0/token"));
        let own = [("client_id", client), ("grant_type", "client_credentials"), ("scope", scope)];
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(own)
            .extend_pairs(proof)
            .finish();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let request = Outgoing {
            method: Method::POST,
            url,
            headers: vec![(CONTENT_TYPE, form)],
            body: Bytes::from(body),
            limit: MOST_TIME,
            most_bytes: MOST_BYTES,
            reuses: false,
        };
        let answered = self.ask(request).await.map_err(Miss::Failed)?;
        token_of(&answered).map_err(Miss::Failed)
    }

    async fn of_machine(&self, scope: &str) -> Result<Token, Miss> {
        let resource = scope.strip_suffix("/.default").unwrap_or(scope);
        let (url, header, limit, is_named) =
            match (&self.choice.identity_endpoint, &self.choice.identity_header) {
                (Some(endpoint), Some(secret)) => {
                    let header = secret_header("x-identity-header", secret)?;
                    (identity_url(endpoint, "2019-08-01")?, header, MOST_TIME, true)
                }
                _ => {
                    let host = self.choice.metadata_host.as_deref().unwrap_or(METADATA);
                    let path =
                        format!("{}/metadata/identity/oauth2/token", host.trim_end_matches('/'));
                    let header =
                        (HeaderName::from_static("metadata"), HeaderValue::from_static("true"));
                    let is_named = self.choice.metadata_host.is_some();
                    (identity_url(&path, "2018-02-01")?, header, MOST_METADATA, is_named)
                }
            };
        let mut url = url;
        url.query_pairs_mut().append_pair("resource", resource);
        if let Some(client) = &self.choice.client {
            url.query_pairs_mut().append_pair("client_id", client);
        }
        let request = Outgoing {
            method: Method::GET,
            url,
            headers: vec![header],
            body: Bytes::new(),
            limit,
            most_bytes: MOST_BYTES,
            reuses: false,
        };
        match self.ask(request).await {
            Ok(answered) => token_of(&answered).map_err(Miss::Failed),
            Err(why) if is_named => Err(Miss::Failed(why)),
            Err(_) => Err(Miss::Absent("this machine has no identity of Azure".to_owned())),
        }
    }

    /// Sends a request for a token to its own host only.
    async fn ask(&self, request: Outgoing) -> Result<Answered, String> {
        let http = Http::new(&[&request.url], self.certificates.as_deref());
        let http = http.map_err(|error| error.to_string())?;
        http.send(request).await.map_err(|error| error.to_string())
    }

    /// Asks the command `az`, which holds the account of a person.
    async fn of_command(&self, scope: &str) -> Result<Token, Miss> {
        let path = self.choice.path.clone().unwrap_or_default();
        let found = std::env::split_paths(&path).filter(|place| place.is_absolute());
        let mut found = found.map(|place| place.join("az")).filter(|file| file.is_file());
        let Some(program) = found.next() else {
            return Err(Miss::Absent("there is no command az".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(["account", "get-access-token", "--output", "json", "--scope", scope]);
        if let Some(tenant) = &self.choice.tenant {
            let tenant = segment(tenant, "AZURE_TENANT_ID");
            let tenant = tenant.map_err(|error| Miss::Failed(error.to_string()))?;
            command.args(["--tenant", &tenant]);
        }
        command.stdin(std::process::Stdio::null()).kill_on_drop(true);
        let output = match timeout(MOST_TIME, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(Miss::Failed(format!("cannot start az: {error}"))),
            Err(_) => return Err(Miss::Failed("az does not answer".to_owned())),
        };
        if !output.status.success() {
            // Its messages may name accounts, so they stay out of ours.
            return Err(Miss::Absent("az has no account; run `az login`".to_owned()));
        }
        let answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| Miss::Failed("az does not answer with JSON".to_owned()))?;
        let secret = answer["accessToken"].as_str().filter(|token| !token.is_empty());
        let secret = secret.ok_or_else(|| Miss::Failed("az gives no token".to_owned()))?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_secs());
        // Older versions write only a local time; then the shortest life that Azure gives is taken.
        let until = answer["expires_on"].as_u64().unwrap_or(now + 600);
        let valid = Duration::from_secs(until.saturating_sub(now));
        Ok(Token { secret: Secret::new(secret), valid })
    }
}

fn secret_header(name: &'static str, secret: &Secret) -> Result<(HeaderName, HeaderValue), Miss> {
    let mut value = HeaderValue::from_str(secret.expose())
        .map_err(|_| Miss::Failed("IDENTITY_HEADER cannot be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok((HeaderName::from_static(name), value))
}

/// The address of an identity service, which is plain HTTP on the machine itself.
fn identity_url(text: &str, version: &str) -> Result<Url, Miss> {
    let wrong = || Miss::Failed(format!("{text:?} is not the address of an identity service"));
    let mut url = Url::parse(text).map_err(|_| wrong())?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    url.query_pairs_mut().append_pair("api-version", version);
    Ok(url)
}

/// The token in a response. Of an error only its code is kept: descriptions repeat what was sent.
fn token_of(answered: &Answered) -> Result<Token, String> {
    let body: Option<Value> = serde_json::from_slice(&answered.body).ok();
    if answered.status != 200 {
        let code = body.as_ref().and_then(|body| body["error"].as_str());
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let code = code.filter(|code| code.len() <= 64 && code.bytes().all(is_plain));
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        return Err(format!(
            "the token service answers with HTTP status {}{code}",
            answered.status
        ));
    }
    let body = body.ok_or("the token service does not answer with JSON")?;
    let secret = body["access_token"].as_str().filter(|token| !token.is_empty());
    let secret = secret.ok_or("the token service gives no token")?;
    // Some services write numbers as text.
    let seconds = &body["expires_in"];
    let seconds = seconds.as_u64().or_else(|| seconds.as_str()?.parse().ok()).unwrap_or(600);
    Ok(Token { secret: Secret::new(secret), valid: Duration::from_secs(seconds) })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderMap;

    use super::*;

    fn answered(status: u16, body: &str) -> Answered {
        Answered { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn error_of_a_token_service_keeps_its_code_and_nothing_that_was_sent() {
        let body = r#"{"error":"invalid_client","error_description":"AADSTS7000215: hunter2"}"#;
        let why = token_of(&answered(401, body)).unwrap_err();
        assert_eq!(why, "the token service answers with HTTP status 401 (invalid_client)");
        let why = token_of(&answered(500, r#"{"error":"hunter2 leaked"}"#)).unwrap_err();
        assert_eq!(why, "the token service answers with HTTP status 500");
        for body in ["", "[]", "{}", r#"{"access_token":""}"#, r#"{"access_token":7}"#] {
            assert!(token_of(&answered(200, body)).is_err(), "{body}");
        }
    }

    #[test]
    fn life_of_a_token_is_a_number_or_a_text() {
        for life in ["3599", "\"3599\""] {
            let body = format!(r#"{{"access_token":"t","expires_in":{life}}}"#);
            let token = token_of(&answered(200, &body)).unwrap();
            assert_eq!(token.valid, Duration::from_secs(3599));
            assert_eq!(token.secret, Secret::new("t"));
        }
    }
}
