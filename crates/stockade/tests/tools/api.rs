//! Tools that are functions of a program that uses the engine, called from Python inside.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_backends::{ContainerChoice, HostProcess, Surroundings};
use stockade_engine::{
    Engine, Passage, RunReport, RunRequest, SessionRequest, Streams, Tool, Tools,
};
use stockade_policy::{Context, Policy};
use stockade_provider::{Program, Root};

use crate::support::walls_can_be_built;

/// An engine like that of the command line.
pub(crate) fn engine() -> Engine {
    let surroundings = Surroundings {
        path: std::env::var_os("PATH"),
        home: std::env::var_os("HOME").map(Into::into),
        working_directory: "/".into(),
        user: rustix::process::geteuid().as_raw(),
        ..Surroundings::default()
    };
    Engine::new(stockade_backends::providers(
        HostProcess::Continues,
        &surroundings,
        &ContainerChoice::default(),
    ))
}

/// A runtime with one thread, like that of the command line.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // One thread serves several sandboxes here and polls for I/O after each task: in a debug build
    // the tasks of a flood are long.
    builder.enable_all().event_interval(1).build().expect("a runtime can be made")
}

/// Runs Python in a sandbox with a policy and tools.
pub(crate) async fn python(engine: &Engine, policy: &str, tools: Tools, code: &str) -> RunReport {
    let policy = Policy::parse_str("test", policy, Path::new("/")).expect("the policy is one");
    let argv = ["python3", "-c", code].map(str::to_owned).to_vec();
    let request = RunRequest {
        session: SessionRequest {
            policy: Arc::new(policy),
            provider: Some("native".to_owned()),
            root: Root::Standard,
            user: rustix::process::geteuid().as_raw(),
            protected: Vec::new(),
            environment: Vec::new(),
            credentials: Vec::new(),
            passage: Passage::Allowed,
            tools,
            context: Context::default(),
            recorder: None,
        },
        program: Program::Command { argv },
        working_directory: None,
    };
    let streams = Streams { capture: true, ..Streams::default() };
    engine.run(request, streams, std::future::pending()).await.expect("the wall holds the policy")
}

/// What a program printed.
pub(crate) fn printed(report: &RunReport) -> String {
    let errors = String::from_utf8_lossy(&report.stderr.bytes);
    assert_eq!(report.outcome, stockade_engine::Outcome::Exited { code: 0 }, "{errors}");
    String::from_utf8_lossy(&report.stdout.bytes).into_owned()
}

/// A set of these tools.
pub(crate) fn set_of<const N: usize>(tools: [Tool; N]) -> Tools {
    let mut set = Tools::new();
    for tool in tools {
        set.add(tool).expect("names differ");
    }
    set
}

#[derive(Deserialize, JsonSchema)]
struct Pair {
    /// The dividend.
    whole: i64,
    /// The divisor.
    by: i64,
}

#[derive(Serialize, JsonSchema)]
struct Quotient {
    times: i64,
    rest: i64,
}

fn divide(Pair { whole, by }: Pair) -> Result<Quotient, String> {
    match by {
        0 => Err("nothing can be divided by zero".to_owned()),
        13 => panic!("thirteen"),
        _ => Ok(Quotient { times: whole / by, rest: whole % by }),
    }
}

#[test]
fn closures_of_rust_are_called_from_python_with_schemas_from_their_types() {
    if !walls_can_be_built() {
        return;
    }
    let offset = 100;
    let tools = set_of([
        Tool::new("divide", "Divides whole numbers.", divide).unwrap(),
        Tool::new_async("divide_later", "Divides, in a moment.", |pair: Pair| async move {
            tokio::task::yield_now().await;
            divide(pair)
        })
        .unwrap(),
        Tool::new("offset", "What the host knows.", move |(): ()| Ok::<_, String>(offset)).unwrap(),
    ]);
    let code = "
from stockade_tools import ToolError
for tool in (divide, divide_later):
    print(tool(17, 5), tool(by=2, whole=4)['times'])
    for by in (0, 13, 'five'):
        try:
            tool(1, by)
        except ToolError as error:
            print(error.code, error)
print(offset(), 'The divisor.' in divide.__doc__)
";
    let policy =
        "tool_allowlist: [divide, divide_later, offset]\ndefaults: {max_tool_calls: 100}\n";
    let report = runtime().block_on(python(&engine(), policy, tools, code));
    let said = printed(&report);
    let lines: Vec<&str> = said.lines().collect();
    for half in [&lines[..4], &lines[4..8]] {
        assert_eq!(half[0], "{'times': 3, 'rest': 2} 2");
        assert_eq!(half[1], "failed nothing can be divided by zero");
        assert_eq!(half[2], "broken the tool panicked: thirteen");
        assert_eq!(half[3], "invalid_arguments `arguments.by` must be an integer, not a string");
    }
    assert_eq!(lines[8], "100 True");
    assert_eq!(report.tool_calls, 11);
}
