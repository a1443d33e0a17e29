//! The answers of sandboxes, their commands and their files.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::check::{Refusal, create, egress, fields};
use crate::machine::Machine;
use crate::paths::Files;
use crate::server::{Answer, Asked};
use crate::world::{Sandbox, World};

/// Answers a request below the sandbox group.
pub(crate) async fn answer(
    asked: &Asked,
    parts: &[&str],
    world: &Arc<World>,
) -> Result<Answer, Refusal> {
    let body = || asked.json().ok_or((400, "the body is not JSON".to_owned()));
    match (asked.method.as_str(), parts) {
        ("PUT", ["sandboxes"]) => {
            queries(asked, &[])?;
            let body = body()?;
            create(&body)?;
            let view = world.create(&body).map_err(|error| (500, format!("{error:#}")))?;
            return Ok(Answer::json(200, &view));
        }
        ("GET", ["sandboxes"]) => return list(asked, world),
        ("GET", ["snapshots", id]) => {
            queries(asked, &[])?;
            let found = world.lock().snapshots.get(*id).cloned();
            let found = found.ok_or((404, "there is no such snapshot".to_owned()))?;
            return Ok(Answer::json(200, &found));
        }
        ("DELETE", ["snapshots", id]) => {
            queries(asked, &[])?;
            let found = world.lock().snapshots.remove(*id);
            return Ok(Answer::nothing(if found.is_some() { 204 } else { 404 }));
        }
        _ => {}
    }
    let ["sandboxes", id, rest @ ..] = parts else { return Err(unknown()) };
    let found = world.lock().sandboxes.get(*id).cloned();
    let sandbox = found.ok_or((404, "there is no such sandbox".to_owned()))?;
    if rest.first() != Some(&"files") {
        queries(asked, &[])?;
    }
    match (asked.method.as_str(), rest) {
        ("GET", []) => {
            sandbox.look();
            Ok(Answer::json(200, &sandbox.view()))
        }
        ("DELETE", []) => {
            world.delete(id);
            Ok(Answer::nothing(202))
        }
        ("POST", ["egresspolicy"]) => {
            running(&sandbox)?;
            let policy = body()?;
            egress(&policy)?;
            sandbox.state().egress = policy.clone();
            Ok(Answer::json(200, &policy))
        }
        ("POST", ["stop"]) => {
            let mut state = sandbox.state();
            (state.name, state.stopped_reason) =
                ("Stopped".to_owned(), Some("UserStopped".to_owned()));
            Ok(Answer::nothing(204))
        }
        ("POST", ["resume"]) => {
            let after = world.lock().egress_after_resume.clone();
            let mut state = sandbox.state();
            (state.name, state.stopped_reason) = ("Running".to_owned(), None);
            if let Some(after) = after {
                state.egress = after;
            }
            Ok(Answer::nothing(204))
        }
        ("POST", ["snapshot"]) => {
            running(&sandbox)?;
            let body = body()?;
            fields(&body, &[], &["labels"], "the body")?;
            let id = format!("snap-{:08x}", world.number());
            let labels = body.get("labels").cloned().unwrap_or(json!({}));
            let snapshot = json!({ "id": id, "labels": labels, "sizeInMB": 1 });
            world.lock().snapshots.insert(id, snapshot.clone());
            Ok(Answer::json(200, &snapshot))
        }
        ("GET", ["egress-decisions"]) => {
            let state = sandbox.state();
            let body = json!({
                "networkEgress": { "allowed": state.allowed, "denied": state.denied },
                "lastUpdated": "2026-11-18T20:00:00Z",
            });
            Ok(Answer::json(200, &body))
        }
        ("GET", ["stats"]) => {
            running(&sandbox)?;
            Ok(Answer::json(200, &json!({ "cpu": {}, "memory": {}, "storage": {}, "network": {} })))
        }
        ("POST", ["executeShellCommand"]) => {
            running(&sandbox)?;
            let body = body()?;
            fields(&body, &["command"], &["workingDirectory"], "the body")?;
            let command = body["command"].as_str();
            let command = command.ok_or((400, "the command is not text".to_owned()))?;
            let directory = body.get("workingDirectory").and_then(Value::as_str).unwrap_or("/");
            let environment = sandbox.environment();
            let command = sandbox.machine.command(command, directory, &environment);
            let executed = Machine::execute(command).await;
            Ok(Answer::json(200, &executed.map_err(|error| (500, format!("{error:#}")))?))
        }
        (_, ["files", rest @ ..]) => {
            running(&sandbox)?;
            files(asked, rest, &Files(sandbox.machine.root()))
        }
        _ => Err(unknown()),
    }
}

fn unknown() -> Refusal {
    (404, "there is no such path".to_owned())
}

fn running(sandbox: &Sandbox) -> Result<(), Refusal> {
    match sandbox.state().name.as_str() {
        "Running" => Ok(()),
        _ => Err((409, "SandboxNotRunning".to_owned())),
    }
}

/// Refuses queries that the interface does not have.
fn queries(asked: &Asked, known: &[&str]) -> Result<(), Refusal> {
    let mut names = asked.query.keys().filter(|name| *name != "api-version");
    match names.find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err((400, format!("the query {unknown} is not known here"))),
        None => Ok(()),
    }
}

fn list(asked: &Asked, world: &World) -> Result<Answer, Refusal> {
    queries(asked, &["labels", "skip"])?;
    let wanted: Vec<(&str, &str)> = match asked.query.get("labels") {
        Some(text) => text
            .split(',')
            .map(|pair| pair.split_once('=').ok_or((400, "labels are not pairs".to_owned())))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let inner = world.lock();
    let views = inner.sandboxes.values().map(|sandbox| sandbox.view());
    let has = |view: &Value| wanted.iter().all(|(name, value)| view["labels"][*name] == *value);
    let found: Vec<Value> = views.filter(has).collect();
    let Some((length, next)) = &inner.page else {
        return Ok(Answer::json(200, &Value::Array(found)));
    };
    let skip: usize = asked.query.get("skip").and_then(|skip| skip.parse().ok()).unwrap_or(0);
    let page: Vec<Value> = found.iter().skip(skip).take(*length).cloned().collect();
    let mut body = json!({ "value": page });
    if skip + length < found.len() {
        let base = if next.is_empty() { &asked.origin } else { next };
        let labels = asked.query.get("labels").cloned().unwrap_or_default();
        body["nextLink"] =
            json!(format!("{base}{}?labels={labels}&skip={}", asked.path, skip + length));
    }
    Ok(Answer::json(200, &body))
}

fn files(asked: &Asked, rest: &[&str], files: &Files<'_>) -> Result<Answer, Refusal> {
    let path = || match asked.query.get("path").map(String::as_str) {
        Some(path) if path.starts_with('/') && !path.contains('\0') => Ok(path),
        _ => Err((400, "path is missing or not absolute".to_owned())),
    };
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => (404, "there is no such file".to_owned()),
        std::io::ErrorKind::DirectoryNotEmpty => (409, "the directory is not empty".to_owned()),
        std::io::ErrorKind::AlreadyExists => (409, "it exists already".to_owned()),
        _ => (400, error.to_string()),
    };
    let truth = |name: &str| match asked.query.get(name).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err((400, format!("{name} is neither true nor false"))),
    };
    match (asked.method.as_str(), rest) {
        ("GET", []) => {
            queries(asked, &["path"])?;
            Ok(Answer::bytes(files.read(path()?).map_err(failed)?))
        }
        ("PUT", []) => {
            queries(asked, &["path", "createDirs", "mode"])?;
            if asked.header("content-type").as_deref() != Some("application/octet-stream") {
                return Err((415, "the content is not application/octet-stream".to_owned()));
            }
            let mode = match asked.query.get("mode") {
                Some(mode) => Some(
                    u32::from_str_radix(mode, 8)
                        .map_err(|_| (400, "mode is not octal".to_owned()))?,
                ),
                None => None,
            };
            files.write(path()?, truth("createDirs")?, mode, &asked.body).map_err(failed)?;
            Ok(Answer::nothing(200))
        }
        ("DELETE", []) => {
            queries(asked, &["path", "recursive"])?;
            files.remove(path()?, truth("recursive")?).map_err(failed)?;
            Ok(Answer::nothing(204))
        }
        ("GET", ["list"]) => {
            queries(asked, &["path"])?;
            let found = files.list(path()?).map_err(failed)?;
            let entries: Vec<Value> =
                found.iter().map(|(name, metadata)| describe(name, metadata)).collect();
            Ok(Answer::json(200, &json!({ "path": path()?, "entries": entries })))
        }
        ("GET", ["stat"]) => {
            queries(asked, &["path"])?;
            let metadata = files.metadata(path()?).map_err(failed)?;
            let name = path()?.rsplit('/').next().unwrap_or_default();
            Ok(Answer::json(200, &describe(name, &metadata)))
        }
        ("POST", ["mkdir"]) => {
            queries(asked, &[])?;
            let body = asked.json().ok_or((400, "the body is not JSON".to_owned()))?;
            fields(&body, &["path"], &[], "the body")?;
            let place = body["path"].as_str().filter(|path| path.starts_with('/'));
            let place = place.ok_or((400, "path is not absolute".to_owned()))?;
            files.make_directories(std::path::Path::new(place)).map_err(failed)?;
            Ok(Answer::nothing(200))
        }
        _ => Err(unknown()),
    }
}

fn describe(name: &str, metadata: &std::fs::Metadata) -> Value {
    json!({
        "name": name,
        "size": metadata.len(),
        "isDirectory": metadata.is_dir(),
        "modifiedAt": "2026-11-18T20:00:00Z",
        "mode": format!("{:04o}", metadata.permissions().mode() & 0o7777),
    })
}
