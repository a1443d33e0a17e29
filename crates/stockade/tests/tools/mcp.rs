//! Tools of MCP servers, which run on the host and are called by programs inside.

use crate::shop::Shop;
use crate::support::{finish, is_alive, numbers, wait_until_gone, walls_can_be_built};

const SERVER: &str = include_str!("programs/mcp_server.py");

/// A shop with a server in this mode, and the tools to import from it.
pub(crate) fn shop(mode: &str, tools: &str) -> Shop {
    let shop = Shop::with(&format!(
        "mcp_servers:\n  - name: numbers\n    command: [python3, ./server.py, '{mode}']\n    tools: [{tools}]\n"
    ));
    shop.file("server.py", SERVER);
    shop
}

#[test]
fn tool_of_a_server_is_a_function_in_python_with_its_schema_enforced() {
    if !walls_can_be_built() {
        return;
    }
    let shop = shop("", "add, {name: get-environment, as: surroundings}");
    let code = "
from stockade_tools import ToolError
print(add(2, 3), add(b=4, a=1), call_tool('add', a=0, b=0))
for wrong in ((2, 'three'), (6, 7)):
    try:
        add(*wrong)
    except ToolError as error:
        print(error.code, error)
try:
    add(1)
except TypeError as error:
    print(error)
help(add)
";
    let run = shop.python(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines[0], "{'sum': 5} {'sum': 5} {'sum': 0}");
    assert_eq!(lines[1], "invalid_arguments `arguments.b` must be an integer, not a string");
    assert!(lines[2].starts_with("invalid_result ") && lines[2].contains("result.sum"), "{run:?}");
    assert!(lines[3].contains("missing a required argument: 'b'"), "{run:?}");
    assert!(run.stdout.contains("Adds two numbers."), "{run:?}");
    assert!(run.stdout.contains("A whole number."), "{run:?}");
    let [server] = numbers(&shop.path("server"))[..] else { panic!("one server") };
    assert!(!is_alive(server), "the server is still there");
    let shell = shop.shell(r#"stockade-tool add '{"a":1,"b":2}'"#);
    assert_eq!(shell.json()["sum"], 3);
}

#[test]
fn only_imported_and_listed_tools_of_a_server_exist_inside() {
    if !walls_can_be_built() {
        return;
    }
    let two = shop("", "add, die").policy("tool_allowlist: [add]\n");
    assert!(two.python("print(add(1, 2))").text().contains("3"));
    assert_eq!(two.shell("stockade-tool die '{}'").code, 126);
    assert_eq!(two.shell("stockade-tool get-environment '{}'").code, 126);
    assert_eq!(two.shell("stockade-tool --list").text().lines().count(), 1);
}

#[test]
fn server_gets_only_the_configured_variables() {
    if !walls_can_be_built() {
        return;
    }
    let shop = shop("", "{name: get-environment, as: surroundings}");
    let code = "import json; print(json.dumps(surroundings()))";
    let mut command = shop.command(&["--", "python3", "-c", code]);
    let names = finish(command.env("TOKEN", "hunter2")).json().to_string();
    assert!(names.contains("PATH") && !names.contains("TOKEN"), "{names}");
}

#[test]
fn server_that_dies_fails_its_calls_and_the_run_continues() {
    if !walls_can_be_built() {
        return;
    }
    let code = "
from stockade_tools import ToolError
print(add(1, 1))
for call in (lambda: die(), lambda: add(1, 2)):
    try:
        call()
    except ToolError as error:
        print(error.code, error)
";
    let run = shop("", "add, die").python(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines[0], "{'sum': 2}");
    for line in &lines[1..3] {
        assert!(line.starts_with("broken the tool's server `numbers` ended by itself"), "{line}");
    }
}

#[test]
fn unusable_server_is_reported_before_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let absent = "mcp_servers:\n  - {name: numbers, command: [./absent], tools: [add]}\n";
    let cases = [
        (Shop::with(absent), vec!["cannot start the tool server `numbers`", "No such file"]),
        (shop("dies", "add"), vec!["`numbers`", "no configuration was found"]),
        // Stockade skips invalid messages, so the error is that the server exited.
        (shop("mumbles", "add"), vec!["`numbers` ended by itself, exit status: 0\n"]),
        (shop("stays", "add, multiply"), vec!["has no tool `multiply`", "`add`"]),
    ];
    for (shop, expected) in cases {
        let run = shop.run(&["--", "echo", "it ran"]);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
        for part in expected {
            assert!(run.stderr.contains(part), "{part} is missing: {}", run.stderr);
        }
        assert!(run.stderr.contains("\n  = "), "{}", run.stderr);
        if shop.path("server").exists() {
            wait_until_gone(&numbers(&shop.path("server")));
        }
    }
}
