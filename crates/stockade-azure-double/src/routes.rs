//! Which request is which, who may send it, and the answers of groups.

use std::sync::Arc;

use serde_json::json;

use crate::check::{Refusal, fields};
use crate::fault::Operation;
use crate::server::{Answer, Asked};
use crate::world::World;
use crate::{GROUP, RESOURCE_GROUP, SUBSCRIPTION, identity, sandbox_routes};

const VERSION: &str = "2026-02-01-preview";

/// The path of the sandbox group on the data plane.
fn data_group() -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/sandboxGroups/{GROUP}")
}

/// The path of the sandbox group in Azure Resource Manager.
pub(crate) fn arm_group() -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.App/\
         sandboxGroups/{GROUP}"
    )
}

fn operations(path: &str) -> Option<&str> {
    path.strip_prefix(&format!("/subscriptions/{SUBSCRIPTION}/operations/"))
}

/// The rest of a path below the sandbox group on the data plane, in parts.
fn parts(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix(&data_group())?.strip_prefix('/')?;
    Some(rest.split('/').collect())
}

/// What kind of request it is.
pub(crate) fn operation(asked: &Asked) -> Operation {
    let method = asked.method.as_str();
    if is_token(&asked.path) {
        return Operation::Token;
    }
    if asked.path == arm_group() {
        return if method == "PUT" { Operation::GroupPut } else { Operation::GroupGet };
    }
    let Some(parts) = parts(&asked.path) else { return Operation::Other };
    match (method, parts.as_slice()) {
        ("PUT", ["sandboxes"]) => Operation::Create,
        ("GET", ["sandboxes"]) => Operation::List,
        ("GET", ["sandboxes", _]) => Operation::Get,
        ("DELETE", ["sandboxes", _]) => Operation::Delete,
        ("POST", ["sandboxes", _, "executeShellCommand"]) => Operation::Execute,
        ("POST", ["sandboxes", _, "egresspolicy"]) => Operation::Egress,
        ("POST", ["sandboxes", _, "resume"]) => Operation::Resume,
        ("GET", ["sandboxes", _, "egress-decisions"]) => Operation::Decisions,
        ("GET", ["sandboxes", _, "files"]) => Operation::FileGet,
        ("PUT", ["sandboxes", _, "files"]) => Operation::FilePut,
        (_, ["sandboxes", _, "files", ..]) => Operation::FileOther,
        _ => Operation::Other,
    }
}

fn is_token(path: &str) -> bool {
    path.ends_with("/oauth2/v2.0/token")
        || path == "/msi/token"
        || path == "/metadata/identity/oauth2/token"
}

/// Answers a request.
pub(crate) async fn answer(asked: &Asked, world: &Arc<World>) -> Answer {
    match find(asked, world).await {
        Ok(answer) => answer,
        Err((status, message)) => Answer::error(status, "Refused", &message),
    }
}

async fn find(asked: &Asked, world: &Arc<World>) -> Result<Answer, Refusal> {
    if is_token(&asked.path) {
        return Ok(token(asked, world));
    }
    if asked.origin.starts_with("http://") {
        return Err((400, "only tokens of a machine come over plain HTTP".to_owned()));
    }
    let parts = parts(&asked.path);
    authorize(asked, world, if parts.is_some() { identity::DATA } else { identity::ARM })?;
    if asked.query.get("api-version").map(String::as_str) != Some(VERSION) {
        return Err((400, "api-version is missing or another one".to_owned()));
    }
    for name in ["x-ms-client-request-id", "user-agent"] {
        if asked.header(name).is_none_or(|value| value.is_empty()) {
            return Err((400, format!("the header {name} is missing")));
        }
    }
    match parts {
        Some(parts) => {
            if !world.lock().groups.contains_key(&arm_group()) {
                return Err((404, "the sandbox group does not exist".to_owned()));
            }
            sandbox_routes::answer(asked, &parts, world).await
        }
        None => group(asked, world),
    }
}

fn authorize(asked: &Asked, world: &World, scope: &str) -> Result<(), Refusal> {
    let header = asked.header("authorization").unwrap_or_default();
    let token = header.strip_prefix("Bearer ").unwrap_or_default();
    match world.lock().tokens.get(token) {
        Some(found) if found == scope => Ok(()),
        Some(_) => Err((401, "the token is for another audience".to_owned())),
        None => Err((401, "the token is not valid".to_owned())),
    }
}

fn token(asked: &Asked, world: &Arc<World>) -> Answer {
    let issued = match asked.path.strip_suffix("/oauth2/v2.0/token") {
        Some(tenant) => identity::exchange(world, tenant.trim_start_matches('/'), &asked.body),
        None => identity::of_machine(world, &asked.path, &asked.query, |name| asked.header(name)),
    };
    match issued {
        Ok(body) => Answer::json(200, &body),
        Err((status, text)) => {
            let (code, description) = text.split_once('\n').unwrap_or((&text, ""));
            Answer::json(status, &json!({ "error": code, "error_description": description }))
        }
    }
}

/// The sandbox group in Azure Resource Manager, and the operation that creates it.
fn group(asked: &Asked, world: &World) -> Result<Answer, Refusal> {
    let mut inner = world.lock();
    if let Some(name) = operations(&asked.path) {
        let Some((path, (group, left))) =
            inner.pending_groups.iter_mut().find(|(path, _)| path.ends_with(name))
        else {
            return Ok(Answer::json(200, &json!({ "status": "Succeeded" })));
        };
        if *left > 0 {
            *left -= 1;
            return Ok(Answer::json(200, &json!({ "status": "InProgress" })));
        }
        let (path, group) = (path.clone(), group.clone());
        inner.pending_groups.remove(&path);
        inner.groups.insert(path, group);
        return Ok(Answer::json(200, &json!({ "status": "Succeeded" })));
    }
    if asked.path != arm_group() {
        return Err((404, "there is no such path".to_owned()));
    }
    match asked.method.as_str() {
        "GET" => match inner.groups.get(&asked.path) {
            Some(group) => Ok(Answer::json(200, group)),
            None => Err((404, "the sandbox group does not exist".to_owned())),
        },
        "PUT" => {
            let body = asked.json().ok_or((400, "the body is not JSON".to_owned()))?;
            fields(&body, &["location"], &[], "the body")?;
            let mut group = json!({
                "id": asked.path,
                "name": GROUP,
                "location": body["location"],
                "properties": { "provisioningState": "Succeeded" },
            });
            inner.pending_groups.insert(asked.path.clone(), (group.clone(), 1));
            group["properties"]["provisioningState"] = json!("InProgress");
            let mut answer = Answer::json(201, &group);
            let operation = format!(
                "{}/subscriptions/{SUBSCRIPTION}/operations/{GROUP}?api-version={VERSION}",
                asked.origin
            );
            answer.headers.push(("azure-asyncoperation", operation));
            answer.headers.push(("retry-after", "0".to_owned()));
            Ok(answer)
        }
        _ => Err((405, "the method is not known here".to_owned())),
    }
}
