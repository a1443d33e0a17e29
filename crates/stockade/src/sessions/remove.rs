//! `stockade rm` and `stockade prune`.

use std::io::{IsTerminal, stderr, stdin};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use stockade_api::Request;
use stockade_backends::AzureChoice;
use stockade_supervisor::SessionName;

use super::client::{self, listed, refused};
use super::list::views;
use crate::args::{PruneSessionsArgs, RmArgs};
use crate::render::{self, Output};
use crate::{ERROR, Problem};

/// How long a killed supervisor may take to disappear.
const GONE: Duration = Duration::from_secs(5);

pub(crate) fn rm(args: &RmArgs, output: Output) -> anyhow::Result<u8> {
    let removed = remove_all(&args.sessions, args.force, output)?;
    if output == Output::Json && removed.len() == args.sessions.len() {
        render::json(&json!({ "removed": removed }))?;
    }
    Ok(if removed.len() == args.sessions.len() { 0 } else { ERROR })
}

pub(crate) fn prune(args: &PruneSessionsArgs, output: Output) -> anyhow::Result<u8> {
    // Listing removes what dead supervisors left.
    let sessions = client::runtime()?.block_on(views(listed()?));
    let is_idle = |running: Option<usize>| running == Some(0);
    let names: Vec<String> = sessions
        .into_iter()
        .filter(|(_, view)| is_idle(view.as_ref().map(|view| view.running)))
        .map(|(listed, _)| listed.name)
        .collect();
    if !names.is_empty() && !args.force {
        confirm(&names)?;
    }
    let mut removed = remove_all(&names, false, output)?;
    let swept = swept_from_azure(output)?;
    removed.extend(swept.clone().unwrap_or_default());
    if output == Output::Json {
        render::json(&json!({ "removed": removed }))?;
    }
    Ok(if swept.is_some() { 0 } else { ERROR })
}

/// Deletes what dead processes left in the sandbox group of Azure that the environment names, if it
/// names one. Returns nothing if that failed, which is reported.
fn swept_from_azure(output: Output) -> anyhow::Result<Option<Vec<String>>> {
    let azure = AzureChoice::default();
    if !azure.is_configured() {
        return Ok(Some(Vec::new()));
    }
    match client::runtime()?.block_on(azure.sweep()) {
        Ok(swept) => {
            if output == Output::Text {
                for id in &swept {
                    render::text(&format!("{id}\n"))?;
                }
            }
            Ok(Some(swept))
        }
        Err(error) => {
            let remedy = error.remedy.clone().unwrap_or_else(|| "see docs/azure.md".to_owned());
            let message = format!("cannot look for sandboxes left in Azure: {error}");
            render::failure(output, &Problem::new(message, remedy).into());
            Ok(None)
        }
    }
}

/// Asks on the terminal.
fn confirm(names: &[String]) -> anyhow::Result<()> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        let sessions = if names.len() == 1 { "session" } else { "sessions" };
        let message = format!("prune would end {} {sessions} with all files", names.len());
        return Err(Problem::new(message, "confirm it with --force").into());
    }
    render::talk(&format!("End these sessions with all files? {}  [y/N]", names.join(", ")));
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Problem::new("nothing was removed", "answer y, or add --force").into()),
    }
}

/// Removes sessions one by one, and reports each that cannot be removed. Returns the removed ones.
fn remove_all(names: &[String], force: bool, output: Output) -> anyhow::Result<Vec<String>> {
    let runtime = client::runtime()?;
    let mut removed = Vec::new();
    for name in names {
        let result = match runtime.block_on(client::ask(name, Request::Remove { force })) {
            Err(_) if force => end_supervisor(name),
            reply => reply.map(|_| ()),
        };
        match result {
            Ok(()) => {
                if output == Output::Text {
                    render::text(&format!("{name}\n"))?;
                }
                removed.push(name.clone());
            }
            Err(error) => render::failure(output, &error),
        }
    }
    Ok(removed)
}

/// Kills a supervisor that does not answer. Its sandbox ends with it.
fn end_supervisor(name: &str) -> anyhow::Result<()> {
    SessionName::parse(name).map_err(|error| refused(&error))?;
    let find = || -> anyhow::Result<Option<i32>> {
        let found = listed()?.into_iter().find(|listed| listed.name == name);
        Ok(found.and_then(|listed| i32::try_from(listed.supervisor).ok()))
    };
    let Some(supervisor) = find()? else {
        let message = format!("there is no session named {name}");
        return Err(Problem::new(message, "list the sessions with `stockade ls`").into());
    };
    // The supervisor holds the lock of the session, so the number is still its own.
    let pid = Pid::from_raw(supervisor).filter(|pid| !pid.is_init());
    let killed = pid.map(|pid| kill_process(pid, Signal::KILL));
    let deadline = Instant::now() + GONE;
    while find()?.is_some() {
        if Instant::now() > deadline {
            let message = format!("cannot end the supervisor {supervisor} of session {name}");
            let why = killed.and_then(Result::err).map(|errno| format!(": {errno}"));
            let message = format!("{message}{}", why.unwrap_or_default());
            return Err(Problem::new(message, "see what holds that process, with `ps`").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
