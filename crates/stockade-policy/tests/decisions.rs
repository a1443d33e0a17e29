//! Decisions that an attacker would like to change.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the whole crate is a test, and the measuring is outside the pure crate"
)]

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use stockade_policy::{Context, Host, Method, Policy, ToolArguments, UrlPath};

fn policy(text: &str) -> Policy {
    Policy::parse_str("p", text, Path::new("/srv/p")).unwrap()
}

fn reaches(policy: &Policy, host: &str, port: u16, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    policy.judge_address(&Host::parse(host).unwrap(), port, address).allows()
}

#[test]
fn a_name_does_not_bypass_the_rules_of_a_private_address() {
    let guarded = policy(
        "defaults: {network_default: allow}\n\
         network_allowlist: [{host: 10.0.0.5, ports: [80], methods: [GET], paths: [/health]}]",
    );
    let literal = Host::parse("10.0.0.5").unwrap();
    let ask = |method: &str, path: &str| {
        let (method, path) = (Method::parse(method).unwrap(), UrlPath::parse(path).unwrap());
        guarded.judge_request(&literal, 80, &method, &path).allows()
    };
    assert!(ask("GET", "/health") && !ask("POST", "/admin"));
    assert!(reaches(&guarded, "10.0.0.5", 80, "10.0.0.5"));
    assert!(!reaches(&guarded, "evil.example.org", 80, "10.0.0.5"));
    assert!(reaches(&guarded, "evil.example.org", 80, "93.184.216.34"));
}

#[test]
fn a_private_address_opens_to_names_only_when_both_are_listed() {
    let both = policy("network_allowlist: [db.example.org, 10.0.0.5]");
    assert!(reaches(&both, "db.example.org", 443, "10.0.0.5"));
    assert!(!reaches(&both, "db.example.org", 443, "10.0.0.6"));
    let by_default = policy("{defaults: {network_default: allow}, network_allowlist: [10.0.0.5]}");
    assert!(!reaches(&by_default, "db.example.org", 443, "10.0.0.5"));
}

#[test]
fn a_fragment_does_not_hide_the_rest_of_a_path() {
    assert!(UrlPath::parse("/repos/x").is_ok());
    assert!(UrlPath::parse("/repos/x#/../../admin").is_err());
}

#[test]
fn a_full_path_in_the_list_does_not_match_a_bare_name() {
    let listed = policy("command_allowlist: [/sbin/tool]");
    let ask =
        |program: &str| listed.judge_command(&[program.to_owned()], &Context::default()).allows();
    assert!(ask("/sbin/tool") && !ask("tool"));
}

#[test]
fn large_numbers_are_compared_exactly() {
    let rule = "rules: [{name: r, condition: {field: uid, operator: eq, value: 9223372036854775807}, action: allow}]";
    let ask = |uid: u64| {
        let mut context = Context::default();
        context.insert("uid", json!(uid)).unwrap();
        policy(rule).judge_code("", "python", &context).allows()
    };
    assert!(ask(9_223_372_036_854_775_807));
    assert!(!ask(9_223_372_036_854_775_806) && !ask(9_223_372_036_854_775_808));
}

#[test]
fn hostile_code_cannot_stall_the_judge() {
    let rules = policy(
        r"rules:
  - { name: a, action: deny, condition: { field: code, operator: matches, value: '(?s)import.{0,1000}subprocess' } }
  - { name: b, action: deny, condition: { field: code, operator: matches, value: 'a[ab]{600}c' } }
defaults: { action: allow }",
    );
    let code = "import ab".repeat(1 << 18);
    let start = Instant::now();
    let verdict = rules.judge_code(&code, "python", &Context::default());
    assert!(!verdict.allows() && verdict.why.contains("too long"), "{}", verdict.why);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(rules.judge_code("print(1)", "python", &Context::default()).allows());
}

#[test]
fn losing_the_record_of_code_is_a_difference() {
    let (recorded, silent) =
        (policy("defaults: {action: audit}"), policy("defaults: {action: allow}"));
    assert!(!silent.widenings(&recorded).is_empty());
    assert!(recorded.widenings(&silent).is_empty());
}

#[test]
fn rules_see_the_arguments_of_a_tool_call() {
    let ruled = policy(
        r"tool_allowlist: [ search, send ]
rules:
  - { name: private, action: deny, condition: { field: arguments, operator: contains, value: salary } }
  - { name: wide, action: deny, condition: { field: arguments.most, operator: gt, value: 100 } }
  - { name: recorded, action: audit, condition: { field: arguments.to, operator: ne, value: me } }",
    );
    let ask = |arguments: serde_json::Value| {
        ruled.judge_tool("search", Some(&arguments), &Context::default())
    };
    assert_eq!(ask(json!({ "query": "weather", "most": 100 })).effect.as_str(), "allow");
    assert_eq!(ask(json!({ "to": "you" })).effect.as_str(), "audit");
    assert_eq!(ask(json!({ "to": null })).effect.as_str(), "allow", "null counts as missing");
    for denied in [
        json!({ "deep": [{ "salary": 1 }] }),
        json!({ "most": 101 }),
        // A value without an order relative to a number cannot be judged, so it is denied.
        json!({ "most": "101" }),
        json!({ "most": [1] }),
    ] {
        let verdict = ask(denied.clone());
        assert!(!verdict.allows(), "{denied}");
        assert_eq!(verdict.control.as_str(), "code_rules");
    }
    let unlisted = ruled.judge_tool("other", Some(&json!({})), &Context::default());
    assert_eq!((unlisted.allows(), unlisted.control.as_str()), (false, "tools"));
}

#[test]
fn tool_arguments_are_recorded_only_if_both_policies_allow_it() {
    let (silent, recording) =
        (policy("tool_arguments: omit"), policy("tool_allowlist: []\ntool_arguments: record"));
    let held = |policy: &Policy| policy.tool_arguments.value;
    assert_eq!(held(&policy("{}")), ToolArguments::Omit);
    assert_eq!(held(&recording), ToolArguments::Record);
    assert_eq!(held(&recording.combine(&silent)), ToolArguments::Omit);
    assert_eq!(held(&silent.combine(&recording)), ToolArguments::Omit);
    assert_eq!(held(&recording.combine(&recording)), ToolArguments::Record);
    let widened = recording.widenings(&silent);
    assert_eq!(widened.len(), 1);
    assert_eq!(widened[0].allows, "recording the arguments of calls");
    assert_eq!(silent.widenings(&recording), []);
}

#[test]
fn loopback_is_direct_only_by_a_literal_for_any_bytes_that_every_policy_lists() {
    let listed = policy(
        "network_allowlist:\n\
         - { host: 127.0.0.1, ports: [5432, 6379], protocol: tcp }\n\
         - { host: 10.0.0.7, ports: [5432], protocol: tcp }\n\
         - { host: db.example.org, ports: [5432], protocol: tcp }\n\
         - { host: '::1', ports: [5432], protocol: tcp }\n\
         - '127.0.0.2:8000'\n",
    );
    let direct = |policy: &Policy| -> Vec<String> {
        policy.direct_loopback().iter().map(ToString::to_string).collect()
    };
    assert_eq!(direct(&listed), ["127.0.0.1:5432", "127.0.0.1:6379"]);
    assert!(direct(&policy("{}")).is_empty());
    let other = policy(
        "network_allowlist:\n\
         - { host: 127.0.0.1, ports: [5432], protocol: tcp }\n\
         - '127.0.0.1:6379'\n",
    );
    assert_eq!(direct(&listed.combine(&other)), ["127.0.0.1:5432"]);
    let blocked = policy("defaults: { network_default: allow }\nnetwork_blocklist: [127.0.0.0/8]");
    assert!(direct(&listed.combine(&blocked)).is_empty());
}
