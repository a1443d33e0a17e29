//! Properties of every policy, tested on random ones.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test")]

mod oracle;
mod vocabulary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use stockade_policy::{Control, Effect, Host, LIMITS, Policy, PolicyText, is_harmless};
use vocabulary::{Question, policies};

const NAME: &str = "random.yaml";

fn parse(text: &str) -> Policy {
    let base = Path::new("/srv/project");
    Policy::parse_str(NAME, text, base).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn policy(value: &Value) -> Policy {
    parse(&json_text(value))
}

/// JSON as the command line prints it, with control characters escaped.
fn json_text(value: &Value) -> String {
    let escaped = |character: char| match character == '\n' || is_harmless(character) {
        true => character.to_string(),
        false => format!("\\u{:04x}", u32::from(character)),
    };
    serde_json::to_string_pretty(value).unwrap().chars().map(escaped).collect()
}

/// Asserts that `wide` allows every question that `narrow` allows.
fn assert_no_wider(narrow: &Policy, wide: &Policy) -> Result<(), TestCaseError> {
    for question in Question::all() {
        if question.ask(narrow).allows() {
            let verdict = question.ask(wide);
            prop_assert!(verdict.allows(), "{:?}: {}", question, verdict.why);
        }
    }
    Ok(())
}

#[test]
fn random_policies_both_allow_and_deny() {
    let mut runner = TestRunner::deterministic();
    let mut counts: BTreeMap<(&str, bool), u32> = BTreeMap::new();
    let (mut widened, mut narrow) = (0, 0);
    let mut before: Option<Policy> = None;
    for _ in 0..60 {
        let policy = policy(&policies().new_tree(&mut runner).unwrap().current());
        for question in Question::all() {
            *counts.entry((question.kind(), question.ask(&policy).allows())).or_default() += 1;
        }
        if let Some(before) = before {
            let both = policy.combine(&before);
            let pairs = [(&policy, &before), (&both, &policy)];
            for (one, other) in pairs {
                let is_wider = !one.widenings(other).is_empty();
                *if is_wider { &mut widened } else { &mut narrow } += 1;
            }
        }
        before = Some(policy);
    }
    for kind in ["read", "write", "host", "request", "address", "command", "tool", "code"] {
        for allowed in [true, false] {
            let count = counts.get(&(kind, allowed)).copied().unwrap_or(0);
            assert!(count >= 100, "{kind}, allowed {allowed}: {count}");
        }
    }
    assert!(widened >= 20 && narrow >= 20, "{widened} widened, {narrow} not");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reference_implementation_agrees(value in policies()) {
        let policy = policy(&value);
        for question in Question::all() {
            let verdict = question.ask(&policy);
            let expected = oracle::answer(&value, &question);
            prop_assert_eq!(verdict.effect.as_str(), expected, "{:?}: {}", question, verdict.why);
        }
    }

    #[test]
    fn combining_allows_only_what_both_allow(a in policies(), b in policies()) {
        let (a, b) = (policy(&a), policy(&b));
        let both = a.combine(&b);
        assert_no_wider(&both, &a)?;
        assert_no_wider(&both, &b)?;
        prop_assert!(both.isolation.value >= a.isolation.value.max(b.isolation.value));
        for spec in &LIMITS {
            let value = |policy: &Policy| policy.limits.value(spec.limit).unwrap_or(u64::MAX);
            prop_assert_eq!(value(&both), value(&a).min(value(&b)), "{}", spec.key);
        }
        prop_assert_eq!(both.limits.exact.value, a.limits.exact.value || b.limits.exact.value);
        for secret in &both.secrets {
            let known = a.secrets.iter().any(|one| {
                let covered = |host| one.hosts.iter().any(|wide| wide.covers(host));
                one.name == secret.name && one.place == secret.place && secret.hosts.iter().all(covered)
            });
            prop_assert!(known, "{}", secret.name);
        }
    }

    /// A combined policy allows exactly the hosts, code, commands and tools that both allow; it may
    /// allow fewer files, because a path that one policy mounts and the other does not is hidden.
    #[test]
    fn combining_keeps_what_both_allow(a in policies(), b in policies()) {
        let (a, b) = (policy(&a), policy(&b));
        let both = a.combine(&b);
        for question in Question::all() {
            let exact = match &question {
                Question::Path(..) => false,
                // `ls` and `/usr/bin/ls` are two entries; only entries that both spell the same are
                // kept.
                Question::Command(..) => false,
                _ => true,
            };
            if exact && question.ask(&a).allows() && question.ask(&b).allows() {
                let verdict = question.ask(&both);
                prop_assert!(verdict.allows(), "{:?}: {}", question, verdict.why);
            }
        }
    }

    #[test]
    fn combining_with_itself_or_in_another_order_answers_the_same(a in policies(), b in policies()) {
        let (a, b) = (policy(&a), policy(&b));
        prop_assert_eq!(a.combine(&a), a.clone());
        let (one, other) = (a.combine(&b), b.combine(&a));
        for question in Question::all() {
            prop_assert_eq!(question.ask(&one).effect, question.ask(&other).effect, "{:?}", question);
        }
    }

    #[test]
    fn every_verdict_has_an_explanation(value in policies()) {
        let text = json_text(&value);
        let policy = parse(&text);
        let lines: Vec<&str> = text.lines().collect();
        for question in Question::all() {
            let verdict = question.ask(&policy);
            prop_assert!(!verdict.why.is_empty() && !verdict.change.is_empty(), "{:?}", question);
            prop_assert!(!verdict.target.is_empty());
            match verdict.denial() {
                Some(denial) => {
                    prop_assert_eq!(verdict.effect, Effect::Deny);
                    prop_assert!(!denial.how_to_allow.is_empty() && !denial.rule.is_empty());
                    prop_assert_eq!(denial.control, verdict.control.as_str());
                }
                None => prop_assert!(verdict.allows()),
            }
            if let Some(origin) = verdict.basis.origin() {
                prop_assert_eq!(&*origin.file, NAME);
                let line = lines.get(origin.line - 1).copied().unwrap_or("");
                prop_assert!(origin.column <= line.chars().count(), "{}", origin);
                let shown: String = origin.text.chars().take(20).collect();
                prop_assert!(shown.contains('\\') || line.trim().starts_with(&shown), "{}", origin);
            }
        }
    }

    /// Adding what a refusal suggests allows the act.
    #[test]
    fn following_the_advice_about_lists_allows_the_act(value in policies()) {
        let before = policy(&value);
        for question in Question::all() {
            let verdict = question.ask(&before);
            let (key, item) = match (&question, verdict.control) {
                (Question::Tool(tool, ..), Control::Tools) => ("tool_allowlist", (*tool).to_owned()),
                (Question::Command(program, _), Control::Commands) => {
                    ("command_allowlist", (*program).to_owned())
                }
                (Question::Host(host, port), Control::NetworkHosts)
                    if verdict.why.contains("does not name") =>
                {
                    ("network_allowlist", format!("{host}:{port}"))
                }
                _ => continue,
            };
            if verdict.allows() {
                continue;
            }
            prop_assert!(verdict.change.contains(&item), "{} {}", item, verdict.change);
            let mut changed = value.clone();
            match &mut changed[key] {
                Value::Array(items) => items.push(json!(item)),
                missing => *missing = json!([item]),
            }
            let after = question.ask(&policy(&changed));
            prop_assert!(after.control != verdict.control || after.allows(), "{:?}: {}", question, after.why);
        }
    }

    #[test]
    fn printed_policy_parses_to_the_same_policy(a in policies(), b in policies()) {
        let (a, b) = (policy(&a), policy(&b));
        for shown in [&a, &a.combine(&b), &a.combine(&b).combine(&parse("{}"))] {
            prop_assert_eq!(&parse(&shown.to_yaml()), shown);
            prop_assert_eq!(&parse(&json_text(&shown.to_value())), shown);
        }
    }

    #[test]
    fn without_widenings_nothing_more_is_allowed(a in policies(), b in policies()) {
        let (a, b) = (policy(&a), policy(&b));
        prop_assert_eq!(a.widenings(&a), []);
        let both = a.combine(&b);
        prop_assert_eq!(both.widenings(&a), []);
        prop_assert_eq!(both.widenings(&b), []);
        if b.widenings(&a).is_empty() {
            assert_no_wider(&b, &a)?;
        }
        if a.widenings(&both).is_empty() {
            assert_no_wider(&a, &both)?;
        }
    }

    /// For any two policies, each wider answer is reported under its control.
    #[test]
    fn every_wider_answer_is_reported(a in policies(), b in policies()) {
        assert_reported(&policy(&b), &policy(&a))?;
    }

    #[test]
    fn any_bytes_are_a_policy_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse_any(bytes);
    }

    #[test]
    fn any_yaml_punctuation_is_a_policy_or_an_error(text in "[-\\[\\]{}:,?&*!|>'\"%@`#~ \t\r\na-c0-9.]{0,80}") {
        parse_any(text.into_bytes());
    }

    #[test]
    fn a_policy_with_a_few_bytes_changed_is_a_policy_or_an_error(
        value in policies(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..8, any::<u8>(), any::<bool>()), 1..6),
    ) {
        let mut bytes = policy(&value).to_yaml().into_bytes();
        for (at, cut, byte, is_sign) in changes {
            let at = at.index(bytes.len());
            let end = (at + cut).min(bytes.len());
            let signs = b"-[]{}:,?&*!|>'\"%@`#~ \t\r\n0";
            let byte = if is_sign { signs[usize::from(byte) % signs.len()] } else { byte };
            bytes.splice(at..end, [byte]);
            if bytes.is_empty() {
                break;
            }
        }
        parse_any(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two policies that differ in one small thing, which no other difference can report by chance.
    #[test]
    fn removing_one_entry_is_reported_if_it_widens(value in policies(), index in any::<prop::sample::Index>()) {
        let mut places = Vec::new();
        removable(&value, String::new(), &mut places);
        let mut less = value.clone();
        remove(&mut less, &places[index.index(places.len())]);
        let (full, less) = (policy(&value), policy(&less));
        assert_reported(&less, &full)?;
        assert_reported(&full, &less)?;
    }
}

/// Asserts that every answer that `new` allows and `base` denies is reported.
fn assert_reported(new: &Policy, base: &Policy) -> Result<(), TestCaseError> {
    let widenings = new.widenings(base);
    for question in Question::all() {
        if !question.ask(new).allows() || question.ask(base).allows() {
            continue;
        }
        let named = widenings.iter().any(|widening| match &question {
            Question::Path(..) => matches!(
                widening.control,
                Control::ReadPaths | Control::WritePaths | Control::Workspace | Control::HiddenHost
            ),
            Question::Host(..) | Question::Request(..) | Question::Address(..) => matches!(
                widening.control,
                Control::NetworkHosts | Control::NetworkPublic | Control::NetworkBlock
            ),
            Question::Command(..) => {
                matches!(widening.control, Control::Commands | Control::CodeRules)
            }
            Question::Tool(..) => matches!(widening.control, Control::Tools | Control::CodeRules),
            Question::Code(..) => widening.control == Control::CodeRules,
        });
        prop_assert!(named, "{:?} is not among {:?}", question, widenings);
    }
    Ok(())
}

/// The paths of everything that can be removed from a policy.
fn removable(value: &Value, place: String, places: &mut Vec<String>) {
    let needed =
        ["host", "guest", "name", "from", "hosts", "condition", "action", "mode", "priority"];
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let place = format!("{place}/{key}");
                let inside_entry = place.matches('/').count() > 2;
                if !(inside_entry && needed.contains(&key.as_str())) {
                    places.push(place.clone());
                }
                if !["condition", "dynamic_condition", "workspace"].contains(&key.as_str()) {
                    removable(inner, place, places);
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let place = format!("{place}/{index}");
                if items.len() > 1 || place.matches('/').count() < 4 {
                    places.push(place.clone());
                }
                removable(inner, place, places);
            }
        }
        _ => {}
    }
}

fn remove(value: &mut Value, place: &str) {
    let (parent, last) = place.rsplit_once('/').unwrap();
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(last)),
        Some(Value::Array(items)) => drop(items.remove(last.parse().unwrap())),
        other => panic!("{place} leads to {other:?}"),
    }
}

/// Parses, and asks the resulting policy a few questions.
fn parse_any(bytes: Vec<u8>) {
    let text = PolicyText { name: NAME.to_owned(), bytes, base: PathBuf::from("/srv/project") };
    match Policy::parse(&text) {
        Ok(policy) => {
            assert_eq!(parse(&policy.to_yaml()), policy);
            assert_eq!(policy.widenings(&policy), []);
            let host = Host::parse("example.org").unwrap();
            policy.judge_host(&host, 443);
        }
        Err(errors) => {
            for found in errors.diagnostics() {
                assert!(
                    found.line >= 1 && found.column >= 1 && !found.remedy.is_empty(),
                    "{found}"
                );
                assert!(found.marker.contains('^'), "{found}");
            }
        }
    }
}
