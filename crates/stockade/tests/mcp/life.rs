//! Whole sessions of a client.

use serde_json::{Value, json};

use crate::support::{Place, finish};

/// What a request of revision 2026-07-28 carries instead of a session.
fn modern(params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut params = params;
    params["_meta"] = meta;
    params
}

#[test]
fn client_creates_uses_and_closes_a_sandbox() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let view = client.call("create_sandbox", json!({ "name": "one", "memory_mb": 128 }));
    assert_eq!((&view["sandbox_id"], &view["state"]), (&json!("one"), &json!("running")));
    assert!(view["policy"].as_str().unwrap().contains("max_memory_mb: 128"), "{view}");
    let run =
        client.python("one", "import sys\nprint(6 * 7)\nprint('no', file=sys.stderr)\nexit(3)");
    assert_eq!((&run["stdout"], &run["stderr"]), (&json!("42\n"), &json!("no\n")));
    assert_eq!((&run["outcome"], &run["exit_code"]), (&json!("exited"), &json!(3)));
    // Files stay, variables do not.
    client.python("one", "x = 1\nopen('kept', 'w').write('kept')");
    let run = client.python("one", "print(open('kept').read(), 'x' in globals())");
    assert_eq!(run["stdout"], "kept False\n");
    let arguments = json!({
        "sandbox_id": "one", "command": ["sh", "-c", "cat; echo $A; pwd"], "input": "in\n",
        "environment": { "A": "of the call" }, "working_directory": "/tmp",
    });
    assert_eq!(client.call("run_command", arguments)["stdout"], "in\nof the call\n/tmp\n");
    let bash =
        json!({ "sandbox_id": "one", "code": "echo $1", "language": "bash", "arguments": ["a"] });
    assert_eq!(client.call("run_code", bash)["stdout"], "a\n");
    let listed = client.call("list_sandboxes", json!({}));
    assert_eq!(listed["sandboxes"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sandboxes"][0]["sandbox_id"], "one");
    assert_eq!(client.call("close_sandbox", json!({ "sandbox_id": "one" }))["closed"], true);
    assert_eq!(client.call("list_sandboxes", json!({}))["sandboxes"], json!([]));
    assert!(client.refused("list_files", json!({ "sandbox_id": "one" })).0.contains("no sandbox"));
    assert_eq!(client.leave(), 0);
}

#[test]
fn revision_without_a_handshake_needs_none_and_declares_what_there_is() {
    let Some(place) = Place::new() else { return };
    let mut client = place.connect(&[]);
    let found = client.ask("server/discover", modern(json!({})));
    let versions = found["result"]["supportedVersions"].as_array().expect("it lists versions");
    for version in ["2025-11-25", "2026-07-28"] {
        assert!(versions.contains(&json!(version)), "{found}");
    }
    assert_eq!(found["result"]["capabilities"], json!({ "tools": {} }));
    let tools = client.ask("tools/list", modern(json!({})));
    assert!(tools["result"]["ttlMs"].as_u64().unwrap() > 0, "{tools}");
    let create = modern(json!({ "name": "create_sandbox", "arguments": {} }));
    let created = client.ask("tools/call", create);
    let sandbox = &created["result"]["structuredContent"]["sandbox_id"];
    let run = json!({ "sandbox_id": sandbox, "code": "print('no handshake')" });
    let ran = client.ask("tools/call", modern(json!({ "name": "run_code", "arguments": run })));
    assert_eq!(ran["result"]["structuredContent"]["stdout"], "no handshake\n", "{ran}");
    assert_eq!(ran["result"]["resultType"], "complete");
    for method in ["prompts/list", "resources/list", "resources/templates/list", "ping"] {
        let answer = client.ask(method, modern(json!({})));
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
}

#[test]
fn every_tool_has_a_schema_for_arguments_and_result_and_hints() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let list = client.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = [
        "create_sandbox",
        "run_code",
        "run_command",
        "read_file",
        "write_file",
        "list_files",
        "checkpoint",
        "restore",
        "diff",
        "list_sandboxes",
        "explain_denial",
        "close_sandbox",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert!(tool["description"].as_str().unwrap().len() > 20, "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        // Only creating and listing need no sandbox.
        let names_one = tool["inputSchema"]["required"] != Value::Null
            && tool["inputSchema"]["required"].as_array().unwrap().contains(&json!("sandbox_id"));
        let needs_none =
            ["create_sandbox", "list_sandboxes"].contains(&tool["name"].as_str().unwrap());
        assert_ne!(names_one, needs_none, "{tool}");
    }
}

#[test]
fn other_commands_see_and_use_the_sandboxes_of_a_client() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    client.create(json!({ "name": "seen" }));
    assert_eq!(place.sessions(), ["seen"]);
    let run = finish(place.command(&["exec", "seen", "--", "sh", "-c", "echo outside > note"]));
    assert_eq!(run.code, 0, "{run:?}");
    let read = client.call("read_file", json!({ "sandbox_id": "seen", "path": "note" }));
    assert_eq!(read["content"], "outside\n");
    // A sandbox that another command ends is gone for the client too.
    finish(place.command(&["rm", "-f", "seen"]));
    let (message, remedy) = client.refused("list_files", json!({ "sandbox_id": "seen" }));
    assert!(message.contains("seen") && !remedy.is_empty(), "{message}: {remedy}");
}

#[test]
fn mistakes_in_arguments_are_errors_of_the_tool_and_unknown_tools_of_the_protocol() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    for (tool, arguments, part) in [
        ("run_code", json!({ "code": "print(1)" }), "sandbox_id"),
        ("run_code", json!({ "sandbox_id": sandbox, "code": 1 }), "invalid type"),
        ("run_code", json!({ "sandbox_id": sandbox, "code": "", "language": "cobol" }), "cobol"),
        ("run_code", json!({ "sandbox_id": sandbox, "code": "", "surprise": 1 }), "surprise"),
        ("run_command", json!({ "sandbox_id": sandbox, "command": [] }), "no program"),
        (
            "run_command",
            json!({ "sandbox_id": sandbox, "command": ["a"], "timeout_seconds": 0 }),
            "0",
        ),
        ("read_file", json!({ "sandbox_id": sandbox, "path": "none" }), "none"),
        (
            "write_file",
            json!({ "sandbox_id": sandbox, "path": "a", "content": "%", "encoding": "base64" }),
            "base64",
        ),
        ("create_sandbox", json!({ "name": "../up" }), "name"),
        ("create_sandbox", json!({ "name": sandbox }), "exists already"),
        ("create_sandbox", json!({ "policy": "memory: lots" }), "mistake"),
        (
            "explain_denial",
            json!({ "sandbox_id": sandbox, "path": "/", "host": "a" }),
            "more than one",
        ),
    ] {
        let (message, _) = client.refused(tool, arguments);
        assert!(message.contains(part), "{tool}: {message}");
    }
    let answer = client.ask("tools/call", json!({ "name": "rm", "arguments": {} }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = client.ask("surprise/me", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[test]
fn sandboxes_at_once_are_limited_and_closing_one_makes_room() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&["--max-sandboxes", "2"]);
    let one = client.create(json!({}));
    client.create(json!({}));
    let (message, remedy) = client.refused("create_sandbox", json!({}));
    assert!(message.contains("2 sandboxes") && remedy.contains("close_sandbox"), "{message}");
    client.call("close_sandbox", json!({ "sandbox_id": one }));
    client.create(json!({}));
}

#[test]
fn calls_run_at_the_same_time() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    let call = |code: &str| json!({ "name": "run_code", "arguments": { "sandbox_id": sandbox, "code": code } });
    // The first waits for a file that the second makes.
    let wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('went')";
    let first = client.send("tools/call", call(wait));
    let second = client.send("tools/call", call("open('go', 'w')"));
    let answers = [client.hear(), client.hear()];
    let stdout = |id: u64| {
        let answer = answers.iter().find(|answer| answer["id"] == id).expect("it was answered");
        answer["result"]["structuredContent"]["stdout"].clone()
    };
    assert_eq!((stdout(first), stdout(second)), (json!("went\n"), json!("")));
}

#[test]
fn server_refuses_a_terminal_json_and_files_that_can_be_read_once() {
    let Some(place) = Place::new() else { return };
    for (words, part) in [
        (&["mcp", "--json"][..], "--json"),
        (&["mcp", "--policy", "-"], "only once"),
        (&["mcp", "--tools", "/dev/fd/0"], "only once"),
        (&["mcp", "--policy", "/nowhere"], "/nowhere"),
        (&["mcp", "--env", "AWS_SECRET_ACCESS_KEY=x"], "AWS_SECRET_ACCESS_KEY"),
    ] {
        let run = finish(place.command(words));
        assert_eq!(run.code, 125, "{words:?}: {run:?}");
        assert!((run.stderr + &run.stdout).contains(part), "{words:?}");
    }
}

#[test]
fn settings_of_the_page_start_a_server() {
    let Some(place) = Place::new() else { return };
    let page = include_str!("../../../../docs/mcp.md");
    let snippet = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    let settings: Value = serde_json::from_str(snippet.expect("it has one")).expect("it is JSON");
    let server = &settings["mcpServers"]["stockade"];
    assert_eq!((&server["command"], &server["args"]), (&json!("stockade"), &json!(["mcp"])));
    let mut client = place.client(&[]);
    let sandbox = client.create(json!({}));
    // Without options a sandbox has no network and nothing of the host's files.
    let asked = json!({ "sandbox_id": sandbox, "host": "example.org" });
    assert_eq!(client.call("explain_denial", asked)["verdict"]["effect"], "deny");
}
