//! The same tool from Python, from a shell and from JavaScript.

use serde_json::json;

use crate::shop::Shop;
use crate::support::{has_node, walls_can_be_built};

#[test]
fn same_tool_answers_python_shell_and_javascript() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    let python = "print(word_count('one two three'))";
    assert_eq!(shop.python(python).text(), "3\n");
    let shell = r#"stockade-tool word_count '{"text":"one two three"}'"#;
    assert_eq!(shop.shell(shell).text(), "3\n");
    if has_node() {
        let script = "callTool('word_count', {text: 'one two three'}).then(console.log)";
        assert_eq!(shop.javascript(script).text(), "3\n");
    }
}

#[test]
fn python_has_a_function_for_each_tool_without_an_import() {
    if !walls_can_be_built() {
        return;
    }
    let code = "
print(word_count('a b'), word_count(text='a b'), word_count('ab cd', 'letters'))
print(word_count('ab cd', unit='letters'), call_tool('word_count', text='a b'))
print(call_tool('word_count', 'ab cd', 'letters'))
print(do('return', {'deep': [1, 2.5, None, True, 'ä']}))
import stockade_tools
print(stockade_tools.call_tool is call_tool)
";
    let expected = "2 2 5\n5 2\n5\n{'deep': [1, 2.5, None, True, 'ä']}\nTrue\n";
    assert_eq!(Shop::new().python(code).text(), expected);
}

#[test]
fn help_in_python_shows_the_schema() {
    if !walls_can_be_built() {
        return;
    }
    let run = Shop::new().python("help(word_count)");
    let text = run.text();
    for part in [
        "word_count(text, unit=",
        "Counts what a text has.",
        "The text that is looked at.",
        "What is counted.",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}

#[test]
fn error_of_a_tool_is_an_exception_in_python_with_its_message() {
    if !walls_can_be_built() {
        return;
    }
    let code = "
from stockade_tools import ToolDenied, ToolError
try:
    word_count('')
except ToolError as error:
    print(type(error) is ToolError, isinstance(error, Exception), error.code, error)
";
    let run = Shop::new().python(code);
    assert_eq!(run.text(), "True True failed there is nothing to count\n");
    let uncaught = Shop::new().python("word_count('')");
    assert_eq!(uncaught.code, 1, "{uncaught:?}");
    assert!(uncaught.stderr.contains("there is nothing to count"), "{uncaught:?}");
}

#[test]
fn shell_command_has_distinct_exit_codes_for_failures_and_denials() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    assert_eq!(shop.shell("stockade-tool --list").text().lines().count(), 2);
    let names = shop.shell("stockade-tool --list | cut -f1");
    let names: Vec<&str> = names.text().lines().collect();
    assert!(names[0].starts_with("word_count") && names[1].starts_with("do"), "{names:?}");
    let listing = shop.shell("stockade-tool --list --json").json();
    assert_eq!(listing[0]["input_schema"]["required"], json!(["text"]));
    assert_eq!(listing[0]["output_schema"], json!({"type": "integer"}));
    let failed = shop.shell(r#"stockade-tool word_count '{"text":""}'"#);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, ""));
    assert!(failed.stderr.contains("there is nothing to count"), "{failed:?}");
    let denied = shop.shell("stockade-tool remove_everything '{}'");
    assert_eq!((denied.code, denied.stdout.as_str()), (126, ""), "{denied:?}");
    assert!(denied.stderr.contains("remove_everything"), "{denied:?}");
    let raw = shop.shell(r#"stockade-tool --raw do '{"what":"return","value":"plain"}'"#);
    assert_eq!(raw.text(), "plain\n");
    let input = shop.shell(r#"echo '{"text": "a b"}' | stockade-tool word_count -"#);
    assert_eq!(input.text(), "2\n");
}

#[test]
fn javascript_awaits_results_and_errors_with_their_codes() {
    if !walls_can_be_built() || !has_node() {
        return;
    }
    let code = "
(async () => {
  console.log(await callTool('word_count', {text: 'a b c'}));
  const both = [callTool('do', {what: 'return', value: [1, {a: null}]}), callTool('word_count', {text: 'a'})];
  console.log(JSON.stringify(await Promise.all(both)));
  for (const [name, args] of [['word_count', {text: ''}], ['word_count', {}], ['nothing', {}]])
    await callTool(name, args).catch((error) => console.log(error instanceof ToolError, error.code, error.message));
  console.log((await callTool.list()).map((tool) => tool.name).join());
})();
";
    let run = Shop::new().javascript(code);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines[..2], ["3", "[[1,{\"a\":null}],1]"]);
    assert_eq!(lines[2], "true failed there is nothing to count");
    assert!(lines[3].starts_with("true invalid_arguments "), "{}", lines[3]);
    assert!(lines[4].starts_with("true denied ") && lines[4].contains("nothing"), "{}", lines[4]);
    assert_eq!(lines[5], "word_count,do");
}

#[test]
fn python_threads_and_forked_processes_get_their_own_results() {
    if !walls_can_be_built() {
        return;
    }
    let code = "
import os, threading
print(do('return', 0), flush=True)
if os.fork() == 0:
    assert do('return', 'child') == 'child'
    os._exit(0)
answers = {}
def ask(number):
    answers[number] = [do('return', [number, step]) for step in range(3)]
threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(answers == {n: [[n, step] for step in range(3)] for n in range(4)}, os.wait()[1])
";
    let shop = Shop::new().policy(
        "tool_allowlist: [do]\nlimits: {max_tool_seconds: 600}\ndefaults: {max_tool_calls: 100}\n",
    );
    assert_eq!(shop.python(code).text(), "0\nTrue 0\n");
}
