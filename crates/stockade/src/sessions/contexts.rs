//! `stockade context`.

use std::time::Duration;

use serde_json::json;
use stockade_api::{ContextParams, ContextView, CreateContextParams, Reply, Request};
use tokio::time::timeout;

use super::client;
use super::summary::plain;
use super::table::{since, table};
use crate::Problem;
use crate::args::{ContextCommand, CreateContextArgs, LsContextsArgs, NamedContext};
use crate::render::{self, Output};
use crate::run::variables::{self, Said, Variables};

/// How long a supervisor may take to start an interpreter.
const STARTING: Duration = Duration::from_secs(40);

pub(crate) fn context(command: &ContextCommand, output: Output) -> anyhow::Result<u8> {
    match command {
        ContextCommand::Create(args) => create(args, output),
        ContextCommand::Ls(args) => ls(args, output),
        ContextCommand::Interrupt(named) => {
            act(named, output, |name| ContextParams::Interrupt { name })
        }
        ContextCommand::Restart(named) => {
            act(named, output, |name| ContextParams::Restart { name })
        }
        ContextCommand::Rm(named) => act(named, output, |name| ContextParams::Remove { name }),
    }
}

fn create(args: &CreateContextArgs, output: Output) -> anyhow::Result<u8> {
    let said = Said { variables: &args.env, files: &[], secrets: &args.env_secret };
    let Variables { environment, credentials } =
        variables::variables(&said, |name| std::env::var_os(name))?;
    let params = CreateContextParams {
        name: args.name.clone(),
        language: args.language.clone(),
        working_directory: args.workdir.clone(),
        environment,
        credentials,
    };
    let views = ask(&args.session, ContextParams::Create(params))?;
    match output {
        Output::Json => render::json(&views.first())?,
        Output::Text => {
            views.iter().try_for_each(|view| render::text(&format!("{}\n", plain(&view.name))))?;
        }
    }
    Ok(0)
}

fn ls(args: &LsContextsArgs, output: Output) -> anyhow::Result<u8> {
    let views = ask(&args.session, ContextParams::List)?;
    if output == Output::Json {
        render::json(&views)?;
        return Ok(0);
    }
    if args.quiet {
        views.iter().try_for_each(|view| render::text(&format!("{}\n", plain(&view.name))))?;
        return Ok(0);
    }
    let heads = ["NAME", "STATE", "CALLS", "AGE", "DIRECTORY"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(views.iter().map(row));
    render::text(&table(&rows))?;
    Ok(0)
}

fn row(view: &ContextView) -> Vec<String> {
    let state = match &view.why {
        Some(why) => format!("{} ({})", view.state, plain(why)),
        None => view.state.clone(),
    };
    let directory = view.working_directory.as_deref().unwrap_or("/workspace");
    vec![
        plain(&view.name),
        state,
        view.execution_count.to_string(),
        since(view.started),
        plain(directory),
    ]
}

fn act(
    named: &NamedContext,
    output: Output,
    params: impl FnOnce(String) -> ContextParams,
) -> anyhow::Result<u8> {
    ask(&named.session, params(named.name.clone()))?;
    match output {
        Output::Json => render::json(&json!({ "context": named.name }))?,
        Output::Text => render::text(&format!("{}\n", plain(&named.name)))?,
    }
    Ok(0)
}

/// Sends a request, and receives the contexts that answer it.
fn ask(session: &str, params: ContextParams) -> anyhow::Result<Vec<ContextView>> {
    let asked = async {
        let mut stream = client::open(session, Request::Context(params)).await?;
        client::reply(&mut stream, session).await
    };
    client::runtime()?.block_on(async {
        match timeout(STARTING, asked).await {
            Ok(reply) => match reply? {
                Reply::Contexts(views) => Ok(views),
                Reply::Done => Ok(Vec::new()),
                _ => Err(client::confused(session).into()),
            },
            Err(_) => {
                let message = format!("session {session} takes more than {STARTING:?} to answer");
                Err(Problem::new(message, format!("end it with `stockade rm -f {session}`")).into())
            }
        }
    })
}
