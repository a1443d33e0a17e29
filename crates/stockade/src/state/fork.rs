//! `stockade fork`.

use std::ffi::OsString;

use serde_json::json;
use stockade_supervisor::SessionName;

use super::keep::make;
use super::place::{self, problem};
use crate::Problem;
use crate::args::{Cli, Command, CreateArgs, ForkArgs};
use crate::render::{self, Output};
use crate::sessions::{client::refused, started};

pub(crate) fn fork(args: &ForkArgs, output: Output) -> anyhow::Result<u8> {
    let reference = match &args.from {
        Some(name) => place::reference(&args.session, name)?,
        None => {
            let name = SessionName::random()?.as_str().replace("session-", "fork-");
            place::reference(&args.session, &make(&args.session, &name)?.name)?
        }
    };
    // Before anything is started.
    let checkpoint = place::open()?.checkpoint(&reference).map_err(|error| problem(&error))?;
    if checkpoint.imported && !args.trust_import {
        let message = "the checkpoint is imported: its author chose its policy, tools and mounts";
        let remedy = "if you trust the author, add --trust-import; to get only its files, restore it \
                      in a session with the same policy, or apply it with --to";
        return Err(Problem::new(message, remedy).into());
    }
    let mut names = Vec::new();
    for number in 1..=args.count {
        let mut words: Vec<OsString> =
            ["stockade", "create", "--from-checkpoint"].into_iter().map(OsString::from).collect();
        words.push(reference.to_string().into());
        if let Some(name) = &args.name {
            let name = if args.count == 1 { name.clone() } else { format!("{name}-{number}") };
            SessionName::parse(&name).map_err(|error| refused(&error))?;
            words.extend(["--name".into(), name.into()]);
        }
        match started(&parsed(&words)?, &words)? {
            Ok(view) => {
                if output == Output::Text {
                    render::text(&format!("{}\n", view.name))?;
                }
                names.push(view.name);
            }
            // The supervisor has printed why.
            Err(code) => return Ok(code),
        }
    }
    if output == Output::Json {
        render::json(&json!({ "checkpoint": reference.to_string(), "sessions": names }))?;
    }
    Ok(0)
}

fn parsed(words: &[OsString]) -> anyhow::Result<CreateArgs> {
    match <Cli as clap::Parser>::try_parse_from(words)?.command {
        Command::Create(args) => Ok(*args),
        _ => unreachable!("the words name the command"),
    }
}
