//! The self-test of `stockade doctor --provider aca`, for a person with a subscription: creates a
//! sandbox, runs one program in it and deletes it, with the same code as every run.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Execution, Language, ProcessEnd, Program, Provider, Root, SandboxRequest, chain,
};
use tokio::io::AsyncReadExt;

use crate::{AcaOptions, AcaProvider};

/// What the program of the test prints.
const WORD: &str = "stockade-self-test";

/// The result of a self-test.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTest {
    /// Whether every step succeeded.
    pub passed: bool,
    /// The steps that were taken.
    pub steps: Vec<SelfTestStep>,
}

/// One step of a self-test.
#[derive(Clone, Debug, Serialize)]
pub struct SelfTestStep {
    /// What was done.
    pub name: &'static str,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

impl SelfTest {
    /// Runs the test.
    pub async fn run(options: &AcaOptions) -> SelfTest {
        let mut test = SelfTest { passed: false, steps: Vec::new() };
        test.passed = test.steps(options).await.is_some();
        test
    }

    async fn steps(&mut self, options: &AcaOptions) -> Option<()> {
        let provider = AcaProvider::new(options.clone());
        let policy =
            Policy::parse_str("self-test", "defaults: {timeout_seconds: 30}", Path::new("/"));
        let request = SandboxRequest {
            policy: Arc::new(policy.ok()?),
            root: Root::Standard,
            entry: EntryProgram::Interpreter(Language::Python),
            protected: Vec::new(),
            gateway: None,
            tools: None,
            authorities: None,
        };
        let began = Instant::now();
        let made = provider.create(&request).await;
        let made = made.map_err(|error| match error.remedy() {
            Some(remedy) => format!("{}; {remedy}", chain(&error)),
            None => chain(&error),
        });
        let sandbox =
            self.step("create a sandbox, with its egress policy compared", began, made)?;
        let program = Program::Code {
            language: Language::Python,
            name: "self-test.py".to_owned(),
            code: format!("print('{WORD}')").into_bytes(),
            arguments: Vec::new(),
        };
        let began = Instant::now();
        let executed = async {
            let running = sandbox.start(Execution::new(program)).await?;
            drop(running.stdin);
            let (mut stdout, mut text) = (running.stdout, String::new());
            let end = running.end.await?;
            let _ = (&mut stdout).take(1024).read_to_string(&mut text).await;
            Ok::<_, stockade_provider::Error>((end, text))
        };
        let executed = match executed.await {
            Ok((ProcessEnd::Exited { code: 0 }, text)) if text.trim() == WORD => Ok(()),
            Ok((end, text)) => Err(format!("the program ended with {end:?} and printed {text:?}")),
            Err(error) => Err(chain(&error)),
        };
        let executed = self.step("execute a program and read its output", began, executed);
        let began = Instant::now();
        let ended = sandbox.end().await.map_err(|error| chain(&error));
        self.step("delete the sandbox", began, ended)?;
        executed
    }

    fn step<T>(
        &mut self,
        name: &'static str,
        began: Instant,
        result: Result<T, String>,
    ) -> Option<T> {
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (value, error) = match result {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error)),
        };
        self.steps.push(SelfTestStep { name, milliseconds, error });
        value
    }
}
