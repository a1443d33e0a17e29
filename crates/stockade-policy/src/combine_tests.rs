use std::path::Path;

use super::*;
use crate::context::Context;
use crate::host::Host;
use crate::limits::Limit;
use crate::paths::Access;

fn policy(text: &str) -> Policy {
    Policy::parse_str("p", text, Path::new("/srv/p")).unwrap_or_else(|error| panic!("{error}"))
}

fn combined(first: &str, second: &str) -> Policy {
    policy(first).combine(&policy(second))
}

/// Which of `r` and `w` a policy allows at a path.
fn access(policy: &Policy, path: &str) -> String {
    let path = GuestPath::parse(path).unwrap();
    let allows = |access| policy.judge_path(&path, access).allows();
    let letters = [(Access::Read, 'r'), (Access::Write, 'w')];
    letters.into_iter().filter(|(access, _)| allows(*access)).map(|(_, letter)| letter).collect()
}

#[test]
fn the_smaller_limit_and_the_stronger_floor_hold() {
    let both = combined(
        "isolation: vm\ndefaults: {max_cpu: 2, timeout_seconds: 5}\nlimits: {exact: true}",
        "isolation: container\ndefaults: {max_cpu: 0.5}\nlimits: {max_cpu_seconds: 7}",
    );
    assert_eq!(both.isolation.value.as_str(), "vm");
    assert_eq!(both.limits.value(Limit::Cpu), Some(500));
    assert_eq!(both.limits.value(Limit::Timeout), Some(5000));
    assert_eq!(both.limits.value(Limit::CpuTime), Some(7000));
    assert!(both.limits.exact.value);
}

#[test]
fn a_clause_keeps_the_line_of_the_policy_it_came_from() {
    let first = Policy::parse_str("a", "defaults: {max_cpu: 2}", Path::new("/srv")).unwrap();
    let second =
        Policy::parse_str("b", "name: x\ndefaults: {max_cpu: 1}", Path::new("/srv")).unwrap();
    let both = first.combine(&second);
    let origin = both.limits.basis(Limit::Cpu).and_then(|basis| basis.origin()).unwrap();
    assert_eq!(origin.to_string(), "b:2:21");
}

#[test]
fn only_files_that_both_show_stay_visible() {
    let both = combined(
        "filesystem: {write: [/data], read: [/only]}",
        "filesystem: {read: [/data/in, {host: /srv/x, guest: /elsewhere}]}",
    );
    assert_eq!(access(&both, "/data/in/file"), "r");
    assert_eq!(access(&both, "/data/other"), "");
    assert_eq!(access(&both, "/only/file"), "");
    assert_eq!(access(&both, "/elsewhere"), "");
}

#[test]
fn a_place_with_different_files_is_hidden() {
    let both = combined(
        "filesystem: {read: [{host: /srv/a, guest: /data}]}",
        "filesystem: {read: [{host: /srv/b, guest: /data}]}",
    );
    assert_eq!(both.mounts, []);
    assert_eq!(access(&both, "/data/file"), "");
}

#[test]
fn files_below_a_dropped_mount_stay_hidden() {
    let outer = "filesystem: {read: [{host: /srv/a, guest: /data}]}";
    let masked =
        "filesystem: {read: [{host: /srv/a, guest: /data}, {host: /srv/b, guest: /data/x}]}";
    for both in [combined(outer, masked), combined(masked, outer)] {
        assert_eq!(access(&both, "/data/file"), "r");
        assert_eq!(access(&both, "/data/x/file"), "");
    }
}

#[test]
fn a_path_hidden_by_one_stays_hidden_and_a_deeper_mount_of_both_is_visible() {
    let both = combined(
        "filesystem: {read: [/data], hide: [/data/x]}",
        "filesystem: {read: [/data, /data/x]}",
    );
    assert_eq!(access(&both, "/data/x/file"), "");
    let text = "filesystem: {read: [/data, /data/x/y], hide: [/data/x]}";
    let both = combined(text, text);
    assert_eq!(access(&both, "/data/x/file"), "");
    assert_eq!(access(&both, "/data/x/y"), "r");
}

#[test]
fn a_writable_place_below_a_read_only_one_stays_writable() {
    let text = "filesystem: {read: [/data], write: [/data/out]}";
    let both = combined(text, text);
    assert_eq!(both, policy(text));
    assert_eq!(access(&both, "/data/out/file"), "rw");
    assert_eq!(access(&both, "/data/file"), "r");
}

#[test]
fn workspaces_combine_to_the_safer_mode() {
    let host = |mode: &str| format!("filesystem: {{workspace: {{host: /srv/w, mode: {mode}}}}}");
    let (scratch, nothing) =
        ("{}".to_owned(), "filesystem: {workspace: {mode: nothing}}".to_owned());
    let other = "filesystem: {workspace: {host: /srv/other, mode: write}}".to_owned();
    let cases = [
        (host("write"), host("overlay"), host("overlay")),
        (host("overlay"), host("read"), host("read")),
        (host("write"), host("read"), host("read")),
        (host("write"), other, nothing.clone()),
        (scratch.clone(), host("write"), scratch.clone()),
        (scratch.clone(), host("overlay"), scratch.clone()),
        (scratch.clone(), host("read"), nothing.clone()),
        (scratch, nothing.clone(), nothing.clone()),
        (nothing.clone(), host("write"), nothing),
    ];
    for (first, second, expected) in cases {
        let expected = policy(&expected).workspace;
        assert_eq!(combined(&first, &second).workspace, expected, "{first} {second}");
        assert_eq!(combined(&second, &first).workspace, expected, "{second} {first}");
    }
}

#[test]
fn hosts_must_pass_every_gate_and_no_blocklist() {
    let both = combined(
        "network_allowlist: [\"*.github.com\", example.org]\nnetwork_blocklist: [gist.github.com]",
        "network_allowlist: [api.github.com, gist.github.com]\nnetwork_ports: [443]",
    );
    let allows = |host: &str, port| both.judge_host(&Host::parse(host).unwrap(), port).allows();
    assert!(allows("api.github.com", 443));
    assert!(!allows("api.github.com", 80));
    assert!(!allows("gist.github.com", 443));
    assert!(!allows("www.github.com", 443));
    assert!(!allows("example.org", 443));
}

#[test]
fn rules_of_each_policy_are_judged_with_its_own_default() {
    let rule = |name: &str, word: &str, action: &str| {
        format!(
            "rules: [{{name: {name}, action: {action}, condition: {{field: code, operator: contains, value: {word}}}}}]\n"
        )
    };
    let allowing = format!("defaults: {{action: deny}}\n{}", rule("a", "print", "allow"));
    let denying = format!("defaults: {{action: allow}}\n{}", rule("d", "socket", "deny"));
    let auditing = "defaults: {action: audit}";
    let both = combined(&allowing, &denying);
    let judge = |policy: &Policy, code: &str| {
        policy.judge_code(code, "python", &Context::default()).effect.as_str()
    };
    assert_eq!(judge(&both, "print(1)"), "allow");
    assert_eq!(judge(&both, "print(socket)"), "deny");
    assert_eq!(judge(&both, "x = 1"), "deny");
    assert_eq!(judge(&both.combine(&policy(auditing)), "print(1)"), "audit");
}

#[test]
fn only_tools_commands_and_variables_of_both_stay() {
    let both = combined(
        "tool_allowlist: [a, b]\ncommand_allowlist: [ls, cat]\nenvironment: {A: x, B: y}",
        "tool_allowlist: [b, c]\ncommand_allowlist: [cat]\nenvironment: {A: x, B: z}",
    );
    assert_eq!(both.tools.value.iter().map(|tool| tool.value.as_str()).collect::<Vec<_>>(), ["b"]);
    let commands = both.commands.as_ref().unwrap();
    assert_eq!(commands.value.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), ["cat"]);
    assert_eq!(both.environment.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["A"]);
    let one_sided = combined("{}", "command_allowlist: [cat]");
    assert_eq!(one_sided.commands, both.commands);
}

#[test]
fn secrets_go_only_to_hosts_that_both_name() {
    let secret = |hosts: &str, format: &str| {
        format!(
            "secrets: [{{name: KEY, from: \"env:KEY\", hosts: [{hosts}], format: \"{format}\"}}]"
        )
    };
    let wide = secret("\"*.github.com\", example.org", "Bearer {}");
    let both = combined(&wide, &secret("api.github.com", "Bearer {}"));
    let hosts: Vec<String> = both.secrets[0].hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["api.github.com"]);
    assert_eq!(combined(&wide, &secret("api.github.com", "token {}")).secrets, []);
    let nested = secret("\"*.github.com\", github.com, \"*.api.github.com\"", "{}");
    assert_eq!(combined(&nested, &nested), policy(&nested));
    assert_eq!(combined(&wide, &secret("api.openai.com", "Bearer {}")).secrets, []);
}

#[test]
fn profiles_add_up() {
    let both = combined("seccomp: ./a.json", "seccomp: [./b.json, ./a.json]");
    let paths: Vec<_> = both.seccomp.iter().map(|profile| profile.value.clone()).collect();
    assert_eq!(paths, [Path::new("/srv/p/a.json"), Path::new("/srv/p/b.json")]);
}

#[test]
fn combining_with_itself_changes_nothing() {
    let text = "name: x\ntool_allowlist: [a]\nnetwork_allowlist: [example.org]\nfilesystem: {read: [/data]}";
    assert_eq!(combined(text, text), policy(text));
    assert_eq!(combined(text, text).gates.len(), 1);
}

#[test]
fn a_combined_policy_can_be_written_and_read_again() {
    let long = "n".repeat(150);
    let first = format!("name: a{long}\nnetwork_allowlist: [example.org]");
    let second =
        format!("name: b{long}\ntool_allowlist: [t]\ndefaults: {{network_default: allow}}");
    let both = combined(&first, &second);
    assert_eq!(policy(&both.to_yaml()), both);
    assert_eq!(policy(&both.to_value().to_string()), both);
}

#[test]
fn combination_larger_than_a_policy_text_is_refused() {
    let base = std::path::Path::new("/srv");
    let policy = |number: u16| {
        let text = format!("network_allowlist: [\"a{number}.example.org\"]");
        Policy::parse_str("p", &text, base).unwrap()
    };
    let policies: Vec<Policy> = (0..17).map(policy).collect();
    assert_eq!(Policy::combine_all(&policies[..16]).map(|one| one.gates.len()), Ok(16));
    assert_eq!(Policy::combine_all(&policies), Err(CombineError::TooManyGates));
    assert_eq!(Policy::combine_all(&[]), Err(CombineError::None));
}
