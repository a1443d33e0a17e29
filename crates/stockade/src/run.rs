//! `stockade run`.

pub(crate) mod account;
pub(crate) mod amount;
mod changeable;
mod flags;
mod hints;
pub(crate) mod input;
pub(crate) mod interrupt;
mod learn;
mod record;
pub(crate) mod request;
pub(crate) mod script;
mod summary;
pub(crate) mod tools;
pub(crate) mod trouble;
mod words;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::pin::pin;

use serde::Serialize;
use stockade_backends::HostProcess;
use stockade_engine::{Engine, RunError, RunReport, RunRequest, Streams};
use tokio::runtime::Builder;

use crate::args::{RunArgs, Target};
use crate::render::live::{self, Escapes};
use crate::render::{self, Output};
use crate::{Problem, load};

use input::Input;
use interrupt::Interrupts;
use tools::Offered;

/// The JSON output of a run.
#[derive(Serialize)]
struct RunView<'r> {
    #[serde(flatten)]
    report: &'r RunReport,
    /// Advice for a person; no decision depends on it.
    hints: &'r [String],
}

pub(crate) fn run(args: &RunArgs, output: Output) -> anyhow::Result<u8> {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let Some(target) = args.target(&argv) else {
        let remedy = "write `stockade run script.py`, or `stockade run -- ls -l`";
        return Err(Problem::new("nothing to run was named", remedy).into());
    };
    let script = match target {
        Target::Script(script, _) => Some(Path::new(script)),
        Target::Command(_) => None,
    };
    let texts = || args.sandbox.texts().chain(script);
    // Nothing is open yet: everything from here on is opened with the account's rights.
    if let Some(name) = &args.as_user {
        let named = account::Named { variables: &args.sandbox.env, files: texts().collect() };
        account::become_account(name, &named)?;
    }
    load::refuse_shared_input(texts())?;
    let surroundings = request::surroundings(&args.sandbox)?;
    let containers = request::containers(&args.sandbox)?;
    let providers = stockade_backends::providers(HostProcess::Exits, &surroundings, &containers);
    let engine = Engine::new(providers);
    let learned = args.learn.as_deref().map(learn::Place::open).transpose()?;
    let (request, offered, asked) = request::request(args, target, args.options(&argv), output)?;
    let offered_names: Vec<String> = offered.names().map(str::to_owned).collect();
    let policy = request.session.policy.clone();
    // A policy, tools file or script on standard input leaves no input for the program.
    let is_input_used = texts().any(load::is_standard_input);
    let is_empty = args.no_input || is_input_used;
    let escapes = if args.raw { Escapes::Raw } else { Escapes::Shown };
    let stdin = if is_empty { None } else { Input::stdin() };
    let streams = Streams {
        stdin: stdin.map(|input| Box::new(input) as Box<_>),
        live: match output {
            Output::Json => None,
            Output::Text => {
                Some((Box::new(live::stdout(escapes)), Box::new(live::stderr(escapes))))
            }
        },
        capture: output == Output::Json,
    };
    let report = execute(&engine, request, offered, streams)?;
    if let Some(place) = learned {
        place.write(&args.sandbox.flags, &offered_names, &report)?;
    }
    let hints = hints::of_report(&report, &asked);
    if output == Output::Json {
        render::json(&RunView { report: &report, hints: &hints })?;
    } else if !args.quiet {
        render::talk_of_run(&summary::lines(&report, &policy, &hints));
    }
    Ok(report.outcome.cli_code())
}

/// Runs a request on this thread.
fn execute(
    engine: &Engine,
    mut request: RunRequest,
    offered: Offered,
    streams: Streams,
) -> anyhow::Result<RunReport> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot wait for a program and its output: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    reserve_descriptors().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let interrupts = Interrupts::wanted();
    let result: Result<Result<RunReport, RunError>, Problem> = runtime.block_on(async {
        let mut interrupted = pin!(interrupts.come().map_err(cannot)?);
        let tools = tokio::select! {
            biased;
            () = &mut interrupted => None,
            tools = offered.start(&request.session.policy) => Some(tools?),
        };
        let Some(tools) = tools else {
            let message = "stopped while servers of tools were started";
            return Err(Problem::new(message, "run it again"));
        };
        request.session.tools = tools.clone();
        let result = engine.run(request, streams, interrupted).await;
        tools.end().await;
        Ok(result)
    });
    interrupts.release();
    match result {
        // Tasks own the started servers and kill them when dropped.
        Err(_) => runtime.shutdown_background(),
        // The process exits next: skips waiting for blocked streams and for the launcher's exit.
        Ok(_) => std::mem::forget(runtime),
    }
    Ok(result?.map_err(|error| trouble::problem(&error))?)
}

/// More than a run needs, with every stream and signal.
const DESCRIPTORS: usize = 40;

/// Fails early if too few descriptors are available. Without them the runtime would panic when it
/// registers signal handlers.
pub(crate) fn reserve_descriptors() -> std::io::Result<()> {
    let first = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
    // The kernel assigns the lowest free number: far from the limit the trial is unnecessary.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let taken = u64::try_from(first.as_raw_fd()).unwrap_or(u64::MAX);
    if limit.is_none_or(|limit| limit.saturating_sub(taken) > 16 * DESCRIPTORS as u64) {
        return Ok(());
    }
    let reserved: Result<Vec<_>, _> =
        (0..DESCRIPTORS).map(|_| rustix::io::fcntl_dupfd_cloexec(&first, 0)).collect();
    reserved?;
    Ok(())
}
