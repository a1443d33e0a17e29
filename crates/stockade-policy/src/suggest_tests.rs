use std::path::Path;

use super::*;
use crate::{Context, Policy, Verdict};

fn policy(text: &str) -> Policy {
    Policy::parse_str("p", text, Path::new("/srv"))
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn host(policy: &Policy, text: &str) -> Verdict {
    let (host, port) = parse_host_port(text).unwrap();
    policy.judge_host(&host, port.unwrap())
}

fn suggestion(denials: &[Verdict]) -> Suggestion {
    let denials: Vec<Denial> = denials.iter().map(|verdict| verdict.denial().unwrap()).collect();
    Suggestion::of(&denials)
}

#[test]
fn suggested_lines_allow_hosts_that_were_denied_before() {
    let targets = [
        "api.example.org:443",
        "api.example.org:8080",
        "93.184.216.34:443",
        "[2606:2800::1]:443",
        "10.0.0.7:5432",
    ];
    let before = policy("{}");
    let denied: Vec<Verdict> = targets.iter().map(|target| host(&before, target)).collect();
    let text = suggestion(&denied).to_yaml();
    let after = policy(&text);
    for target in targets {
        assert!(host(&after, target).allows(), "{target}: {text}");
    }
    assert!(!host(&after, "api.example.org:22").allows());
    assert!(!host(&after, "example.org:443").allows());
}

#[test]
fn name_with_a_private_address_is_suggested_with_the_address_itself() {
    let name = Host::parse("db.example.org").unwrap();
    let address = "10.0.0.7".parse().unwrap();
    let before = policy("network_allowlist: ['db.example.org:5432']");
    let denied = before.judge_address(&name, 5432, address);
    let text = suggestion(&[denied]).to_yaml();
    assert!(policy(&text).judge_address(&name, 5432, address).allows(), "{text}");
}

#[test]
fn suggested_request_is_one_method_on_one_path() {
    let before =
        policy("network_allowlist: [{host: api.example.org, methods: [GET], paths: [/a]}]");
    let api = Host::parse("api.example.org").unwrap();
    let (post, get) = (Method::parse("POST").unwrap(), Method::parse("GET").unwrap());
    let (a, b) = (UrlPath::parse("/b/c").unwrap(), UrlPath::parse("/b/d").unwrap());
    let denied = before.judge_request(&api, 443, &post, &a);
    let text = suggestion(&[denied]).to_yaml();
    let after = policy(&text);
    assert!(after.judge_request(&api, 443, &post, &a).allows(), "{text}");
    assert!(!after.judge_request(&api, 443, &get, &a).allows());
    assert!(!after.judge_request(&api, 443, &post, &b).allows());
}

#[test]
fn suggested_command_is_allowed_by_the_line() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let before = policy("command_allowlist: [ls]");
    let cat = words(&["cat", "/etc/passwd"]);
    let context = Context::default();
    let text = suggestion(&[before.judge_command(&cat, &context)]).to_yaml();
    assert!(policy(&text).judge_command(&cat, &context).allows(), "{text}");
    assert!(!policy(&text).judge_command(&words(&["sh"]), &context).allows());
}

#[test]
fn denial_that_no_line_allows_becomes_a_comment_with_advice() {
    let before = policy("network_blocklist: [evil.example.org]");
    let rules = policy(
        "{defaults: {action: allow}, rules: [{name: no-eval, action: deny, \
         condition: {field: code, operator: contains, value: eval}}]}",
    );
    let denied = [
        host(&before, "evil.example.org:443"),
        host(&before, "169.254.169.254:80"),
        rules.judge_code("eval('1')", "python", &Context::default()),
    ];
    let found = suggestion(&denied);
    assert_eq!((found.by_hand.len(), found.network_allowlist.len()), (3, 0));
    let text = found.to_yaml();
    let is_idle = |line: &str| line.starts_with('#') || line == NOTHING.trim_end();
    assert!(text.lines().all(is_idle), "{text}");
    for part in ["remove evil.example.org from network_blocklist", "metadata service", "no-eval"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!host(&policy(&text), "169.254.169.254:80").allows());
}

#[test]
fn repeated_denials_are_counted_and_a_flood_is_cut() {
    let before = policy("{}");
    let mut denied: Vec<Verdict> =
        (0..150).map(|number| host(&before, &format!("h{number}.example.org:443"))).collect();
    denied.push(host(&before, "h0.example.org:443"));
    let found = suggestion(&denied);
    assert_eq!((found.network_allowlist.len(), found.left_out), (100, 50));
    assert_eq!(found.network_allowlist[0].times, 2);
    policy(&found.to_yaml());
}

#[test]
fn text_of_a_denial_stays_inside_its_comment() {
    let denial = Denial {
        control: "code_rules".into(),
        rule: "a\nnetwork_allowlist: [x.example.org]\r\u{85}\u{2028}y: 1".to_owned(),
        target: "b\nnetwork_allowlist: [x.example.org]".to_owned(),
        why: "c\u{1b}[2J".to_owned(),
        how_to_allow: "d\n".to_owned(),
    };
    let text = Suggestion::of([&denial]).to_yaml();
    let is_idle = |line: &str| line.starts_with('#') || line == NOTHING.trim_end();
    assert!(text.lines().all(is_idle), "{text}");
    assert!(policy(&text).gates[0].network.entries.is_empty(), "{text}");
}
