//! Token services: the client credentials grant, and the identity of a machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use url::form_urlencoded;

use crate::check::Refusal;
use crate::world::World;

pub(crate) const TENANT: &str = "11111111-1111-1111-1111-111111111111";
pub(crate) const CLIENT: &str = "22222222-2222-2222-2222-222222222222";
pub(crate) const SECRET: &str = "the-client-secret-of-the-double";
pub(crate) const ASSERTION: &str = "the-federated-token-of-the-double";
pub(crate) const IDENTITY_HEADER: &str = "the-identity-header-of-the-double";
pub(crate) const DATA: &str = "https://dynamicsessions.io";
pub(crate) const ARM: &str = "https://management.azure.com";
/// Tokens that are valid from the start, for clients that bring their own.
pub(crate) const STATIC: [(&str, &str); 2] =
    [("static-data-token", DATA), ("static-arm-token", ARM)];

/// The answer of the token endpoint.
pub(crate) fn exchange(world: &Arc<World>, tenant: &str, body: &[u8]) -> Result<Value, Refusal> {
    let refused = |code: &str| {
        // Repeats what was sent, as careless services do: a client must not show it.
        let sent = String::from_utf8_lossy(body);
        (401, format!("{code}\n{sent}"))
    };
    let form: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let known = [
        "client_id",
        "grant_type",
        "scope",
        "client_secret",
        "client_assertion",
        "client_assertion_type",
    ];
    if form.keys().any(|name| !known.contains(&name.as_str())) {
        return Err(refused("invalid_request"));
    }
    if tenant != TENANT || field("client_id") != CLIENT {
        return Err(refused("unauthorized_client"));
    }
    if field("grant_type") != "client_credentials" {
        return Err(refused("unsupported_grant_type"));
    }
    let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    let proven = field("client_secret") == SECRET
        || (field("client_assertion") == ASSERTION && field("client_assertion_type") == kind);
    if !proven {
        return Err(refused("invalid_client"));
    }
    issue(world, field("scope").strip_suffix("/.default").unwrap_or_default())
}

/// The answer of a machine's identity service.
pub(crate) fn of_machine(
    world: &Arc<World>,
    path: &str,
    query: &BTreeMap<String, String>,
    header: impl Fn(&str) -> Option<String>,
) -> Result<Value, Refusal> {
    let version = query.get("api-version").map(String::as_str);
    let allowed = match path {
        "/msi/token" => {
            version == Some("2019-08-01")
                && header("x-identity-header").as_deref() == Some(IDENTITY_HEADER)
        }
        "/metadata/identity/oauth2/token" => {
            version == Some("2018-02-01") && header("metadata").as_deref() == Some("true")
        }
        _ => false,
    };
    if !allowed {
        return Err((400, "invalid_request".to_owned()));
    }
    issue(world, query.get("resource").map(String::as_str).unwrap_or_default())
}

fn issue(world: &Arc<World>, audience: &str) -> Result<Value, Refusal> {
    if audience != DATA && audience != ARM {
        return Err((400, "invalid_scope".to_owned()));
    }
    let token = format!("issued-token-{}", world.number());
    world.lock().tokens.insert(token.clone(), audience.to_owned());
    Ok(json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3599 }))
}
