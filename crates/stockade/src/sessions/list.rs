//! What there is: `ls`, `ps`, `inspect` and `stats`.

use std::time::Duration;

use serde_json::{Value, json};
use stockade_api::{Reply, Request, SessionView, StatsView};
use stockade_supervisor::Listed;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{self, listed};
use super::summary::plain;
use super::table::{since, size, table};
use crate::args::{LsSessionsArgs, PsArgs, SessionNames, StatsArgs};
use crate::render::{self, Output};
use crate::shell::shell_word;

/// How long `ls` waits for one session; all are asked at the same time.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn ls(args: &LsSessionsArgs, output: Output) -> anyhow::Result<u8> {
    let sessions = listed()?;
    if args.quiet && output == Output::Text {
        sessions.iter().try_for_each(|listed| render::text(&format!("{}\n", listed.name)))?;
        return Ok(0);
    }
    let sessions = client::runtime()?.block_on(views(sessions));
    if output == Output::Json {
        let views: Vec<Value> = sessions.iter().map(|(listed, view)| line(listed, view)).collect();
        render::json(&views)?;
        return Ok(0);
    }
    let heads = ["NAME", "STATE", "RUNNING", "POLICY", "WALL", "AGE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (listed, view) in &sessions {
        let of = |text: fn(&SessionView) -> String| view.as_ref().map(text).unwrap_or_default();
        rows.push(vec![
            listed.name.clone(),
            state(view.as_ref()),
            of(|view| view.running.to_string()),
            of(|view| view.policy.clone()),
            of(|view| view.provider.clone()),
            since(listed.created),
        ]);
    }
    render::text(&table(&rows))?;
    Ok(0)
}

/// Each session with its supervisor's description, if that answers.
pub(super) async fn views(sessions: Vec<Listed>) -> Vec<(Listed, Option<SessionView>)> {
    let mut asked = JoinSet::new();
    for listed in sessions {
        asked.spawn(async move {
            let reply = timeout(PATIENCE, client::ask(&listed.name, Request::Inspect)).await;
            let view = match reply {
                Ok(Ok(Reply::Session(view))) => Some(*view),
                _ => None,
            };
            (listed, view)
        });
    }
    let mut views = asked.join_all().await;
    views.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    views
}

fn state(view: Option<&SessionView>) -> String {
    // A supervisor does not answer while it creates its session.
    view.map_or_else(|| "unanswered".to_owned(), |view| view.state.clone())
}

fn line(listed: &Listed, view: &Option<SessionView>) -> Value {
    let Listed { name, supervisor, created } = listed;
    json!({
        "name": name,
        "state": state(view.as_ref()),
        "supervisor": supervisor,
        "created": created,
        "running": view.as_ref().map(|view| view.running),
        "executions": view.as_ref().map(|view| view.executions),
        "policy": view.as_ref().map(|view| &view.policy),
        "provider": view.as_ref().map(|view| &view.provider),
        "record": view.as_ref().and_then(|view| view.record.as_ref()),
    })
}

pub(crate) fn ps(args: &PsArgs, output: Output) -> anyhow::Result<u8> {
    let name = &args.session;
    let reply = client::runtime()?.block_on(client::ask(name, Request::Ps))?;
    let Reply::Executions(mut views) = reply else { return Err(client::confused(name).into()) };
    views.retain(|view| args.all || view.state == "running");
    if output == Output::Json {
        render::json(&views)?;
        return Ok(0);
    }
    if args.quiet {
        views.iter().try_for_each(|view| render::text(&format!("{}\n", view.execution)))?;
        return Ok(0);
    }
    let heads = ["EXECUTION", "STATE", "CODE", "AGE", "COMMAND"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(views.iter().map(|view| {
        vec![
            view.execution.to_string(),
            view.state.clone(),
            view.code.map(|code| code.to_string()).unwrap_or_default(),
            since(view.started),
            command(&view.command),
        ]
    }));
    render::text(&table(&rows))?;
    Ok(0)
}

/// A command as a user would type it, on one line.
fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    plain(&words.join(" "))
}

pub(crate) fn inspect(args: &SessionNames) -> anyhow::Result<u8> {
    let views = client::runtime()?.block_on(async {
        let mut views = Vec::new();
        for name in &args.sessions {
            match client::ask(name, Request::Inspect).await? {
                Reply::Session(view) => views.push(view),
                _ => return Err(client::confused(name).into()),
            }
        }
        anyhow::Ok(views)
    })?;
    render::json(&views)?;
    Ok(0)
}

pub(crate) fn stats(args: &StatsArgs, output: Output) -> anyhow::Result<u8> {
    let names = match args.sessions.is_empty() {
        true => listed()?.into_iter().map(|listed| listed.name).collect(),
        false => args.sessions.clone(),
    };
    let stats = client::runtime()?.block_on(async {
        let mut stats: Vec<(String, StatsView)> = Vec::new();
        for name in names {
            match client::ask(&name, Request::Stats).await? {
                Reply::Stats(view) => stats.push((name, view)),
                _ => return Err(client::confused(&name).into()),
            }
        }
        anyhow::Ok(stats)
    })?;
    if output == Output::Json {
        let lines = stats.iter().map(|(name, stats)| {
            let mut line = json!({ "name": name });
            if let (Some(line), Ok(Value::Object(stats))) =
                (line.as_object_mut(), serde_json::to_value(stats))
            {
                line.extend(stats);
            }
            line
        });
        render::json(&lines.collect::<Vec<Value>>())?;
        return Ok(0);
    }
    let heads = ["NAME", "RUNNING", "CPU", "MEMORY PEAK", "TASKS PEAK", "OOM KILLS"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let unknown = || "unknown".to_owned();
    rows.extend(stats.into_iter().map(|(name, stats)| {
        vec![
            name,
            stats.running.to_string(),
            stats.cpu_ms.map_or_else(unknown, |cpu| format!("{cpu} ms")),
            stats.memory_peak_bytes.map_or_else(unknown, size),
            stats.tasks_peak.map_or_else(unknown, |tasks| tasks.to_string()),
            stats.oom_kills.to_string(),
        ]
    }));
    render::text(&table(&rows))?;
    Ok(0)
}
