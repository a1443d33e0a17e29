//! Sandboxes created through the Rust API, in this process.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use stockade_backends::{ContainerChoice, HostProcess, Surroundings};
use stockade_engine::{
    Engine, ExecutionRequest, Passage, RunRequest, Session, SessionRequest, Streams, Tools,
};
use stockade_policy::{Context, Policy};
use stockade_provider::{EntryProgram, Language, Program, Provider, Root, Sandbox, SandboxRequest};
use tokio::runtime::{Builder, Runtime};

use super::samples::timed;
use crate::{Problem, load};

/// A long-lived engine, as in a program that uses the crate.
pub(super) struct Interface {
    runtime: Runtime,
    engine: Engine,
    provider: Arc<dyn Provider>,
    policy: Arc<Policy>,
    user: u32,
    tools: Tools,
    /// The wall, if not the fastest.
    wall: Option<&'static str>,
}

impl Interface {
    /// `python` is the interpreter that `python3` resolves to inside.
    pub(super) fn new(python: Option<&Path>) -> anyhow::Result<Interface> {
        Interface::with_tools(python, Tools::new())
    }

    /// An interface whose sandboxes may call tools.
    pub(super) fn with_tools(python: Option<&Path>, tools: Tools) -> anyhow::Result<Interface> {
        let here = load::here()?;
        let names: Vec<&str> = tools.names().collect();
        let text = format!("name: bench\ntool_allowlist: [{}]", names.join(", "));
        let policy = Policy::parse_str("bench", &text, &here)
            .map_err(|errors| Problem::refused(&errors, Problem::POLICY_KEYS))?;
        let user = rustix::process::getuid().as_raw();
        let variable = |name: &str| std::env::var_os(name);
        let mut surroundings = Surroundings::from_variables(variable, here, user);
        surroundings.explicit_python = python.map(Path::to_owned);
        let providers = stockade_backends::providers(
            HostProcess::Continues,
            &surroundings,
            &ContainerChoice::default(),
        );
        Ok(Interface {
            runtime: Builder::new_current_thread().enable_all().build()?,
            provider: Arc::clone(providers.first().context("no wall is built in")?),
            engine: Engine::new(providers),
            policy: Arc::new(policy),
            user,
            tools,
            wall: None,
        })
    }

    /// The same behind another wall.
    pub(super) fn behind(self, wall: &'static str) -> Interface {
        Interface { wall: Some(wall), ..self }
    }

    /// Time from creating a sandbox to the result of any program in it, in milliseconds.
    pub(super) fn run_program(&self, program: Program, prints: &str) -> anyhow::Result<f64> {
        let (took, printed) = timed(|| self.result(program))?;
        if printed != prints {
            bail!("the program printed {printed:?}, not {prints:?}");
        }
        Ok(took)
    }

    /// Time from creating a sandbox to the result of a program in it, in milliseconds.
    pub(super) fn run(&self, argv: &[String], prints: &str) -> anyhow::Result<f64> {
        let (took, printed) = timed(|| self.printed(argv))?;
        if printed != prints {
            bail!("the program printed {printed:?}, not {prints:?}");
        }
        Ok(took)
    }

    /// What a program prints in a new sandbox.
    pub(super) fn printed(&self, argv: &[String]) -> anyhow::Result<String> {
        self.result(Program::Command { argv: argv.to_vec() })
    }

    fn result(&self, program: Program) -> anyhow::Result<String> {
        let request = RunRequest { session: self.session(), program, working_directory: None };
        let streams = Streams { capture: true, ..Streams::default() };
        let never = std::future::pending();
        let report = self.runtime.block_on(self.engine.run(request, streams, never))?;
        let told = serde_json::to_value(&report)?;
        match (&told["exit_code"], told["stdout"].as_str()) {
            (code, Some(printed)) if *code == 0 => Ok(printed.to_owned()),
            _ => bail!("the sandbox ended otherwise than it should: {told}"),
        }
    }

    fn session(&self) -> SessionRequest {
        SessionRequest {
            policy: Arc::clone(&self.policy),
            provider: self.wall.map(str::to_owned),
            root: Root::Standard,
            user: self.user,
            protected: Vec::new(),
            environment: Vec::new(),
            credentials: Vec::new(),
            context: Context::default(),
            passage: Passage::Allowed,
            tools: self.tools.clone(),
            recorder: None,
        }
    }

    /// A session whose Python code runs without delay from the second time on.
    pub(super) fn open(&self) -> anyhow::Result<Session> {
        let entry = EntryProgram::Interpreter(Language::Python);
        let never = std::future::pending();
        let opened = self.runtime.block_on(self.engine.open(self.session(), entry, never))?;
        opened.context("the session was cancelled")
    }

    /// Time of one more execution of Python code in a session, in milliseconds.
    pub(super) fn execute(
        &self,
        session: &Session,
        code: &str,
        prints: &str,
    ) -> anyhow::Result<f64> {
        let request = ExecutionRequest::new(Program::Code {
            language: Language::Python,
            name: "code.py".to_owned(),
            code: code.as_bytes().to_vec(),
            arguments: Vec::new(),
        });
        let streams = Streams { capture: true, ..Streams::default() };
        let never = std::future::pending();
        let (took, report) =
            timed(|| Ok(self.runtime.block_on(session.execute(request, streams, never))?))?;
        match report.stdout.bytes == prints.as_bytes() {
            true => Ok(took),
            false => bail!("the code printed {:?}", String::from_utf8_lossy(&report.stdout.bytes)),
        }
    }

    /// A sandbox that runs nothing.
    pub(super) fn idle(&self) -> anyhow::Result<Box<dyn Sandbox>> {
        let request = SandboxRequest {
            policy: Arc::clone(&self.policy),
            root: Root::Standard,
            entry: EntryProgram::Program("true".to_owned()),
            protected: Vec::new(),
            gateway: None,
            tools: None,
            authorities: None,
        };
        Ok(self.runtime.block_on(self.provider.create(&request))?)
    }

    /// Destroys a sandbox and returns how long the caller waits, in milliseconds.
    pub(super) fn destroy(&self) -> anyhow::Result<f64> {
        let sandbox = self.idle()?;
        let _inside = self.runtime.enter();
        let destroy = || {
            drop(sandbox);
            Ok(())
        };
        Ok(timed(destroy)?.0)
    }

    /// Destroys a sandbox and returns the time until nothing of it is left, in milliseconds.
    pub(super) fn end(&self) -> anyhow::Result<f64> {
        let sandbox = self.idle()?;
        Ok(timed(|| Ok(self.runtime.block_on(sandbox.end())?))?.0)
    }

    /// The proportional set size of an idle sandbox, in megabytes.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let before = descendants(std::process::id());
        let sandbox = self.idle()?;
        let new: Vec<u32> = descendants(std::process::id()).difference(&before).copied().collect();
        if new.len() < 2 {
            bail!("an idle sandbox has a supervisor and a first process, not {new:?}");
        }
        let used = megabytes(new)?;
        self.runtime.block_on(sandbox.end())?;
        Ok(used)
    }
}

/// The proportional set size of processes, in megabytes.
pub(super) fn megabytes(processes: impl IntoIterator<Item = u32>) -> anyhow::Result<f64> {
    let mut bytes = 0;
    for process in processes {
        bytes += proportional(process)?;
    }
    Ok(bytes as f64 / f64::from(1 << 20))
}

/// All descendants of a process.
pub(super) fn descendants(process: u32) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let text: String = tasks.filter_map(children).collect::<Vec<_>>().join(" ");
    let mut all = BTreeSet::new();
    for child in text.split_whitespace().filter_map(|word| word.parse().ok()) {
        all.insert(child);
        all.extend(descendants(child));
    }
    all
}

fn proportional(process: u32) -> anyhow::Result<u64> {
    let file = format!("/proc/{process}/smaps_rollup");
    let text =
        fs::read_to_string(Path::new(&file)).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|rest| rest.trim().split(' ').next());
    let kilobytes: u64 = kilobytes.context("the kernel does not say")?.parse()?;
    Ok(kilobytes << 10)
}
