//! The limits of calls: duration, size, depth, rate, total and concurrency.

use std::time::Duration;

use serde_json::{Value, json};

use crate::shop::Shop;
use crate::support::walls_can_be_built;

/// A shop whose policy lists both tools and has these limits.
fn limited(limits: &str) -> Shop {
    Shop::new().policy(&format!(
        "tool_allowlist: [word_count, do]\nlimits: {{{limits}}}\ndefaults: {{max_tool_calls: 1000}}\n"
    ))
}

/// Makes these Python calls in turn. Returns for each its result, or the code and message of its
/// error, and the report of the run.
#[track_caller]
fn outcomes(shop: &Shop, calls: &[&str]) -> (Vec<String>, Value) {
    let calls: String = calls.iter().map(|call| format!("lambda: {call}, ")).collect();
    let code = format!(
        "
from stockade_tools import ToolError
for call in ({calls}):
    try:
        print(str(call())[:200])
    except ToolError as error:
        print(error.code, error)
"
    );
    let report = shop.report(&code);
    assert_eq!(report["exit_code"], 0, "{report}");
    let said = report["stdout"].as_str().unwrap_or_default();
    let said = said.lines().map(str::to_owned).collect();
    (said, report)
}

#[test]
fn call_over_its_time_limit_fails_and_its_program_is_killed() {
    if !walls_can_be_built() {
        return;
    }
    let shop = limited("max_tool_seconds: 8");
    let began = std::time::Instant::now();
    let (said, report) = outcomes(&shop, &["do('hang')", "word_count('a b')"]);
    assert!(said[0].starts_with("timed_out ") && said[0].contains("8 seconds"), "{said:?}");
    assert_eq!(said[1], "2");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(report["limits_hit"], json!(["max_tool_seconds"]));
    crate::support::wait_until_gone(&crate::support::numbers(&shop.path("pids")));
}

#[test]
fn tool_may_have_its_own_shorter_time_limit() {
    if !walls_can_be_built() {
        return;
    }
    let tools = include_str!("programs/tools.yaml").to_owned() + "    timeout_seconds: 1.5\n";
    let shop = Shop::with(&tools);
    let (said, report) = outcomes(&shop, &["do('hang')", "word_count('a b')"]);
    assert!(said[0].starts_with("timed_out ") && said[0].contains("1.5 seconds"), "{said:?}");
    assert_eq!((said[1].as_str(), &report["limits_hit"]), ("2", &json!([])));
}

#[test]
fn arguments_and_results_are_bounded_in_bytes() {
    if !walls_can_be_built() {
        return;
    }
    let shop = limited("max_tool_bytes: 1000");
    let calls = [
        "word_count('a ' * 480)",
        "word_count('a ' * 2000)",
        "word_count('a ' * 2000000)",
        "do('print', '\"' + 'x' * 900 + '\"')[:3]",
        "do('print', '[' + '1,' * 400 + '1]' + ' ' * 200)",
        "do('flood')",
        "word_count('a b')",
    ];
    let (said, report) = outcomes(&shop, &calls);
    assert_eq!((said[0].as_str(), said[3].as_str(), said[6].as_str()), ("480", "xxx", "2"));
    for refused in [1, 2, 4, 5] {
        assert!(said[refused].starts_with("too_large "), "{}", said[refused]);
        assert!(said[refused].contains("max_tool_bytes"), "{}", said[refused]);
    }
    assert_eq!(report["limits_hit"], json!(["max_tool_bytes"]));
}

#[test]
fn arguments_and_results_are_bounded_in_depth() {
    if !walls_can_be_built() {
        return;
    }
    let shop = limited("max_tool_depth: 5");
    let calls = [
        "do('return', [[[[]]]])",
        "do('return', [[[[[]]]]])",
        "do('nest', 5)",
        "do('nest', 6)",
        "do('nest', 400)",
        "word_count('a b')",
    ];
    let (said, report) = outcomes(&shop, &calls);
    assert_eq!((said[0].as_str(), said[2].as_str()), ("[[[[]]]]", "[[[[[]]]]]"));
    assert_eq!(said[5], "2");
    for refused in [1, 3, 4] {
        assert!(said[refused].starts_with("too_deep "), "{}", said[refused]);
        assert!(said[refused].contains("max_tool_depth"), "{}", said[refused]);
    }
    assert_eq!(report["limits_hit"], json!(["max_tool_depth"]));
}

#[test]
fn calls_over_the_rate_limit_are_refused_until_later() {
    if !walls_can_be_built() {
        return;
    }
    let shop = limited("max_tool_calls_per_second: 2");
    // Many requests in one write arrive together even on a slow host.
    let code = r#"
answers = exchange(b''.join(request(b'{"what":"return","value":1}', n) for n in range(50)), most=50)
codes = [answer.get('error', {}).get('code', 'good') for answer in answers]
print(json.dumps([codes.count('good'), codes.count('too_many'), len(codes)]))
import time
time.sleep(1.1)
goes_on()
"#;
    let run = shop.raw(code);
    let counts: Vec<u64> = serde_json::from_str(run.text()).unwrap();
    assert!((2..40).contains(&counts[0]), "{counts:?}");
    assert_eq!((counts[0] + counts[1], counts[2]), (50, 50));
    let refused = shop.recorded().into_iter().find(|event| event["outcome"] == "too_many");
    assert_eq!(refused.unwrap()["denial"]["control"], "max_tool_calls_per_second");
}

#[test]
fn calls_over_the_limit_of_a_run_are_denied() {
    if !walls_can_be_built() {
        return;
    }
    let shop =
        Shop::new().policy("tool_allowlist: [word_count, do]\ndefaults: {max_tool_calls: 3}\n");
    let call = "word_count('a')";
    // Calls that are refused before they run are not counted.
    let wrong = "call_tool('do', what=5)";
    let (said, report) =
        outcomes(&shop, &[call, wrong, call, call, call, "call_tool('do', 'return')"]);
    assert_eq!((said[0].as_str(), said[2].as_str(), said[3].as_str()), ("1", "1", "1"));
    for refused in [4, 5] {
        assert!(said[refused].starts_with("limit "), "{}", said[refused]);
        assert!(said[refused].contains("max_tool_calls"), "{}", said[refused]);
    }
    assert_eq!(report["limits_hit"], json!(["max_tool_calls"]));
    assert!(report["denials"].to_string().contains("max_tool_calls"), "{report}");
    let outcomes: Vec<Value> =
        shop.recorded().iter().map(|event| event["outcome"].clone()).collect();
    let expected = ["answered", "invalid_arguments", "answered", "answered", "limit", "limit"];
    assert_eq!(outcomes, expected);
}

#[test]
fn without_a_policy_ten_calls_may_be_made() {
    if !walls_can_be_built() {
        return;
    }
    let shop = Shop::new();
    let code = r#"
answers = exchange(b''.join(request(b'{"what":"return","value":1}', n) for n in range(12)), most=12)
print(sorted(answer.get('error', {}).get('code', 'good') for answer in answers))
"#;
    let run = shop.raw(code);
    assert_eq!(run.text().matches("good").count(), 10, "{run:?}");
    assert_eq!(run.text().matches("limit").count(), 2, "{run:?}");
}
