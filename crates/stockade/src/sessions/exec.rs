//! Programs of a session: `exec`, `code`, `shell` and `attach`.

use std::io::{IsTerminal, stdin};
use std::path::Path;
use std::pin::pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stockade_api::{
    ContextParams, ExecuteParams, Frame, ProgramParams, Reply, Request, RunInContextParams,
    write_frame,
};
use stockade_provider::{Language, Program};
use tokio::net::UnixStream;

use super::conversation::{Accepted, Ended, Ends, Sink, accepted, follow};
use super::results::ResultFiles;
use super::terminal::{self, RawTerminal};
use super::{client, summary};
use crate::args::{AttachArgs, CodeArgs, ExecArgs, ProgramArgs, ShellArgs};
use crate::render::live::Escapes;
use crate::render::{self, Output};
use crate::run::input::Input;
use crate::run::interrupt::Interrupts;
use crate::run::script;
use crate::run::variables::{self, Said, Variables};
use crate::{Problem, load};

/// The size of a frame of code.
const CODE_BYTES: usize = 256 << 10;

/// SIGINT and SIGTERM.
const PROXIED: [i32; 2] = [2, 15];

/// What to do with a program's streams.
#[derive(Clone, Copy)]
struct Manner {
    output: Output,
    escapes: Escapes,
    is_quiet: bool,
    /// Whether the report in JSON omits the plan.
    is_short: bool,
    has_input: bool,
    has_terminal: bool,
}

pub(crate) fn exec(args: &ExecArgs, output: Output) -> anyhow::Result<u8> {
    if args.tty {
        check_terminal(output, args.interactive)?;
    }
    let program = ProgramParams::Command { argv: args.command.clone() };
    let params = ExecuteParams {
        terminal: args.tty.then(terminal::size),
        detach: args.detach,
        input: args.interactive,
        ..params(&args.program, program, args.tty)?
    };
    let manner = Manner {
        has_input: args.interactive,
        has_terminal: args.tty,
        ..manner(&args.program, output)
    };
    let asked = Asked { is_detached: params.detach, ..Asked::of(Request::Execute(params)) };
    client::runtime()?.block_on(run(&args.session, asked, manner))
}

pub(crate) fn code(args: &CodeArgs, output: Output) -> anyhow::Result<u8> {
    let is_input = load::is_standard_input(Path::new(&args.file));
    if args.interactive && is_input {
        let message = "the code itself comes from standard input";
        return Err(Problem::new(message, "leave --interactive out, or name a file").into());
    }
    let language = args.language.as_deref();
    let read = script::program(&args.file, language, Some(Language::Python), &args.arguments, &[])?;
    let Program::Code { language, name, code, arguments } = read else {
        return Err(Problem::new("this is not code", "use `stockade exec`").into());
    };
    if let Some(context) = &args.context {
        let results = args.results.as_deref().map(ResultFiles::new).transpose()?;
        let Variables { environment, credentials } = of_program(&args.program)?;
        let params = RunInContextParams {
            name: context.clone(),
            language: language.to_string(),
            environment,
            credentials,
            timeout_ms: args.program.timeout.as_ref().map(|timeout| timeout.value),
        };
        let request = Request::Context(ContextParams::Run(params));
        let asked = Asked { code: Some(&code), results, ..Asked::of(request) };
        let manner = manner(&args.program, output);
        return client::runtime()?.block_on(run(&args.session, asked, manner));
    }
    let program = ProgramParams::Code { language: language.to_string(), name, arguments };
    let has_input = args.interactive;
    let params = ExecuteParams { input: has_input, ..params(&args.program, program, false)? };
    let manner = Manner { has_input, ..manner(&args.program, output) };
    let asked = Asked { code: Some(&code), ..Asked::of(Request::Execute(params)) };
    client::runtime()?.block_on(run(&args.session, asked, manner))
}

pub(crate) fn shell(args: &ShellArgs, output: Output) -> anyhow::Result<u8> {
    check_terminal(output, true)?;
    let program = ProgramArgs {
        env: args.env.clone(),
        env_file: Vec::new(),
        env_secret: args.env_secret.clone(),
        workdir: args.workdir.clone(),
        timeout: None,
        quiet: false,
        raw: true,
        short: false,
    };
    let manner = Manner { has_input: true, has_terminal: true, ..manner(&program, output) };
    let runtime = client::runtime()?;
    let mut last = Err(Problem::new("no shell was tried", "report this as a bug").into());
    for shell in ["bash", "sh"] {
        let command = ProgramParams::Command { argv: vec![shell.to_owned()] };
        let params = ExecuteParams {
            terminal: Some(terminal::size()),
            input: true,
            ..params(&program, command, true)?
        };
        let asked = Asked::of(Request::Execute(params));
        last = runtime.block_on(ended(&args.session, asked, manner));
        match &last {
            Ok(Some(ended)) if ended.report["outcome"] == "not_started" => {}
            _ => break,
        }
    }
    match last? {
        Some(ended) => finish(ended, manner),
        None => Ok(0),
    }
}

pub(crate) fn attach(args: &AttachArgs, output: Output) -> anyhow::Result<u8> {
    let (name, execution) = (args.session.as_str(), args.execution);
    client::runtime()?.block_on(async {
        let Reply::Executions(views) = client::ask(name, Request::Ps).await? else {
            return Err(client::confused(name).into());
        };
        let view = views.iter().find(|view| view.execution == execution);
        let has_terminal = view.is_some_and(|view| view.terminal);
        let mut stream = client::open(name, Request::Attach { execution }).await?;
        if let Accepted::Ended(code, report) = accepted(&mut stream, name).await? {
            return finish(Ended::unstarted(code, report), of_attach(args, output, has_terminal));
        }
        let manner = of_attach(args, output, has_terminal);
        let proxied = if args.sig_proxy { &PROXIED[..] } else { &[] };
        let ended = converse(stream, manner, proxied, None, std::future::pending(), name).await?;
        finish(ended, manner)
    })
}

fn of_attach(args: &AttachArgs, output: Output, has_terminal: bool) -> Manner {
    let is_raw = args.raw || (has_terminal && stdin().is_terminal());
    let escapes = if is_raw { Escapes::Raw } else { Escapes::Shown };
    Manner {
        output,
        escapes,
        is_quiet: false,
        is_short: false,
        has_input: !args.no_stdin,
        has_terminal,
    }
}

/// Refuses a terminal where there is no terminal to show it on.
fn check_terminal(output: Output, has_input: bool) -> Result<(), Problem> {
    if output == Output::Json {
        let message = "a terminal inside cannot be used with --json";
        return Err(Problem::new(message, "leave one of them out"));
    }
    if has_input && !stdin().is_terminal() {
        let message = "standard input is not a terminal";
        return Err(Problem::new(message, "run it in a terminal, or leave --tty out"));
    }
    Ok(())
}

fn manner(args: &ProgramArgs, output: Output) -> Manner {
    let escapes = if args.raw { Escapes::Raw } else { Escapes::Shown };
    Manner {
        output,
        escapes,
        is_quiet: args.quiet,
        is_short: args.short,
        has_input: false,
        has_terminal: false,
    }
}

fn params(
    args: &ProgramArgs,
    program: ProgramParams,
    has_terminal: bool,
) -> anyhow::Result<ExecuteParams> {
    let Variables { mut environment, credentials } = of_program(args)?;
    if has_terminal && !environment.iter().any(|(name, _)| name == "TERM") {
        let term = std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned());
        environment.push(("TERM".to_owned(), term));
    }
    Ok(ExecuteParams {
        program,
        environment,
        credentials,
        working_directory: args.workdir.clone(),
        timeout_ms: args.timeout.as_ref().map(|timeout| timeout.value),
        terminal: None,
        detach: false,
        input: false,
    })
}

/// The variables of one program.
fn of_program(args: &ProgramArgs) -> anyhow::Result<Variables> {
    let said = Said { variables: &args.env, files: &args.env_file, secrets: &args.env_secret };
    variables::variables(&said, |name| std::env::var_os(name))
}

/// What a supervisor is asked to run.
struct Asked<'c> {
    request: Request,
    /// The code that follows the request.
    code: Option<&'c [u8]>,
    is_detached: bool,
    /// Where values go that a call of a context shows.
    results: Option<ResultFiles>,
}

impl Asked<'_> {
    fn of(request: Request) -> Asked<'static> {
        Asked { request, code: None, is_detached: false, results: None }
    }
}

async fn run(name: &str, asked: Asked<'_>, manner: Manner) -> anyhow::Result<u8> {
    match ended(name, asked, manner).await? {
        Some(ended) => finish(ended, manner),
        None => Ok(0),
    }
}

/// Starts a program and follows it to its end; returns `None` if it is detached.
async fn ended(name: &str, asked: Asked<'_>, manner: Manner) -> anyhow::Result<Option<Ended>> {
    let Asked { request, code, is_detached, results } = asked;
    let interrupts = Interrupts::wanted();
    let mut interrupted = pin!(interrupts.come()?);
    let starting = async {
        let mut stream = client::open(name, request).await?;
        if let Some(code) = code {
            send_code(&mut stream, code).await;
        }
        let accepted = accepted(&mut stream, name).await?;
        anyhow::Ok((stream, accepted))
    };
    let (stream, accepted) = tokio::select! {
        biased;
        // The supervisor cancels a program whose client leaves.
        () = &mut interrupted => {
            return Err(Problem::new("interrupted before the program started", "try again").into());
        }
        started = starting => started?,
    };
    match accepted {
        Accepted::Ended(code, report) => Ok(Some(Ended::unstarted(code, report))),
        Accepted::Started(execution) if is_detached => {
            match manner.output {
                Output::Json => render::json(&json!({ "execution": execution }))?,
                Output::Text => render::text(&format!("{execution}\n"))?,
            }
            Ok(None)
        }
        Accepted::Started(_) => {
            // A second interrupt kills this process.
            let interrupted = async {
                interrupted.await;
                interrupts.release();
            };
            converse(stream, manner, &[], results, interrupted, name).await.map(Some)
        }
    }
}

/// Sends code. A supervisor that refuses the request stops reading it, and its reply has the
/// reason.
async fn send_code(stream: &mut UnixStream, code: &[u8]) {
    let parts = code.chunks(CODE_BYTES).map(|part| Frame::Code(part.to_vec()));
    for frame in parts.chain([Frame::CodeEnd]) {
        if write_frame(stream, &frame).await.is_err() {
            return;
        }
    }
}

/// Follows a program with our terminal in the mode that it needs.
async fn converse(
    stream: UnixStream,
    manner: Manner,
    proxied: &'static [i32],
    results: Option<ResultFiles>,
    interrupted: impl Future<Output = ()>,
    name: &str,
) -> anyhow::Result<Ended> {
    let sink = match manner.output {
        Output::Json => Sink::kept(),
        Output::Text if manner.has_terminal && stdin().is_terminal() => Sink::live(Escapes::Raw),
        Output::Text => Sink::live(manner.escapes),
    };
    let input = manner.has_input.then(|| Input::stdin().unwrap_or_else(Input::empty));
    let raw = match manner.has_terminal && manner.has_input {
        true => RawTerminal::of_input()?,
        false => None,
    };
    let ends = Ends { input, sink, resizes: manner.has_terminal, proxied, results };
    let ended = follow(stream, ends, interrupted, name).await;
    // Before anything is printed.
    drop(raw);
    ended
}

/// Prints what is known about a program that has ended, and returns its exit code.
fn finish(ended: Ended, manner: Manner) -> anyhow::Result<u8> {
    let Ended { code, mut report, sink, results } = ended;
    let is_call = report.get("context").is_some();
    match manner.output {
        Output::Json => {
            if let Sink::Kept { stdout, stderr } = sink {
                add(&mut report, "stdout", &stdout);
                add(&mut report, "stderr", &stderr);
            }
            // Only a call of a context has them.
            if let (Some(report), true) = (report.as_object_mut(), is_call) {
                report.insert("results".to_owned(), json!(results));
            }
            if manner.is_short {
                report.as_object_mut().and_then(|report| report.remove("isolation"));
            }
            render::json(&report)?;
        }
        Output::Text if manner.is_quiet => {}
        Output::Text => render::talk_of_run(&summary::lines(&report)),
    }
    Ok(code)
}

/// Adds output to a report: as text, and exactly if it is not UTF-8.
fn add(report: &mut Value, key: &str, bytes: &[u8]) {
    let Some(report) = report.as_object_mut() else { return };
    report.insert(key.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        report.insert(format!("{key}_base64"), STANDARD.encode(bytes).into());
    }
}
