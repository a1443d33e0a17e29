//! `stockade checkpoint`, `checkpoints`, `restore` and `discard`.

use std::time::Duration;

use serde_json::json;
use stockade_api::{CheckpointView, Reply, Request, RestoreParams};
use stockade_store::Reference;
use stockade_supervisor::checkpoint_view;

use super::place::{self, problem};
use crate::args::{CheckpointArgs, CheckpointCommand, CheckpointsArgs, DiscardArgs, RestoreArgs};
use crate::render::{self, Output};
use crate::sessions::client;
use crate::sessions::table::{since, size, table};

pub(crate) fn checkpoint(args: &CheckpointArgs, output: Output) -> anyhow::Result<u8> {
    if let Some(CheckpointCommand::Rm(args)) = &args.command {
        return remove(&args.checkpoints, output);
    }
    let session = args.session.as_deref().expect("clap requires it without a subcommand");
    let name = args.name.as_deref().expect("clap requires it without a subcommand");
    let view = make(session, name)?;
    match output {
        Output::Json => render::json(&view)?,
        Output::Text => {
            render::text(&format!("{}\n", view.reference))?;
            report(&view);
        }
    }
    Ok(0)
}

/// Makes a checkpoint of a running session.
pub(super) fn make(session: &str, name: &str) -> anyhow::Result<CheckpointView> {
    place::reference(session, name)?;
    let request = Request::Checkpoint { name: name.to_owned(), store: place::params()? };
    match ask(session, request)? {
        Reply::Checkpoint(view) => Ok(view),
        _ => Err(client::confused(session).into()),
    }
}

/// Prints what a checkpoint has, and what it has not.
fn report(view: &CheckpointView) {
    let paused = Duration::from_micros(view.paused_us);
    render::talk(&format!(
        "checkpoint: {} entries, {}, {} new in the store; programs were stopped for {paused:.1?}",
        view.entries,
        size(view.bytes),
        size(view.stored_bytes),
    ));
    for shared in &view.shared {
        render::talk(&format!("checkpoint: {shared} is a directory of the host and is not kept"));
    }
}

pub(crate) fn checkpoints(args: &CheckpointsArgs, output: Output) -> anyhow::Result<u8> {
    let store = place::open()?;
    let found = store.checkpoints(args.session.as_deref()).map_err(|error| problem(&error))?;
    let views: Vec<CheckpointView> = found.iter().map(checkpoint_view).collect();
    if output == Output::Json {
        render::json(&views)?;
        return Ok(0);
    }
    if args.quiet {
        views.iter().try_for_each(|view| render::text(&format!("{}\n", view.reference)))?;
        return Ok(0);
    }
    let heads = ["CHECKPOINT", "WALL", "ENTRIES", "SIZE", "NEW", "AGE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(views.iter().map(|view| {
        vec![
            view.reference.clone(),
            view.provider.clone(),
            view.entries.to_string(),
            size(view.bytes),
            size(view.stored_bytes),
            since(view.created_ms / 1000),
        ]
    }));
    render::text(&table(&rows))?;
    Ok(0)
}

fn remove(checkpoints: &[String], output: Output) -> anyhow::Result<u8> {
    let store = place::open()?;
    for text in checkpoints {
        let reference: Reference = text.parse().map_err(|error| problem(&error))?;
        store.remove(&reference).map_err(|error| problem(&error))?;
        if output == Output::Text {
            render::text(&format!("{reference}\n"))?;
        }
    }
    if output == Output::Json {
        render::json(&json!({ "removed": checkpoints }))?;
    }
    Ok(0)
}

pub(crate) fn restore(args: &RestoreArgs, output: Output) -> anyhow::Result<u8> {
    place::reference(&args.session, &args.checkpoint)?;
    let checkpoint = Some(args.checkpoint.clone());
    let params = RestoreParams {
        store: place::params()?,
        checkpoint,
        force: args.force,
        any_policy: args.any_policy,
    };
    let Reply::Checkpoint(view) = ask(&args.session, Request::Restore(params))? else {
        return Err(client::confused(&args.session).into());
    };
    match output {
        Output::Json => render::json(&view)?,
        Output::Text => render::text(&format!("{}\n", args.session))?,
    }
    Ok(0)
}

pub(crate) fn discard(args: &DiscardArgs, output: Output) -> anyhow::Result<u8> {
    let params = RestoreParams {
        store: place::params()?,
        checkpoint: None,
        force: args.force,
        any_policy: false,
    };
    let Reply::Done = ask(&args.session, Request::Restore(params))? else {
        return Err(client::confused(&args.session).into());
    };
    match output {
        Output::Json => render::json(&json!({ "discarded": args.session }))?,
        Output::Text => render::text(&format!("{}\n", args.session))?,
    }
    Ok(0)
}

/// Sends a request that may take as long as the files are large.
fn ask(session: &str, request: Request) -> anyhow::Result<Reply> {
    client::runtime()?.block_on(async {
        let mut stream = client::open(session, request).await?;
        client::reply(&mut stream, session).await
    })
}
