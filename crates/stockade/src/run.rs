//! `stockade run`.

pub(crate) mod account;
pub(crate) mod amount;
mod certificates;
mod changeable;
pub(crate) mod flags;
mod hints;
pub(crate) mod image;
pub(crate) mod input;
pub(crate) mod interrupt;
mod learn;
pub(crate) mod narrowing;
mod record;
pub(crate) mod request;
mod requests;
pub(crate) mod script;
mod summary;
pub(crate) mod tools;
pub(crate) mod trouble;
mod uses;
pub(crate) mod variables;
mod words;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use stockade_backends::HostProcess;
use stockade_engine::{Cancel, Engine, Kept, RunError, RunReport, RunRequest, Streams};
use stockade_policy::Policy;
use stockade_store::Store;
use tokio::runtime::Builder;

use crate::args::{RunArgs, SandboxArgs, Target};
use crate::render::lines::Denials;
use crate::render::live::{self, Escapes};
use crate::render::{self, Output};
use crate::state::{origin, place};
use crate::{ERROR, Problem, invocation, load};

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
    if args.json_lines {
        return in_lines(args, output);
    }
    let Ended { report, hints, policy } = perform(args, output, None)?;
    if output == Output::Json {
        let mut view = serde_json::to_value(RunView { report: &report, hints: &hints })?;
        if args.short {
            view.as_object_mut().and_then(|view| view.shift_remove("isolation"));
        }
        render::json(&view)?;
    } else if !args.quiet {
        render::talk_of_run(&summary::lines(&report, &policy, &hints));
    }
    Ok(report.outcome.cli_code())
}

/// Runs with one JSON object per event. An error is an event too.
fn in_lines(args: &RunArgs, output: Output) -> anyhow::Result<u8> {
    if output == Output::Json {
        let message = "--json and --json-lines exclude each other";
        return Err(Problem::new(message, "keep one of the two").into());
    }
    let denials = Denials::start();
    let ended = perform(args, Output::Json, Some(&denials));
    denials.end();
    let (mut fields, code) = match ended {
        Ok(Ended { report, hints, .. }) => {
            let view = serde_json::to_value(RunView { report: &report, hints: &hints })?;
            (view, report.outcome.cli_code())
        }
        Err(error) => {
            let problem = error.downcast_ref::<Problem>();
            let remedy = problem.map(|problem| problem.remedy.as_str());
            render::error_line(&format!("{error:#}"), remedy)?;
            return Ok(ERROR);
        }
    };
    let mut line = json!({ "event": "end" });
    for (name, value) in fields.as_object_mut().into_iter().flatten() {
        // The output was printed while the program ran.
        if name != "stdout" && name != "stderr" {
            line[name.as_str()] = value.take();
        }
    }
    render::json_line(&line)?;
    Ok(code)
}

/// What a run leaves to be printed.
struct Ended {
    report: RunReport,
    hints: Vec<String>,
    policy: Arc<Policy>,
}

/// Runs what the arguments name. `denials` prints denials while it runs.
fn perform(args: &RunArgs, output: Output, denials: Option<&Denials>) -> anyhow::Result<Ended> {
    let argv: Vec<std::ffi::OsString> = invocation::arguments();
    let named = args.target(&argv);
    if named.is_none() && args.sandbox.image.is_none() {
        let remedy = "write `stockade run script.py`, or `stockade run -- ls -l`";
        return Err(Problem::new("nothing to run was named", remedy).into());
    }
    let script = match named {
        Some(Target::Script(script, _)) => Some(Path::new(script)),
        Some(Target::Command(_)) | None => None,
    };
    let texts = || args.sandbox.texts().chain(script);
    // Nothing is open yet: everything from here on is opened with the account's rights.
    if let Some(name) = &args.as_user {
        let variables = [&args.sandbox.env[..], &args.sandbox.env_secret].concat();
        let named = account::Named { variables: &variables, files: texts().collect() };
        account::become_account(name, &named)?;
    }
    load::refuse_shared_input(texts())?;
    let surroundings = request::surroundings(&args.sandbox)?;
    let containers = request::containers(&args.sandbox)?;
    let messages = if args.quiet { image::Messages::Hidden } else { image::Messages::Shown };
    let own = match script {
        Some(_) => image::OwnProgramUse::Never,
        None => image::OwnProgramUse::Possible,
    };
    let image = image::find(&args.sandbox, &containers, own, messages)?;
    let own = image::own_program(image.as_ref(), named)?;
    let image = image.map(|image| image.for_program(own.is_some()));
    if let Some(image) = image.as_ref().filter(|_| !args.quiet) {
        image.report();
    }
    let target = match (&own, named) {
        (Some(own), _) => Target::Command(&own.argv),
        (None, Some(named)) => named,
        (None, None) => return Err(image::no_program(&args.sandbox).into()),
    };
    let providers = stockade_backends::providers(HostProcess::Exits, &surroundings, &containers);
    let engine = Engine::new(providers);
    let learned = args.learn.as_deref().map(learn::PolicyTarget::open).transpose()?;
    let place = own.as_ref().and_then(|own| own.working_directory.as_deref());
    let started = request::RunTarget { target, image: image.as_ref(), working_directory: place };
    let (request, offered, asked) =
        request::request(args, started, args.options(&argv), output, denials)?;
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
            Output::Json if args.json_lines => {
                Some((Box::new(live::lines("stdout")), Box::new(live::lines("stderr"))))
            }
            Output::Json => None,
            Output::Text => {
                Some((Box::new(live::stdout(escapes)), Box::new(live::stderr(escapes))))
            }
        },
        capture: output == Output::Json && !args.json_lines,
    };
    if args.json_lines {
        let session = request.session.recorder.as_ref().map(|recorder| recorder.session());
        render::json_line(&json!({ "event": "start", "session": session }))?;
    }
    let keep = match &args.keep {
        Some(name) => Some(checkpoint_of_run(name, &args.sandbox, &request, &offered)?),
        None => None,
    };
    let report = execute(&engine, request, offered, streams, keep)?;
    if let Some(place) = learned {
        place.write(&args.sandbox.flags, &offered_names, &report)?;
    }
    let hints = hints::of_report(&report, &asked);
    Ok(Ended { report, hints, policy })
}

/// The session of the checkpoints of single runs.
const RUNS: &str = "run";

/// The checkpoint under which a run is kept. Refuses an invalid or used name before anything runs.
fn checkpoint_of_run(
    name: &str,
    args: &SandboxArgs,
    request: &RunRequest,
    offered: &Offered,
) -> anyhow::Result<(Store, Kept)> {
    let store = place::open()?;
    let reference = place::reference(RUNS, name)?;
    store.check_free(&reference).map_err(|error| place::problem(&error))?;
    let origin = origin::of(args, &request.session, offered)?;
    Ok((store, Kept { reference, ancestors: Vec::new(), origin }))
}

/// Runs a request on this thread.
fn execute(
    engine: &Engine,
    mut request: RunRequest,
    offered: Offered,
    streams: Streams,
    keep: Option<(Store, Kept)>,
) -> anyhow::Result<RunReport> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot wait for a program and its output: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    reserve_descriptors().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let interrupts = Interrupts::wanted();
    let result: Result<Result<RunReport, RunError>, Problem> = runtime.block_on(async {
        let mut interrupted = Box::pin(interrupts.come().map_err(cannot)?);
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
        // During the grace of a cancelled program, a second signal ends the grace. A third ends
        // this process; the wall then kills everything inside.
        let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let released = interrupts.clone();
        tokio::spawn(async move {
            for _ in 0..2 {
                interrupted.as_mut().await;
                let _ = sender.send(());
            }
            released.release();
            // An open channel has nothing more to say; a closed one would ask again and again.
            std::future::pending::<()>().await;
        });
        let cancelled = Cancel::repeated(move |context| asked.poll_recv(context).map(|_| ()));
        let result = match keep {
            None => engine.run(request, streams, cancelled).await,
            Some((store, kept)) => {
                let kept = engine.run_and_keep(request, streams, cancelled, &store, kept);
                kept.await.map(|(report, _)| report)
            }
        };
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
