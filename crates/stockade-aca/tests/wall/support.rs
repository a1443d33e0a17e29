//! A double, a provider for it, and programs in its sandboxes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stockade_aca::{AcaOptions, AcaProvider, Timing};
use stockade_azure_double::Double;
use stockade_policy::Policy;
use stockade_provider::{
    EntryProgram, Error, Execution, Language, ProcessEnd, Program, Provider, Root, Running,
    Sandbox, SandboxRequest, chain,
};
use tokio::io::AsyncReadExt;

/// How long anything may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Whether this host can run the machines of the double. If it cannot, prints why.
pub(crate) fn can_run() -> bool {
    match stockade_azure_double::why_not() {
        None => true,
        Some(reason) => {
            stockade_testing::skipped("azure-double", &reason);
            false
        }
    }
}

/// Short waits, so that tests of patience end.
pub(crate) fn timing() -> Timing {
    Timing {
        request: Duration::from_secs(2),
        poll: Duration::from_millis(50),
        running: Duration::from_secs(2),
        roles: Duration::from_secs(1),
        busy: Duration::from_secs(3),
        pause: Duration::from_millis(20),
        cleanup: Duration::from_secs(3),
    }
}

/// The options of a client of the double.
pub(crate) fn options(double: &Double) -> AcaOptions {
    options_from(double.variables())
}

pub(crate) fn options_from(variables: Vec<(String, String)>) -> AcaOptions {
    let variables: BTreeMap<String, String> = variables.into_iter().collect();
    let options = AcaOptions::from_variables(|name| variables.get(name).map(OsString::from));
    AcaOptions { timing: timing(), ..options }
}

pub(crate) fn request(policy: &str) -> SandboxRequest {
    SandboxRequest {
        policy: Arc::new(
            Policy::parse_str("p", policy, Path::new("/srv")).expect("the double answers as asked"),
        ),
        root: Root::Standard,
        entry: EntryProgram::Interpreter(Language::Python),
        protected: Vec::new(),
        gateway: None,
        tools: None,
        authorities: None,
    }
}

/// Creates a sandbox.
pub(crate) async fn create(options: &AcaOptions, policy: &str) -> Result<Box<dyn Sandbox>, Error> {
    let provider = AcaProvider::new(options.clone());
    let request = request(policy);
    tokio::time::timeout(DEADLINE, provider.create(&request)).await.expect("creating hangs")
}

/// The error of a create call as one line.
pub(crate) async fn refusal(options: &AcaOptions, policy: &str) -> String {
    match create(options, policy).await {
        Ok(_) => panic!("it was created"),
        Err(error) => chain(&error),
    }
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: Result<ProcessEnd, Error>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The output of a program that succeeded.
    pub(crate) fn output(&self) -> &str {
        let is_done = matches!(self.end, Ok(ProcessEnd::Exited { code: 0 }));
        assert!(is_done, "{self:?}");
        &self.stdout
    }
}

pub(crate) fn code(text: &str) -> Execution {
    Execution::new(Program::Code {
        language: Language::Python,
        name: "code.py".to_owned(),
        code: text.as_bytes().to_vec(),
        arguments: Vec::new(),
    })
}

pub(crate) fn command(words: &[&str]) -> Execution {
    let argv = words.iter().map(|word| (*word).to_owned()).collect();
    Execution::new(Program::Command { argv })
}

/// Runs a program without input to its end.
pub(crate) async fn run(sandbox: &dyn Sandbox, execution: Execution) -> Ran {
    let started = sandbox.start(execution).await;
    let Running { stdin, mut stdout, mut stderr, end, .. } = match started {
        Ok(running) => running,
        Err(error) => {
            return Ran { end: Err(error), stdout: String::new(), stderr: String::new() };
        }
    };
    drop(stdin);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let all = async {
        let reads =
            async { tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err)) };
        let (end, reads) = tokio::join!(end, reads);
        for read in [reads.0, reads.1] {
            read.expect("the double answers as asked");
        }
        end
    };
    let end = tokio::time::timeout(DEADLINE, all).await.expect("the program hangs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { end, stdout: text(out), stderr: text(err) }
}

/// How often each kind of request reached the double.
pub(crate) fn count(double: &Double, method: &str, end: &str) -> usize {
    let log = double.log();
    log.iter().filter(|it| it.method == method && it.path.ends_with(end)).count()
}
