//! `stockade pause` and `stockade resume`.

use serde_json::json;
use stockade_api::Request;

use super::client;
use crate::args::SessionNames;
use crate::render::{self, Output};

pub(crate) fn pause(args: &SessionNames, output: Output) -> anyhow::Result<u8> {
    each(args, &Request::Pause, "paused", output)
}

pub(crate) fn resume(args: &SessionNames, output: Output) -> anyhow::Result<u8> {
    each(args, &Request::Resume, "resumed", output)
}

/// Sends a request to each session, and prints its name when it is carried out.
fn each(args: &SessionNames, request: &Request, done: &str, output: Output) -> anyhow::Result<u8> {
    let runtime = client::runtime()?;
    for name in &args.sessions {
        runtime.block_on(client::ask(name, request.clone()))?;
        if output == Output::Text {
            render::text(&format!("{name}\n"))?;
        }
    }
    if output == Output::Json {
        render::json(&json!({ done: args.sessions }))?;
    }
    Ok(0)
}
