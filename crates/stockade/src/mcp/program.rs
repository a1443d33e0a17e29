//! `run_code` and `run_command`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::Shutdown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_api::{
    ContextParams, ExecuteParams, Frame, ProgramParams, Reply, Request, RunInContextParams,
    read_frame, write_frame,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::answer::Answer;
use super::kept::Kept;
use super::sandboxes::Sandboxes;
use super::server::Stop;
use super::shown::{Shown, ValueEntry};
use super::tools::{Effect, SandboxTool, stopped};
use crate::Problem;
use crate::sessions::{client, summary};

/// How much of each output stream a result has, by default and at most.
const OUTPUT_BYTES: usize = 64 << 10;
const MOST_OUTPUT_BYTES: usize = 1 << 20;

/// The size of one frame of code or input.
const PART_BYTES: usize = 256 << 10;

/// How many texts a list of the result has at most; a program can cause any number of them.
const MOST_ENTRIES: usize = 32;

/// How long an interpreter may take to end before a new one starts.
const RESTARTED: Duration = Duration::from_secs(10);

/// How long a cancelled program may take to end; the session ends it in any case.
const CANCELLED: Duration = Duration::from_secs(2);

pub(super) struct RunCode;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCodeParams {
    /// The sandbox.
    sandbox_id: String,
    /// The code: a whole program, which prints its results, or with `context` one more cell, whose
    /// last expression is a result too.
    code: String,
    /// The name of an interpreter that keeps its variables between calls, for Python. A new name
    /// starts one. `arguments`, `input` and `working_directory` do not apply to it.
    context: Option<String>,
    /// Whether the context starts anew before the code runs, without its variables.
    #[serde(default)]
    restart_context: bool,
    /// `python`, `bash` or `javascript`.
    #[serde(default)]
    language: CodeLanguage,
    /// The program's arguments.
    #[serde(default)]
    arguments: Vec<String>,
    /// What it reads from standard input; by default nothing.
    input: Option<String>,
    /// Variables, in addition to those of the sandbox.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Where it starts; a relative directory is below /workspace, the default.
    working_directory: Option<String>,
    /// How long it may run, if that is less than the policy allows.
    timeout_seconds: Option<f64>,
    /// How many bytes of each output stream the result has: 65536 by default, 1048576 at most. Of a
    /// longer one it has the first and the last part.
    max_output_bytes: Option<usize>,
}

/// The language of code.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CodeLanguage {
    #[default]
    Python,
    Bash,
    Javascript,
}

pub(super) struct RunCommand;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommandParams {
    /// The sandbox.
    sandbox_id: String,
    /// The program and its arguments, such as `["ls", "-l", "/workspace"]`. No shell reads them; for
    /// pipes and redirections use `run_code` with bash.
    command: Vec<String>,
    /// What it reads from standard input; by default nothing.
    input: Option<String>,
    /// Variables, in addition to those of the sandbox.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Where it starts; a relative directory is below /workspace, the default.
    working_directory: Option<String>,
    /// How long it may run, if that is less than the policy allows.
    timeout_seconds: Option<f64>,
    /// How many bytes of each output stream the result has: 65536 by default, 1048576 at most. Of a
    /// longer one it has the first and the last part.
    max_output_bytes: Option<usize>,
}

/// How a program runs.
struct How {
    input: Option<String>,
    environment: BTreeMap<String, String>,
    working_directory: Option<String>,
    timeout_seconds: Option<f64>,
    max_output_bytes: Option<usize>,
}

/// How a program ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunView {
    /// The sandbox.
    sandbox_id: String,
    /// `exited` when the program ended by itself, with any exit code. Otherwise `signaled`,
    /// `timed_out`, `out_of_memory`, `limit_exceeded`, `denied`, `not_started`, `cancelled` or
    /// `trapped`.
    outcome: String,
    /// The program's own exit code, if it exited.
    exit_code: Option<i64>,
    /// Standard output.
    stdout: String,
    /// Standard error.
    stderr: String,
    /// How many bytes of standard output are left out.
    stdout_left_out: u64,
    /// How many bytes of standard error are left out.
    stderr_left_out: u64,
    /// How long it ran, in milliseconds.
    duration_ms: u64,
    /// Processor time, in milliseconds.
    cpu_ms: Option<u64>,
    /// The most memory at once.
    memory_peak_bytes: Option<u64>,
    /// What happened to it that it may not know, one sentence each.
    notes: Vec<String>,
    /// What was refused to it.
    denials: Vec<DenialEntry>,
}

/// How code ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct CodeView {
    #[serde(flatten)]
    run: RunView,
    /// What a call of a context has in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<CallView>,
}

/// A call of a context.
#[derive(Serialize, JsonSchema)]
pub(super) struct CallView {
    /// Its name.
    name: String,
    /// How many calls the interpreter has executed; absent if it has ended.
    execution_count: Option<u64>,
    /// Whether the interpreter still runs, with its variables. If not, `restart_context` starts it.
    is_alive: bool,
    /// The values that the call shows. Their PNG and JPEG pictures are image content.
    results: Vec<ValueEntry>,
    /// How many values are left out.
    results_left_out: u64,
    /// The exception that ended the call.
    error: Option<ErrorEntry>,
}

/// An exception.
#[derive(Serialize, JsonSchema)]
pub(super) struct ErrorEntry {
    /// The name of its class.
    name: String,
    /// Its text.
    value: String,
    /// The traceback, as Python prints it.
    traceback: String,
}

/// A refusal.
#[derive(Serialize, JsonSchema)]
pub(super) struct DenialEntry {
    /// The control that refused.
    pub(super) control: String,
    /// What was refused.
    pub(super) target: String,
    /// Why.
    pub(super) why: String,
    /// The policy line or built-in rule that decided.
    pub(super) rule: String,
    /// What would allow it. Only the user can widen the policy of the server.
    pub(super) how_to_allow: String,
}

impl SandboxTool for RunCode {
    const NAME: &'static str = "run_code";
    const TITLE: &'static str = "Run code";
    const DESCRIPTION: &'static str = "Runs code in a sandbox and returns what it printed and how \
        it ended. Each call is a new process: files stay, variables do not. With a context, variables \
        stay as well, and values such as tables and figures are results.";
    const EFFECT: Effect = Effect::Runs;
    type Params = RunCodeParams;
    type Result = CodeView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: RunCodeParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        if let Some(name) = params.context.clone() {
            return in_context(sandboxes, name, params, stop).await;
        }
        if params.restart_context {
            let message = "restart_context needs a context";
            return Err(Problem::new(message, "name the context").into());
        }
        let RunCodeParams { sandbox_id, code, language, arguments, .. } = params;
        let RunCodeParams { input, environment, working_directory, .. } = params;
        let RunCodeParams { timeout_seconds, max_output_bytes, .. } = params;
        let how = How { input, environment, working_directory, timeout_seconds, max_output_bytes };
        let (language, name) = match language {
            CodeLanguage::Python => ("python", "code.py"),
            CodeLanguage::Bash => ("bash", "code.sh"),
            CodeLanguage::Javascript => ("javascript", "code.js"),
        };
        let (language, name) = (language.to_owned(), name.to_owned());
        let program = ProgramParams::Code { language, name, arguments };
        sandboxes.policy(&sandbox_id)?;
        let asked = how.asked(program)?;
        let Ran { report, kept, .. } = run(&sandbox_id, asked, Some(&code), &stop).await?;
        let run = view(sandbox_id, &report, kept);
        Answer::new(&CodeView { run, context: None })
    }
}

/// Runs code in a context.
async fn in_context(
    sandboxes: Arc<Sandboxes>,
    name: String,
    params: RunCodeParams,
    stop: Stop,
) -> anyhow::Result<Answer> {
    let RunCodeParams { sandbox_id, code, language, arguments, input, .. } = params;
    let RunCodeParams { working_directory, restart_context, .. } = params;
    let RunCodeParams { environment, timeout_seconds, max_output_bytes, .. } = params;
    if !arguments.is_empty() || input.is_some() || working_directory.is_some() {
        let message = "a context takes no arguments, input or working_directory";
        return Err(Problem::new(message, "leave them out, or leave the context out").into());
    }
    sandboxes.policy(&sandbox_id)?;
    let language = match language {
        CodeLanguage::Python => "python",
        CodeLanguage::Bash => "bash",
        CodeLanguage::Javascript => "javascript",
    };
    let call = RunInContextParams {
        name: name.clone(),
        language: language.to_owned(),
        environment: environment.into_iter().collect(),
        credentials: Vec::new(),
        timeout_ms: timeout_seconds.map(milliseconds).transpose()?,
    };
    if restart_context {
        tokio::select! {
            forgotten = forget(&sandbox_id, &name) => forgotten?,
            () = stop.wait() => return Err(stopped().into()),
        }
    }
    let request = Request::Context(ContextParams::Run(call));
    let asked = Asked { request, input: None, max_output_bytes };
    let Ran { report, kept, shown } = run(&sandbox_id, asked, Some(&code), &stop).await?;
    let dropped = report["dropped_results"].as_u64().unwrap_or(0);
    let part = |error: &Value, key: &str| error[key].as_str().unwrap_or_default().to_owned();
    let error = report.get("error").filter(|error| error.is_object()).map(|error| ErrorEntry {
        name: part(error, "name"),
        value: part(error, "value"),
        traceback: part(error, "traceback"),
    });
    let call = CallView {
        name,
        execution_count: report["execution_count"].as_u64(),
        is_alive: report["is_alive"].as_bool().unwrap_or(false),
        results: shown.values,
        results_left_out: shown.left_out + dropped,
        error,
    };
    let run = view(sandbox_id, &report, kept);
    let answer = Answer::new(&CodeView { run, context: Some(call) })?;
    Ok(shown.images.into_iter().fold(answer, Answer::with_image))
}

/// Ends the interpreter of a context, so that the next call starts a new one.
async fn forget(session: &str, name: &str) -> anyhow::Result<()> {
    let asked = async {
        let params = ContextParams::Remove { name: name.to_owned() };
        let mut stream = client::open(session, Request::Context(params)).await?;
        // Fails if there is no such context; the next call then starts it.
        let _ = client::reply(&mut stream, session).await;
        anyhow::Ok(())
    };
    timeout(RESTARTED, asked).await.map_err(|_| client::silent(session))?
}

impl SandboxTool for RunCommand {
    const NAME: &'static str = "run_command";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "Runs a program with arguments in a sandbox and returns what \
        it printed and how it ended.";
    const EFFECT: Effect = Effect::Runs;
    type Params = RunCommandParams;
    type Result = RunView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: RunCommandParams,
        stop: Stop,
    ) -> anyhow::Result<Answer> {
        let RunCommandParams { sandbox_id, command, input, environment, .. } = params;
        let RunCommandParams { working_directory, timeout_seconds, max_output_bytes, .. } = params;
        let how = How { input, environment, working_directory, timeout_seconds, max_output_bytes };
        if command.first().is_none_or(String::is_empty) {
            let remedy = "write the program and its arguments as a list, such as [\"ls\", \"-l\"]";
            return Err(Problem::new("the command names no program", remedy).into());
        }
        sandboxes.policy(&sandbox_id)?;
        let asked = how.asked(ProgramParams::Command { argv: command })?;
        let Ran { report, kept, .. } = run(&sandbox_id, asked, None, &stop).await?;
        Answer::new(&view(sandbox_id, &report, kept))
    }
}

impl How {
    fn asked(self, program: ProgramParams) -> Result<Asked, Problem> {
        let How { input, environment, working_directory, timeout_seconds, max_output_bytes } = self;
        let inside = |directory: String| match directory.starts_with('/') {
            true => directory,
            false => format!("{}/{directory}", stockade_policy::WORKSPACE),
        };
        let params = ExecuteParams {
            program,
            environment: environment.into_iter().collect(),
            credentials: Vec::new(),
            working_directory: working_directory.map(inside),
            timeout_ms: timeout_seconds.map(milliseconds).transpose()?,
            terminal: None,
            detach: false,
            input: input.is_some(),
        };
        Ok(Asked { request: Request::Execute(params), input, max_output_bytes })
    }
}

/// A request for a program or a call of a context.
struct Asked {
    request: Request,
    input: Option<String>,
    max_output_bytes: Option<usize>,
}

/// How it ended, with what it printed and showed.
struct Ran {
    report: Value,
    kept: [Kept; 2],
    shown: Shown,
}

async fn run(
    sandbox_id: &str,
    asked: Asked,
    code: Option<&str>,
    stop: &Stop,
) -> anyhow::Result<Ran> {
    let Asked { request, input, max_output_bytes } = asked;
    let starting = async {
        let mut stream = client::open(sandbox_id, request).await?;
        let sent = match code {
            Some(code) => send_code(&mut stream, code.as_bytes(), sandbox_id).await,
            None => Ok(()),
        };
        // A supervisor that refuses does not wait for the code; its reason can still be read.
        let reply = client::reply(&mut stream, sandbox_id).await?;
        sent?;
        anyhow::Ok((reply, stream))
    };
    let (reply, stream) = tokio::select! {
        started = starting => started?,
        // The supervisor cancels the program of a client that leaves.
        () = stop.wait() => return Err(stopped().into()),
    };
    let most = max_output_bytes.unwrap_or(OUTPUT_BYTES).min(MOST_OUTPUT_BYTES);
    let mut ran = Ran {
        report: Value::Null,
        kept: [Kept::new(most), Kept::new(most)],
        shown: Shown::default(),
    };
    match reply {
        Reply::Ended { report, .. } => ran.report = report,
        Reply::Started { .. } => follow(stream, input, &mut ran, stop, sandbox_id).await?,
        _ => return Err(client::confused(sandbox_id).into()),
    }
    if ran.report["outcome"] == "engine_lost" {
        let message = format!("sandbox {sandbox_id:?} was lost while the program ran");
        return Err(Problem::new(message, "create another one with create_sandbox").into());
    }
    Ok(ran)
}

fn milliseconds(seconds: f64) -> Result<u64, Problem> {
    // Also refuses what is not a number.
    if seconds > 0.0 {
        // Saturates; the policy has its own limit.
        return Ok((seconds * 1e3).ceil() as u64);
    }
    let message = format!("timeout_seconds must be more than 0, not {seconds}");
    Err(Problem::new(message, "leave it out for the limit of the policy"))
}

async fn send_code(stream: &mut UnixStream, code: &[u8], name: &str) -> anyhow::Result<()> {
    let parts = code.chunks(PART_BYTES).map(|part| Frame::Code(part.to_vec()));
    for frame in parts.chain([Frame::CodeEnd]) {
        write_frame(stream, &frame).await.map_err(|error| client::lost(name, &error))?;
    }
    Ok(())
}

/// Follows a program to its end, and cancels it when `stop` resolves.
async fn follow(
    stream: UnixStream,
    input: Option<String>,
    ran: &mut Ran,
    stop: &Stop,
    name: &str,
) -> anyhow::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    {
        let mut receiving = std::pin::pin!(receive(&mut reader, ran, name));
        let sending = async {
            send_input(&mut writer, input).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            received = &mut receiving => return received,
            () = sending => {}
            () = stop.wait() => {}
        }
    }
    // Its end can still be read; the supervisor then has ended the program.
    let _ = rustix::net::shutdown(writer.as_ref(), Shutdown::Write);
    let _ = timeout(CANCELLED, receive(&mut reader, ran, name)).await;
    Err(stopped().into())
}

async fn receive(reader: &mut OwnedReadHalf, ran: &mut Ran, name: &str) -> anyhow::Result<()> {
    let [stdout, stderr] = &mut ran.kept;
    loop {
        match read_frame(reader).await.map_err(|error| client::lost(name, &error))? {
            Frame::Output(bytes) => stdout.push(&bytes),
            Frame::Error(bytes) => stderr.push(&bytes),
            Frame::Result(part) => {
                ran.shown.push(part).map_err(|error| client::lost(name, &error))?;
            }
            Frame::Reply(Reply::Ended { report, .. }) => {
                ran.report = report;
                return Ok(());
            }
            Frame::Reply(Reply::Failed(failure)) => return Err(client::failed(failure).into()),
            _ => {}
        }
    }
}

async fn send_input(writer: &mut OwnedWriteHalf, input: Option<String>) {
    let Some(input) = input else { return };
    let parts = input.as_bytes().chunks(PART_BYTES).map(|part| Frame::Input(part.to_vec()));
    for frame in parts.chain([Frame::InputEnd]) {
        // Fails if the session is gone; the other direction reports that.
        if write_frame(writer, &frame).await.is_err() {
            return;
        }
    }
}

fn view(sandbox_id: String, report: &Value, kept: [Kept; 2]) -> RunView {
    let [(stdout, stdout_left_out), (stderr, stderr_left_out)] = kept.map(Kept::text);
    let dropped = |stream: &str| report["output"][stream]["dropped_bytes"].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let denials = report["denials"].as_array().map(Vec::as_slice).unwrap_or_default();
    let denials = denials.iter().take(MOST_ENTRIES).map(|denial| DenialEntry {
        control: text(&denial["control"]),
        target: text(&denial["target"]),
        why: text(&denial["why"]),
        rule: text(&denial["rule"]),
        how_to_allow: text(&denial["how_to_allow"]),
    });
    RunView {
        sandbox_id,
        outcome: text(&report["outcome"]),
        exit_code: report["exit_code"].as_i64(),
        stdout,
        stderr,
        stdout_left_out: stdout_left_out + dropped("stdout"),
        stderr_left_out: stderr_left_out + dropped("stderr"),
        duration_ms: report["duration_ms"].as_u64().unwrap_or(0),
        cpu_ms: report["usage"]["cpu_ms"].as_u64(),
        memory_peak_bytes: report["usage"]["memory_peak_bytes"].as_u64(),
        notes: summary::lines(report).into_iter().take(MOST_ENTRIES).collect(),
        denials: denials.collect(),
    }
}
