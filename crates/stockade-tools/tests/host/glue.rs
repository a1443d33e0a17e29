//! The files of the tools, used by real interpreters against the real tool broker.

use std::path::Path;

use serde_json::json;
use stockade_provider::ToolAccess;
use stockade_tools::{Tool, ToolFailure, Tools};
use tokio::net::UnixListener;
use tokio::process::Command;

use crate::world::{World, within};

/// The files of a broker in a directory, and the broker on a socket next to them.
struct Installed {
    directory: tempfile::TempDir,
    access: ToolAccess,
    world: World,
}

impl Installed {
    fn new(tools: Tools) -> Installed {
        let world = World::new(tools, "defaults: {max_tool_calls: 1000}");
        let directory = tempfile::tempdir().unwrap();
        let access = world.broker.access();
        for (path, bytes) in &access.files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let listener = UnixListener::bind(directory.path().join("tools.sock")).unwrap();
        let broker = world.broker.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(broker.serve(Box::new(stream)));
            }
        });
        Installed { directory, access, world }
    }

    /// Runs a program that finds the tools where a sandbox shows them.
    async fn run(&self, program: &str, arguments: &[&str]) -> String {
        let here = self.directory.path().to_str().unwrap();
        let mut command = Command::new(program);
        for (name, value) in &self.access.environment {
            command.env(name, value.replace(ToolAccess::DIRECTORY, here));
        }
        let output = within(command.args(arguments).kill_on_drop(true).output()).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn tools() -> Tools {
    let mut tools = Tools::new();
    let schema = json!({"type": "object", "properties": {
        "query": {"type": "string"}, "most": {"type": "integer"}}, "required": ["query"]});
    let fetch = Tool::from_schema("fetch_arxiv", "Finds papers.", schema, None, |arguments| {
        Box::pin(async move {
            match arguments["query"].as_str() {
                Some("fail") => Err(ToolFailure::new("no such archive")),
                query => Ok(json!([query, arguments["most"]])),
            }
        })
    });
    tools.add(fetch.unwrap()).unwrap();
    tools
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_calls_a_tool_as_a_function() {
    let installed = Installed::new(tools());
    let code = "print(fetch_arxiv('cs.CL', most=3))\n\
        print(call_tool('fetch_arxiv', query='x'))\n\
        from stockade_tools import ToolError, ToolDenied\n\
        for call in (lambda: fetch_arxiv('fail'), lambda: fetch_arxiv(3)):\n    \
            try: call()\n    except ToolError as error: print(error)\n\
        try: call_tool('other')\nexcept ToolDenied as error: print('denied', error)\n";
    let output = installed.run("python3", &["-c", code]).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..3], ["['cs.CL', 3]", "['x', None]", "no such archive"], "{output}");
    assert!(lines[3].contains("`arguments.query` must be a string, not a number"), "{output}");
    assert!(lines[4].starts_with("denied tool_allowlist does not name `other`"), "{output}");
    let outcomes = installed.world.outcomes(5).await;
    assert_eq!(outcomes, ["answered", "answered", "failed", "invalid_arguments", "denied"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_calls_a_tool_by_name() {
    let installed = Installed::new(tools());
    let code = "(async () => {\
        console.log(JSON.stringify(await callTool('fetch_arxiv', {query: 'cs.CL'})));\
        const many = Array.from({length: 50}, (_, n) => callTool('fetch_arxiv', {query: 'q', most: n}));\
        console.log((await Promise.all(many)).every((answer, n) => answer[1] === n));\
        try { await callTool('other', {}) } catch (error) { console.log(error.code) }\
        try { await callTool('fetch_arxiv', {query: 'x'.repeat(3 << 20)}) } catch (error) { console.log(error.code) }\
        console.log(JSON.stringify(await callTool('fetch_arxiv', {query: 'after'})));\
        })()";
    let output = installed.run("node", &["-e", code]).await;
    let expected = "[\"cs.CL\",null]\ntrue\ndenied\ntoo_large\n[\"after\",null]\n";
    assert_eq!(output, expected);
}

#[tokio::test]
async fn files_and_variables_use_the_paths_of_the_wall() {
    let installed = Installed::new(tools());
    let variable = |name: &str| {
        let found = installed.access.environment.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(variable("STOCKADE_TOOLS_SOCKET"), ToolAccess::SOCKET);
    assert!(variable("PYTHONPATH").starts_with(ToolAccess::DIRECTORY));
    let listing = std::fs::read(installed.directory.path().join("tools.json")).unwrap();
    let listing: serde_json::Value = serde_json::from_slice(&listing).unwrap();
    assert_eq!(listing[0]["name"], "fetch_arxiv");
    assert!(installed.access.files.iter().all(|(path, _)| Path::new(path).is_relative()));
}
