//! Tools of the host.

use crate::support::{directory, named, run, run_with};

named![
    listed_tool_is_a_function_and_a_call_by_name,
    tool_that_raises_shows_its_text_inside,
    tool_that_is_not_listed_is_denied_with_a_reason,
    wrong_arguments_are_a_type_error,
    sandbox_without_tools_has_no_call_tool,
];

pub(crate) const TOOLS: &str = r#"
version: "1"
tools:
  - name: double
    description: Twice a number.
    command: [python3, -c, "import json,sys; print(json.load(sys.stdin)['number'] * 2)"]
    input_schema: {type: object, properties: {number: {type: integer}}, required: [number]}
  - name: broken
    description: Fails.
    command: [sh, -c, "echo out of cheese >&2; exit 3"]
    input_schema: {type: object, properties: {}}
"#;

fn run_tools(policy: Option<&str>, code: &str) -> stockade_testing::Run {
    let (_scratch, path) = directory(&[("t.yaml", TOOLS), ("p.yaml", policy.unwrap_or("{}"))]);
    let (tools, file) = (path.join("t.yaml"), path.join("p.yaml"));
    let mut options = vec!["--tools", tools.to_str().expect("text")];
    if policy.is_some() {
        options.extend(["--policy", file.to_str().expect("text")]);
    }
    run_with(&options, code)
}

fn listed_tool_is_a_function_and_a_call_by_name() {
    let code = "print(double(number=21), double(4), call_tool('double', number=1))";
    assert_eq!(run_tools(None, code).text(), "42 8 2\n");
}

fn tool_that_raises_shows_its_text_inside() {
    let code = "try:\n    broken()\nexcept ToolError as error:\n    print(error.code, error)\nprint(double(1))";
    let run = run_tools(None, code);
    assert!(run.text().contains("out of cheese"), "{run:?}");
    assert!(run.stdout.ends_with("2\n"), "{run:?}");
}

fn tool_that_is_not_listed_is_denied_with_a_reason() {
    let code =
        "try:\n    call_tool('double', number=1)\nexcept ToolDenied as error:\n    print(error)";
    let run = run_tools(Some("tool_allowlist: [broken]"), code);
    assert!(run.text().contains("double"), "{run:?}");
    assert_eq!(run_tools(Some("tool_allowlist: [double]"), code).text(), "");
}

fn wrong_arguments_are_a_type_error() {
    let code = "try:\n    double()\nexcept TypeError as error:\n    print(error)";
    assert_eq!(run_tools(None, code).text(), "double() missing a required argument: 'number'\n");
}

fn sandbox_without_tools_has_no_call_tool() {
    assert!(run("call_tool('double', number=1)").stderr.contains("NameError"));
}
