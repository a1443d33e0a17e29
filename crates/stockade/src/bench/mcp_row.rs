//! Code that an MCP client runs, next to the same call of the engine.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::directory::Directory;
use super::report::{Bound, Row};
use super::rows::{CODE, Ours, RESULT, interpreter, passes};
use super::samples::{Side, timed};
use super::sandboxes::Interface;
use crate::args::BenchArgs;

/// A server with one client. Dropping it disconnects, which ends the sandbox.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    number: u64,
}

impl Server {
    fn start(mut command: Command) -> anyhow::Result<Server> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start this program again")?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("it has no output")?);
        let mut server = Server { child, stdin, stdout, number: 0 };
        server.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "bench", "version": env!("CARGO_PKG_VERSION") },
            }),
        )?;
        Ok(server)
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.number += 1;
        let message =
            json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params });
        let stdin = self.stdin.as_mut().context("the server has no input")?;
        writeln!(stdin, "{message}")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the server does not answer")?;
        Ok(answer["result"].clone())
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        let result = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        Ok(result["structuredContent"].clone())
    }

    /// Time from the request to the answer, in milliseconds.
    fn run(&mut self, sandbox: &Value) -> anyhow::Result<f64> {
        let arguments = json!({ "sandbox_id": sandbox, "code": CODE[1] });
        let (took, run) = timed(|| self.call("run_code", &arguments))?;
        match run["stdout"] == RESULT {
            true => Ok(took),
            false => bail!("the code ended otherwise than it should: {run}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It ends with its client.
        let _ = self.child.wait();
    }
}

pub(super) fn row(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let python = interpreter(ours)?;
    let directory = Directory::new("mcp-run-code")?;
    let mut command = Command::new(ours.stockade());
    command.args(["mcp", "--no-record", "--python"]).arg(&python);
    command.env("STOCKADE_STATE", directory.path().join("state"));
    let mut server = Server::start(command)?;
    let sandbox = server.call("create_sandbox", &json!({}))?["sandbox_id"].clone();
    let interface = Interface::new(Some(&python))?;
    let session = interface.open()?;
    // From the second code on, an interpreter is started ahead.
    server.run(&sandbox)?;
    interface.execute(&session, CODE[1], RESULT)?;
    let side = |name: &str, command: &str, round| Side {
        name: name.to_owned(),
        command: command.to_owned(),
        round,
    };
    let mut sides = vec![
        side(
            "stockade",
            "run_code of `stockade mcp`: print(1)",
            Box::new(|| server.run(&sandbox)) as Box<dyn FnMut() -> anyhow::Result<f64> + '_>,
        ),
        side(
            "the engine call",
            "Session::execute: print(1) # in Rust",
            Box::new(|| interface.execute(&session, CODE[1], RESULT)),
        ),
    ];
    let what = "code that an MCP client runs in a sandbox, beyond the same call of the engine";
    let bound = Bound::Added { against: "the engine call", most: 2.0 };
    let passes = passes("mcp-run-code", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("mcp-run-code", what), "ms", bound, passes))
}
