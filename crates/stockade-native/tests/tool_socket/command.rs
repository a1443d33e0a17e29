//! The command with which shells call tools.

use crate::broker::TestBroker;
use crate::support::{request, run, run_in, shell, walls_can_be_built};
use stockade_provider::SandboxRequest;

#[test]
fn result_is_printed_as_json_or_as_plain_text() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(shell(
        "stockade-tool echo '{\"query\": \"x y\",\n \"deep\": [{}]}'; stockade-tool echo; \
         echo '{\"from\":\"stdin\"}' | stockade-tool echo -; \
         stockade-tool word; stockade-tool --raw word; stockade-tool --raw echo '{}'",
    ));
    let expected = "{\"query\":\"x y\",\"deep\":[{}]}\n{}\n{\"from\":\"stdin\"}\n\
                    \"a \\\"word\\\"\\nand more\"\na \"word\"\nand more\n{}\n";
    assert_eq!(said, expected);
}

#[test]
fn errors_go_to_stderr_with_an_exit_code_per_kind() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(shell(
        "stockade-tool fails 2>&1; echo $?; stockade-tool other 2>&1; echo $?; \
         stockade-tool fails '[1]' 2>&1; echo $?; stockade-tool fails 2>/dev/null; echo $?; \
         stockade-tool 2>&1 | head -1; stockade-tool --help | head -1; stockade-tool word >/dev/full; echo $?",
    ));
    let expected = "stockade-tool: fails: it has failed\n1\n\
                    stockade-tool: other: tool_allowlist does not name it\n126\n\
                    stockade-tool: the arguments are JSON, but not an object\n  \
                    remedy: write one JSON object, such as '{\"query\":\"x\"}'\n2\n1\n\
                    stockade-tool: which tool?\n\
                    Calls a tool that the host of this sandbox offers.\n1\n\
                    stockade-tool: cannot print the result: No space left on device (os error 28)\n";
    assert_eq!(said, expected);
}

#[test]
fn tools_are_listed_one_per_line_or_in_full() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(shell("stockade-tool --list; stockade-tool --list --json"));
    let whole = "[{\"name\":\"echo\",\"description\":\"Says what it was told.\\nMore of it.\",\
                 \"input_schema\":{}},{\"name\":\"longer_name\",\"description\":\"\",\
                 \"input_schema\":{}}]\n";
    assert_eq!(said, format!("echo         Says what it was told.\nlonger_name\n{whole}"));
}

#[test]
fn without_tools_the_command_reports_why_it_fails() {
    if !walls_can_be_built() {
        return;
    }
    // A copy can outlive its directory, and a sandbox without tools has no such directory.
    let broker = TestBroker::default();
    let (said, _) = run(shell(
        "cp /run/stockade/bin/stockade-tool /tmp; \
         STOCKADE_TOOLS_SOCKET=/tmp/none /tmp/stockade-tool echo 2>&1; echo $?",
    ));
    assert!(
        said.starts_with(
            "stockade-tool: cannot reach the tools at /tmp/none: No such file or directory"
        ),
        "{said}"
    );
    assert!(
        said.contains("remedy: this sandbox has no tools") && said.ends_with("\n1\n"),
        "{said}"
    );
    let without = SandboxRequest { tools: None, ..request("{}", &broker) };
    let said = run_in(&without, shell("stockade-tool echo 2>/dev/null; echo $?"));
    assert_eq!(said, "127\n");
}

#[test]
fn command_can_be_started_again_and_again() {
    if !walls_can_be_built() {
        return;
    }
    let (said, _) = run(shell(
        "for _ in $(seq 200); do stockade-tool echo >/dev/null || echo failed; done; echo done",
    ));
    assert_eq!(said, "done\n", "each has a connection, and leaves its place to the next");
}
