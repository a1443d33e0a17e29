//! Which tools exist inside, and how refused calls are reported.

use std::process::Command;

use serde_json::{Value, json};

use crate::shop::Shop;
use crate::support::{binary, finish, has_node, walls_can_be_built};

const ONE_LISTED: &str = "tool_allowlist: [word_count]\n";

#[test]
fn without_a_policy_every_offered_tool_may_be_called() {
    if !walls_can_be_built() {
        return;
    }
    let run = Shop::new().python("print(word_count('a'), do('return', 2))");
    assert_eq!(run.text(), "1 2\n");
}

#[test]
fn with_a_policy_a_tool_that_is_not_listed_does_not_exist() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(ONE_LISTED);
    assert_eq!(shop.python("print(word_count('a'))").text(), "1\n");
    let gone = shop.python("do('return', 2)");
    assert_eq!(gone.code, 1);
    assert!(gone.stderr.contains("NameError: name 'do' is not defined"), "{gone:?}");
    assert!(!shop.shell("stockade-tool --list").text().contains("do"));
    let files = shop.shell("cat /run/stockade/tools.json /run/stockade/python/*.py");
    assert!(!files.text().contains("Does what its arguments ask."), "{}", files.stdout);
    assert!(files.stdout.contains("Counts what a text has."), "{}", files.stdout);
}

#[test]
fn policy_that_lists_no_tool_has_none_inside_and_calls_are_denied() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy("name: nothing\n");
    assert!(shop.python("word_count('a')").stderr.contains("NameError"));
    let report = shop.report("call_tool('word_count', text='a')");
    assert_eq!(report["denials"][0]["control"], "tools", "{report}");
    assert_eq!(report["denials"][0]["target"], "word_count", "{report}");
}

#[test]
fn refused_call_is_identical_for_program_result_and_record() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(ONE_LISTED);
    let code = "
from stockade_tools import ToolDenied
import json
try:
    call_tool('do', what='return')
except ToolDenied as error:
    print(json.dumps([error.code, str(error)]))
";
    let report = shop.report(code);
    let told: Value = serde_json::from_str(report["stdout"].as_str().unwrap()).unwrap();
    let denial = &report["denials"][0];
    assert_eq!(report["denials"].as_array().map(Vec::len), Some(1), "{report}");
    for key in ["control", "rule", "target", "why", "how_to_allow"] {
        assert!(denial[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {denial}");
    }
    assert_eq!(denial["control"], "tools");
    assert_eq!(denial["target"], "do");
    let (why, how) = (denial["why"].as_str().unwrap(), denial["how_to_allow"].as_str().unwrap());
    assert_eq!(told[0], "denied");
    let message = told[1].as_str().unwrap();
    assert!(message.contains(why) && message.contains(how), "{message} {denial}");
    let recorded = shop.recorded();
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!((&recorded[0]["denial"], &recorded[0]["tool"]), (denial, &json!("do")));
    assert_eq!(recorded[0]["outcome"], "denied");
    assert_eq!(recorded[0]["verdict"], "deny");
    assert_eq!(report["usage"]["tool_calls"], 1);
}

#[test]
fn refused_call_is_a_denial_from_shell_and_javascript_too() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy(ONE_LISTED);
    assert_eq!(shop.shell(r#"stockade-tool do '{"what":"return"}'"#).code, 126);
    if has_node() {
        let code = "callTool('do', {what: 'return'}).catch((error) => console.log(error.code))";
        assert_eq!(shop.javascript(code).text(), "denied\n");
    }
    for event in shop.recorded() {
        assert_eq!(event["denial"]["target"], "do", "{event}");
    }
}

#[test]
fn without_tools_there_are_no_tool_files_inside() {
    if !walls_can_be_built() {
        return;
    }
    let script = "
ls /run/stockade; command -v stockade-tool; env | grep -i -e stockade -e PYTHONPATH -e NODE_OPTIONS
echo $PATH | grep stockade; python3 -c 'call_tool'; grep /run/stockade /proc/self/mountinfo; true";
    let run = |tools: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["run", "--no-record"]).args(tools).args(["--", "sh", "-c", script]);
        finish(&mut command)
    };
    let without = run(&[]);
    assert_eq!(without.text(), "", "{without:?}");
    assert!(without.stderr.contains("NameError"), "{without:?}");
    let shop = Shop::new();
    let with = run(&["--tools", shop.path("tools.yaml").to_str().unwrap()]);
    assert!(with.text().contains("/run/stockade/bin/stockade-tool"), "{with:?}");
    assert!(!with.stderr.contains("NameError"), "{with:?}");
}

#[test]
fn rules_see_the_name_and_the_arguments_of_a_call() {
    if !walls_can_be_built() {
        return;
    }
    let policy = "
tool_allowlist: [word_count, do]
defaults: {action: allow}
rules:
  - name: no-letters
    condition: { field: arguments.unit, operator: eq, value: letters }
    action: deny
    message: letters are not counted here
  - name: no-crash
    condition: { field: arguments, operator: contains, value: '\"what\":\"crash\"' }
    action: deny
  - name: doing-is-watched
    condition: { field: tool_name, operator: eq, value: do }
    action: audit
";
    let shop = Shop::new().policy(policy);
    let code = "
from stockade_tools import ToolDenied
print(word_count('a b'), word_count('a b', 'words'), do('return', 'x'))
for call in (lambda: word_count('a b', 'letters'), lambda: do('crash')):
    try:
        call()
    except ToolDenied as error:
        print(error)
";
    let report = shop.report(code);
    let said = report["stdout"].as_str().unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{report}");
    assert_eq!(lines[0], "2 2 x");
    assert!(lines[1].contains("letters are not counted here"), "{said}");
    assert!(lines[2].contains("no-crash"), "{said}");
    let recorded = shop.recorded();
    let verdicts: Vec<&str> =
        recorded.iter().filter_map(|event| event["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["allow", "allow", "audit", "deny", "deny"], "{recorded:?}");
    assert!(recorded[2]["rule"].as_str().unwrap().contains("doing-is-watched"), "{recorded:?}");
    assert!(recorded[3]["rule"].as_str().unwrap().contains("no-letters"), "{recorded:?}");
}

#[test]
fn call_event_has_sizes_and_has_arguments_only_if_the_policy_records_them() {
    if !walls_can_be_built() {
        return;
    }
    let code = "word_count('private words')";
    let expected = r#"{"text":"private words"}"#;
    let omits = Shop::new().policy(ONE_LISTED);
    assert_eq!(omits.python(code).code, 0);
    let [event] = &omits.recorded()[..] else { panic!("one call") };
    assert_eq!((&event["tool"], &event["outcome"]), (&json!("word_count"), &json!("answered")));
    assert_eq!((&event["verdict"], &event["result_bytes"]), (&json!("allow"), &json!(1)));
    assert_eq!(event["argument_bytes"], expected.len());
    assert!(event["duration_ms"].is_u64(), "{event}");
    assert!(!event.to_string().contains("private"), "{event}");
    let keeps = Shop::new().policy(&format!("{ONE_LISTED}tool_arguments: record\n"));
    assert_eq!(keeps.python(code).code, 0);
    assert_eq!(keeps.recorded()[0]["arguments"], expected);
}

#[test]
fn listed_tool_that_is_not_offered_is_unknown() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new().policy("tool_allowlist: [word_count, fetch_arxiv]\n");
    assert!(!shop.shell("stockade-tool --list").text().contains("fetch_arxiv"));
    let run = shop.shell("stockade-tool fetch_arxiv '{}'");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("the host does not offer it"), "{run:?}");
    assert_eq!(shop.recorded()[0]["outcome"], "unknown");
}

#[test]
fn native_wall_enforces_tool_clauses_and_reduced_wall_refuses_them() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    let policy = "isolation: reduced\ntool_allowlist: [word_count]\n\
                  limits: {max_tool_seconds: 5, max_tool_bytes: 100000}\n";
    let policy = shop.file("plan.yaml", policy);
    let plan = |provider| {
        let mut command = Command::new(binary());
        finish(command.args(["policy", "plan", &policy, "--provider", provider, "--json"]))
    };
    let native = plan("native");
    let report = native.json();
    assert_eq!(native.code, 0, "{native:?}");
    let held = report.to_string();
    assert!(held.contains("tool_allowlist") && held.contains("max_tool_seconds"), "{held}");
    let reduced = plan("reduced");
    assert_ne!(reduced.code, 0, "{reduced:?}");
    assert!(format!("{reduced:?}").contains("tool_allowlist"), "{reduced:?}");
}
