//! A tool's schemas validate its arguments and results.

use crate::shop::Shop;
use crate::support::walls_can_be_built;

#[test]
fn arguments_that_violate_the_schema_never_reach_the_tool() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    // On the raw socket, to bypass the checks of the Python client.
    let code = r#"
for arguments in (b'{}', b'{"text":5}', b'{"text":"a","unit":"miles"}', b'{"text":"a","more":1}'):
    [answer] = exchange(request(arguments, tool='word_count'))
    print(answer['error']['code'], answer['error']['message'])
goes_on()
"#;
    let run = shop.raw(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines.len(), 4, "{run:?}");
    for (line, part) in lines.iter().zip(["text", "text", "unit", "more"]) {
        assert!(line.starts_with("invalid_arguments ") && line.contains(part), "{line}");
    }
    let mistake = shop.python("word_count(txt='a')");
    assert!(mistake.stderr.contains("TypeError"), "{mistake:?}");
}

#[test]
fn invalid_result_of_a_tool_fails_only_its_call() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy("tool_allowlist: [do]\ndefaults: {max_tool_calls: 100}\n");
    let code = r#"
from stockade_tools import ToolError
for what, value in (('return', True), ('print', 'not JSON'), ('print', ''), ('print', 'NaN'),
                    ('print', '{"a":1,"a":2}'), ('print', '"\\ud800"'), ('print', '1 2')):
    try:
        print(do(what, value))
    except ToolError as error:
        print(error.code, error)
print(do('return', 'good'))
"#;
    let run = shop.python(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines.len(), 8, "{run:?}");
    for line in &lines[..7] {
        assert!(line.starts_with("invalid_result the tool"), "{line}");
    }
    assert_eq!(lines[7], "good");
}
