//! Errors in tools files, which are reported with position and remedy before anything runs.

use crate::shop::Shop;

const GOOD: &str =
    "tools:\n  - name: count\n    command: [cat]\n    input_schema: {type: object}\n";

/// Asserts that the error contains each part, and that nothing ran.
#[track_caller]
fn refused(shop: &Shop, words: &[&str], parts: &[&str]) {
    let run = shop.run(&[words, &["--", "echo", "it ran"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    for part in parts {
        assert!(run.stderr.contains(part), "{part} is missing: {}", run.stderr);
    }
}

#[test]
fn tools_file_error_has_line_column_and_remedy() {
    let cases = [
        (GOOD.replace("command", "comand"), vec!["tools.yaml:3:5", "comand", "command"]),
        (
            GOOD.replace("[cat]", "python3 count.py"),
            vec!["tools.yaml:3:14", "command must be a list", "write [python3, count.py]"],
        ),
        (
            GOOD.replace("type: object", "type: array"),
            vec!["tools.yaml:4:19", "input_schema", "write a JSON Schema"],
        ),
        (
            GOOD.replace("    input_schema: {type: object}\n", ""),
            vec!["tools.yaml:2:5", "input_schema"],
        ),
        (
            format!("{GOOD}{}", &GOOD["tools:\n".len()..]),
            vec!["tools.yaml:5:5", "two tools are called `count`", "give one of them another name"],
        ),
        (
            GOOD.replace("count", "'no name'"),
            vec!["tools.yaml:2:11", "is not the name of a tool", "use letters"],
        ),
        (GOOD.replace("[cat]", "[cat"), vec!["tools.yaml:", "not valid YAML", "brackets"]),
    ];
    for (text, parts) in cases {
        refused(&Shop::with(&text), &[], &parts);
    }
}

#[test]
fn all_errors_of_a_tools_file_are_reported_at_once() {
    let text = GOOD.replace("command", "comand").replace("count", "'no name'");
    let shop = Shop::with(&text);
    refused(&shop, &[], &["tools.yaml:3:5", "tools.yaml:2:11", "mistakes"]);
}

#[test]
fn missing_tools_file_is_reported() {
    let shop = Shop::with(GOOD);
    std::fs::remove_file(shop.path("tools.yaml")).expect("it was there");
    refused(&shop, &[], &["tools.yaml", "check the path"]);
}

#[test]
fn tool_name_in_two_tools_files_is_refused() {
    let shop = Shop::with(GOOD);
    let other = shop.file("other.yaml", GOOD);
    let parts = ["two files of --tools have a tool with the name `count`", "another name"];
    refused(&shop, &["--tools", &other], &parts);
}

#[test]
fn two_tools_files_are_combined() {
    if !crate::support::walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    let other = shop.file("other.yaml", GOOD);
    let run = shop.run(&["--tools", &other, "--", "stockade-tool", "--list"]);
    assert_eq!(run.text().lines().count(), 3, "{run:?}");
}
