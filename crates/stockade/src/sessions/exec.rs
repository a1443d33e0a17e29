//! Programs of a session: `exec`, `code`, `shell` and `attach`.

use std::io::{IsTerminal, stdin};
use std::path::Path;
use std::pin::pin;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stockade_api::{ExecuteParams, Frame, ProgramParams, Reply, Request, write_frame};
use stockade_provider::Program;
use tokio::net::UnixStream;

use super::conversation::{Accepted, Ended, Ends, Sink, accepted, follow};
use super::terminal::{self, RawTerminal};
use super::{client, summary};
use crate::args::{AttachArgs, CodeArgs, ExecArgs, ProgramArgs, ShellArgs};
use crate::render::live::Escapes;
use crate::render::{self, Output};
use crate::run::input::Input;
use crate::run::interrupt::Interrupts;
use crate::run::{request, script};
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
    client::runtime()?.block_on(run(&args.session, params, &[], manner))
}

pub(crate) fn code(args: &CodeArgs, output: Output) -> anyhow::Result<u8> {
    let is_input = load::is_standard_input(Path::new(&args.file));
    if args.interactive && is_input {
        let message = "the code itself comes from standard input";
        return Err(Problem::new(message, "leave --interactive out, or name a file").into());
    }
    let read = script::program(&args.file, args.language.as_deref(), &args.arguments, &[])?;
    let Program::Code { language, name, code, arguments } = read else {
        return Err(Problem::new("this is not code", "use `stockade exec`").into());
    };
    let program = ProgramParams::Code { language: language.to_string(), name, arguments };
    let has_input = args.interactive;
    let params = ExecuteParams { input: has_input, ..params(&args.program, program, false)? };
    let manner = Manner { has_input, ..manner(&args.program, output) };
    client::runtime()?.block_on(run(&args.session, params, &code, manner))
}

pub(crate) fn shell(args: &ShellArgs, output: Output) -> anyhow::Result<u8> {
    check_terminal(output, true)?;
    let program = ProgramArgs {
        env: args.env.clone(),
        workdir: args.workdir.clone(),
        timeout: None,
        quiet: false,
        raw: true,
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
        last = runtime.block_on(ended(&args.session, params, &[], manner));
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
            let sink = Sink::kept();
            return finish(Ended { code, report, sink }, of_attach(args, output, has_terminal));
        }
        let manner = of_attach(args, output, has_terminal);
        let proxied = if args.sig_proxy { &PROXIED[..] } else { &[] };
        let ended = converse(stream, manner, proxied, std::future::pending(), name).await?;
        finish(ended, manner)
    })
}

fn of_attach(args: &AttachArgs, output: Output, has_terminal: bool) -> Manner {
    let is_raw = args.raw || (has_terminal && stdin().is_terminal());
    let escapes = if is_raw { Escapes::Raw } else { Escapes::Shown };
    Manner { output, escapes, is_quiet: false, has_input: !args.no_stdin, has_terminal }
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
    Manner { output, escapes, is_quiet: args.quiet, has_input: false, has_terminal: false }
}

fn params(
    args: &ProgramArgs,
    program: ProgramParams,
    has_terminal: bool,
) -> anyhow::Result<ExecuteParams> {
    let mut environment = request::environment(&args.env, |name| std::env::var_os(name))?;
    if has_terminal && !environment.iter().any(|(name, _)| name == "TERM") {
        let term = std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned());
        environment.push(("TERM".to_owned(), term));
    }
    Ok(ExecuteParams {
        program,
        environment,
        working_directory: args.workdir.clone(),
        timeout_ms: args.timeout.as_ref().map(|timeout| timeout.value),
        terminal: None,
        detach: false,
        input: false,
    })
}

async fn run(name: &str, params: ExecuteParams, code: &[u8], manner: Manner) -> anyhow::Result<u8> {
    match ended(name, params, code, manner).await? {
        Some(ended) => finish(ended, manner),
        None => Ok(0),
    }
}

/// Starts a program and follows it to its end; returns `None` if it is detached.
async fn ended(
    name: &str,
    params: ExecuteParams,
    code: &[u8],
    manner: Manner,
) -> anyhow::Result<Option<Ended>> {
    let is_detached = params.detach;
    let interrupts = Interrupts::wanted();
    let mut interrupted = pin!(interrupts.come()?);
    let is_code = matches!(params.program, ProgramParams::Code { .. });
    let starting = async {
        let mut stream = client::open(name, Request::Execute(params)).await?;
        if is_code {
            send_code(&mut stream, code, name).await?;
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
        Accepted::Ended(code, report) => Ok(Some(Ended { code, report, sink: Sink::kept() })),
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
            converse(stream, manner, &[], interrupted, name).await.map(Some)
        }
    }
}

async fn send_code(stream: &mut UnixStream, code: &[u8], name: &str) -> anyhow::Result<()> {
    let parts = code.chunks(CODE_BYTES).map(|part| Frame::Code(part.to_vec()));
    for frame in parts.chain([Frame::CodeEnd]) {
        write_frame(stream, &frame).await.map_err(|error| client::lost(name, &error))?;
    }
    Ok(())
}

/// Follows a program with our terminal in the mode that it needs.
async fn converse(
    stream: UnixStream,
    manner: Manner,
    proxied: &'static [i32],
    interrupted: impl Future<Output = ()>,
    name: &str,
) -> anyhow::Result<Ended> {
    let sink = match manner.output {
        Output::Json => Sink::kept(),
        Output::Text if manner.has_terminal && stdin().is_terminal() => Sink::live(Escapes::Raw),
        Output::Text => Sink::live(manner.escapes),
    };
    let input = manner.has_input.then(Input::stdin).flatten();
    let raw = match manner.has_terminal && manner.has_input {
        true => RawTerminal::of_input()?,
        false => None,
    };
    let ends = Ends { input, sink, resizes: manner.has_terminal, proxied };
    let ended = follow(stream, ends, interrupted, name).await;
    // Before anything is printed.
    drop(raw);
    ended
}

/// Prints what is known about a program that has ended, and returns its exit code.
fn finish(ended: Ended, manner: Manner) -> anyhow::Result<u8> {
    let Ended { code, mut report, sink } = ended;
    match manner.output {
        Output::Json => {
            if let Sink::Kept { stdout, stderr } = sink {
                add(&mut report, "stdout", &stdout);
                add(&mut report, "stderr", &stderr);
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
