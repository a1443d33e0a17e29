//! Policy files of Microsoft's Agent Governance Toolkit load unchanged with the same meaning.

use std::path::{Path, PathBuf};

use serde_json::json;
use stockade_policy::{Access, Context, GuestPath, Host, Limit, Moment, Policy, Verdict};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("agt/", $name)))),*];
    };
}

files![
    "minimal.yaml",
    "full_dump.yaml",
    "full_dump.json",
    "sorted_dump.yaml",
    "version_number_1.yaml",
    "version_number_1_0.yaml",
    "version_number_2.yaml",
    "office_hours.yaml",
    "weekend.yaml",
    "operators.yaml",
    "actions.yaml",
    "older.yaml",
    "unicode.yaml",
    "comments.yaml",
    "long_messages.yaml",
    "mounts.yaml",
    "network.yaml",
    "open_network.yaml",
];

/// The keys of such files.
const KEYS: &[&str] = &[
    "version",
    "name",
    "description",
    "rules",
    "condition",
    "field",
    "operator",
    "value",
    "action",
    "priority",
    "message",
    "dynamic_condition",
    "type",
    "timezone",
    "start_time",
    "end_time",
    "days_of_week",
    "override",
    "defaults",
    "max_tokens",
    "max_tool_calls",
    "confidence_threshold",
    "max_cpu",
    "max_memory_mb",
    "timeout_seconds",
    "network_default",
    "inherit",
    "scope",
    "network_allowlist",
    "tool_allowlist",
    "sandbox_mounts",
    "input_dir",
    "output_dir",
];

/// 2026-03-09 15:00 UTC, a Monday, 11:00 in New York.
const MONDAY: i64 = 1_773_068_400;
const DAY: i64 = 86_400;

fn text(name: &str) -> &'static str {
    FILES.iter().find(|(file, _)| *file == name).expect("the file is listed").1
}

fn parse(name: &str, text: &str) -> Result<Policy, stockade_policy::PolicyErrors> {
    Policy::parse_str(name, text, Path::new("/srv/project"))
}

fn policy(name: &str) -> Policy {
    parse(name, text(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn judge(policy: &Policy, code: &str, unix_seconds: i64) -> Verdict {
    let mut context = Context::default();
    context.now = Some(Moment { unix_seconds });
    policy.judge_code(code, "python", &context)
}

fn effect(policy: &Policy, code: &str) -> &'static str {
    judge(policy, code, MONDAY).effect.as_str()
}

#[test]
fn every_file_loads_and_reads_back() {
    for (name, text) in FILES {
        let policy = parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(parse(name, &policy.to_yaml()).as_ref(), Ok(&policy), "{name}");
        let windows = text.replace('\n', "\r\n");
        assert_eq!(parse(name, &windows).as_ref(), Ok(&policy), "{name} with other line ends");
        let marked = format!("\u{feff}{text}");
        assert_eq!(parse(name, &marked).as_ref(), Ok(&policy), "{name} with a byte order mark");
    }
}

/// The toolkit ignores a typo; here it is an error that names the key.
#[test]
fn a_typo_in_any_key_of_any_file_is_refused() {
    let mut tried = 0;
    for (name, text) in FILES {
        for key in KEYS {
            for written in [format!("{key}:"), format!("\"{key}\":")] {
                let starts_word =
                    |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let Some((at, _)) = text.match_indices(&written).find(|(at, _)| starts_word(*at))
                else {
                    continue;
                };
                let backwards: String = key.chars().rev().collect();
                let mut broken = (*text).to_owned();
                broken.replace_range(at..at + written.len(), &written.replace(key, &backwards));
                let Err(errors) = parse(name, &broken) else { panic!("{name} with {backwards}") };
                let words = format!("has no key `{backwards}`");
                let named = errors.diagnostics().iter().any(|found| found.message.contains(&words));
                assert!(named, "{name} with {backwards}: {errors}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn a_minimal_file_has_the_defaults_of_the_sandbox() {
    let policy = policy("minimal.yaml");
    assert_eq!(policy.name, "minimal");
    assert_eq!(effect(&policy, "anything"), "allow");
    assert_eq!(policy.limits.value(Limit::Memory), Some(512));
    assert!(!policy.judge_host(&Host::parse("github.com").unwrap(), 443).allows());
}

#[test]
fn a_dump_with_every_field_keeps_its_rules() {
    let dumped = policy("full_dump.yaml");
    assert_eq!(effect(&dumped, "import subprocess"), "deny");
    assert_eq!(effect(&dumped, "print(1)"), "allow");
    let other = dumped.judge_code("x", "ruby", &Context::default());
    assert_eq!(other.effect.as_str(), "deny");
    assert_eq!(dumped.limits.value(Limit::ToolCalls), Some(10));
    assert_eq!(dumped.limits.value(Limit::Cpu), Some(1000));
    assert_eq!(dumped.mounts, []);
    assert_eq!(policy("full_dump.json"), dumped);
    assert_eq!(policy("sorted_dump.yaml"), dumped);
    let verdict = judge(&dumped, "import subprocess", MONDAY);
    assert!(verdict.why.contains("shell-out is not allowed"), "{}", verdict.why);
    assert_eq!(verdict.basis.origin().unwrap().line, 5);
}

#[test]
fn versions_may_be_numbers() {
    let whole = policy("version_number_1.yaml");
    assert_eq!(whole.limits.value(Limit::Cpu), Some(2000));
    assert_eq!(whole.limits.value(Limit::Memory), Some(1024));
    assert_eq!(whole.limits.value(Limit::Timeout), Some(30_000));
    assert_eq!(policy("version_number_1_0.yaml").limits.value(Limit::Cpu), Some(500));
    assert_eq!(effect(&policy("version_number_2.yaml"), "x"), "audit");
    for version in ["3", "0", "1.1", "two", "[1]", "null", "true"] {
        assert!(parse("v", &format!("version: {version}\n")).is_err(), "{version}");
    }
}

#[test]
fn a_time_window_follows_its_zone_and_days() {
    let policy = policy("office_hours.yaml");
    let at = |seconds: i64| judge(&policy, "x", seconds).effect.as_str();
    assert_eq!(at(MONDAY), "allow");
    assert_eq!(at(MONDAY - 2 * 3600), "allow", "nine o'clock is inside");
    assert_eq!(at(MONDAY - 2 * 3600 - 1), "deny");
    assert_eq!(at(MONDAY + 6 * 3600), "deny", "five o'clock is outside");
    assert_eq!(at(MONDAY + 6 * 3600 - 1), "allow");
    assert_eq!(at(MONDAY + 5 * DAY), "deny", "Saturday");
    let timeless = policy.judge_code("x", "python", &Context::default());
    assert_eq!(timeless.effect.as_str(), "deny");
}

#[test]
fn days_are_counted_from_monday_to_sunday() {
    let policy = policy("weekend.yaml");
    let week: Vec<&str> =
        (0..7).map(|day| judge(&policy, "x", MONDAY + day * DAY).effect.as_str()).collect();
    assert_eq!(week, ["allow", "allow", "allow", "allow", "allow", "deny", "deny"]);
    assert!(judge(&policy, "x", MONDAY + 5 * DAY).why.contains("come back on Monday"));
}

#[test]
fn every_operator_decides() {
    let policy = policy("operators.yaml");
    let decide = |field: &str, value: serde_json::Value| {
        let mut context = Context::default();
        context.insert(field, value).unwrap();
        policy.judge_code("x", "python", &context).effect.as_str()
    };
    let cases = [
        ("environment", json!("production"), json!("test")),
        ("region", json!("us"), json!("eu")),
        ("risk", json!(0.95), json!(0.9)),
        ("trust", json!(9), json!(10)),
        ("files", json!(100), json!(99)),
        ("credits", json!(0), json!(1)),
        ("team", json!("red"), json!("green")),
        ("role", json!("guest"), json!("tester")),
    ];
    for (field, denied, allowed) in cases {
        assert_eq!(decide(field, denied), "deny", "{field}");
        assert_eq!(decide(field, allowed), "allow", "{field}");
    }
    assert_eq!(decide("risk", json!("very")), "deny", "an impossible comparison denies");
    assert_eq!(effect(&policy, "eval (x)"), "deny");
    assert_eq!(effect(&policy, "medieval(x)"), "allow");
    assert_eq!(effect(&policy, "os.system(x)"), "deny");
    assert_eq!(effect(&policy, "x"), "allow");
}

#[test]
fn the_first_rule_by_priority_decides() {
    let policy = policy("actions.yaml");
    assert_eq!(effect(&policy, "allowed watched denied"), "allow");
    assert_eq!(effect(&policy, "watched denied"), "audit", "file order among equals");
    assert_eq!(effect(&policy, "denied"), "deny");
    assert_eq!(effect(&policy, "a"), "deny");
    assert_eq!(effect(&policy, "x"), "deny");
}

#[test]
fn a_file_from_before_the_sandbox_fields_allows_by_default() {
    let policy = policy("older.yaml");
    assert_eq!(effect(&policy, "import requests"), "deny");
    assert_eq!(effect(&policy, "import json"), "allow");
    assert_eq!(policy.limits.value(Limit::ToolCalls), Some(5));
}

#[test]
fn non_ascii_text_is_kept() {
    let policy = policy("unicode.yaml");
    assert_eq!(policy.name, "café-中");
    assert_eq!(policy.description, "Grüße — 😀");
    assert_eq!(effect(&policy, "π = 3"), "deny");
    assert!(judge(&policy, "π", MONDAY).why.contains("it's named"));
    assert!(judge(&policy, "π", MONDAY).why.contains("π ist verboten: \"nein\""));
}

#[test]
fn comments_change_nothing_and_a_rule_denies_a_listed_tool() {
    let policy = policy("comments.yaml");
    let tool = |name: &str| policy.judge_tool(name, None, &Context::default()).effect.as_str();
    assert_eq!(tool("read_file"), "allow");
    assert_eq!(tool("delete_file"), "deny");
    assert_eq!(tool("drop_table"), "deny");
    assert_eq!(tool("unlisted"), "deny");
    assert_eq!(effect(&policy, "x"), "allow");
}

#[test]
fn long_messages_are_complete() {
    let policy = policy("long_messages.yaml");
    assert_eq!(policy.description, "Several lines\nof description.\n");
    let why = judge(&policy, "rm -rf /", MONDAY).why;
    assert!(why.contains("Ask a person, or delete the one file that is meant."), "{why}");
    assert_eq!(effect(&policy, "curl example.org"), "deny");
    assert_eq!(effect(&policy, "x"), "allow");
}

#[test]
fn mounts_have_their_fixed_paths() {
    let policy = policy("mounts.yaml");
    let hosts: Vec<PathBuf> = policy.mounts.iter().map(|mount| mount.host.clone()).collect();
    assert_eq!(hosts, [Path::new("/srv/project/in"), Path::new("/srv/results")]);
    let allows =
        |path: &str, access| policy.judge_path(&GuestPath::parse(path).unwrap(), access).allows();
    assert!(allows("/input/data.csv", Access::Read));
    assert!(!allows("/input/data.csv", Access::Write));
    assert!(allows("/output/plot.png", Access::Write));
    assert_eq!(policy.limits.value(Limit::Timeout), Some(90_000));
}

#[test]
fn the_network_list_opens_its_hosts_and_no_others() {
    let policy = policy("network.yaml");
    let allows = |host: &str, port| policy.judge_host(&Host::parse(host).unwrap(), port).allows();
    assert!(allows("api.openai.com", 443));
    assert!(allows("api.openai.com", 80));
    assert!(!allows("api.openai.com", 22));
    assert!(!allows("openai.com", 443));
    assert!(allows("raw.api.github.com", 443));
    assert!(!allows("github.com", 443));
    assert!(policy.judge_tool("fetch_paper", None, &Context::default()).allows());
    assert!(!policy.judge_tool("send_mail", None, &Context::default()).allows());
}

#[test]
fn an_open_network_is_open_to_public_hosts_only() {
    let policy = policy("open_network.yaml");
    let allows = |host: &str| policy.judge_host(&Host::parse(host).unwrap(), 443).allows();
    assert!(allows("example.org"));
    assert!(!allows("10.0.0.1"));
    assert!(!allows("169.254.169.254"));
}
