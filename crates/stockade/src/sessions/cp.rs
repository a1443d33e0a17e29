//! `stockade cp`.

mod bridge;
mod download;
mod endpoint;
mod upload;

use serde_json::json;
use stockade_api::{FileParams, FileResult, FileView, PathBytes, Reply, Request};

use super::client;
use crate::Problem;
use crate::args::CpArgs;
use crate::render::{self, Output};
use endpoint::Endpoint;

/// What was copied.
struct Copied {
    bytes: u64,
    left_out: u64,
    /// Some of what was left out, and why.
    examples: Vec<String>,
}

pub(crate) fn cp(args: &CpArgs, output: Output) -> anyhow::Result<u8> {
    let (source, target) = (Endpoint::parse(&args.source), Endpoint::parse(&args.target));
    let runtime = client::runtime()?;
    let copied = match (&source, &target) {
        (Endpoint::Session { name, path }, Endpoint::Stream) => {
            runtime.block_on(download::to_stream(name, path, args.follow_link))?
        }
        (Endpoint::Session { name, path }, Endpoint::Host(host)) => {
            runtime.block_on(download::to_host(name, path, host, args.follow_link))?
        }
        (Endpoint::Stream, Endpoint::Session { name, path }) => {
            runtime.block_on(upload::from_stream(name, path))?
        }
        (Endpoint::Host(host), Endpoint::Session { name, path }) => {
            runtime.block_on(upload::from_host(host, name, path, args.follow_link))?
        }
        _ => {
            let message = "cannot copy: exactly one of the two places must be in a session";
            return Err(Problem::new(message, "write it as SESSION:PATH, such as s:data").into());
        }
    };
    let Copied { bytes, left_out, examples } = copied;
    match (output, &target) {
        (Output::Json, Endpoint::Host(_) | Endpoint::Session { .. }) => {
            render::json(&json!({ "bytes": bytes, "left_out": left_out }))?;
        }
        _ if left_out > 0 => {
            let examples: Vec<String> = examples.iter().map(|one| format!("\n  {one}")).collect();
            render::talk(&format!("left out {left_out} entries{}", examples.concat()));
        }
        _ => {}
    }
    Ok(0)
}

/// A path for the supervisor.
fn bytes(path: &[u8]) -> anyhow::Result<PathBytes> {
    let cannot = |error| {
        let message = format!("cannot use the path {}: {error}", path.escape_ascii());
        Problem::new(message, "use a shorter path without NUL bytes")
    };
    Ok(PathBytes::try_from(path.to_vec()).map_err(cannot)?)
}

/// Describes a path in a session; `None` if nothing is there.
async fn stat(name: &str, path: &[u8], follow: bool) -> anyhow::Result<Option<FileView>> {
    let params = FileParams::Stat { path: bytes(path)?, follow };
    match client::ask(name, Request::File(params)).await? {
        Reply::File(FileResult { mut entries, .. }) if entries.len() == 1 => Ok(entries.pop()),
        Reply::FileFailed { kind, .. } if kind == "not_found" => Ok(None),
        Reply::FileFailed { failure, .. } => Err(client::failed(failure).into()),
        _ => Err(client::confused(name).into()),
    }
}
