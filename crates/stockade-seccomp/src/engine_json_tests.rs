use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::{Call, Options, built_in};

const NATIVE: Architecture = Architecture::X86_64;

fn parsed() -> Value {
    serde_json::from_str(&engine_json(&built_in(Options::default()), NATIVE)).unwrap()
}

/// Whether libseccomp would allow a call: an entry matches if all its arguments do.
fn allows(json: &Value, name: &str, arguments: &[u64; 6]) -> bool {
    let holds = |condition: &Value| {
        let argument = arguments[condition["index"].as_u64().unwrap() as usize];
        let (value, second) =
            (condition["value"].as_u64().unwrap(), condition["valueTwo"].as_u64());
        match condition["op"].as_str().unwrap() {
            "SCMP_CMP_EQ" => argument == value,
            "SCMP_CMP_NE" => argument != value,
            "SCMP_CMP_MASKED_EQ" => argument & value == second.unwrap(),
            other => panic!("{other}"),
        }
    };
    json["syscalls"].as_array().unwrap().iter().any(|entry| {
        entry["action"] == "SCMP_ACT_ALLOW"
            && entry["names"].as_array().unwrap().iter().any(|one| one == name)
            && entry["args"].as_array().into_iter().flatten().all(holds)
    })
}

/// Values around every constant of the profile, with and without bits in the high half.
fn samples(rules: &[Rule]) -> Vec<u64> {
    let constants = rules.iter().flat_map(|rule| &rule.conditions).flat_map(|condition| {
        match condition.comparison {
            Comparison::MaskedEqual { mask, value } => {
                vec![mask, value, mask & mask.wrapping_neg()]
            }
            Comparison::Equal(value) | Comparison::NotEqual(value) => vec![value],
            other => panic!("{other:?} is not sampled"),
        }
    });
    let near = constants.flat_map(|value| [value, value.wrapping_add(1), value.wrapping_sub(1)]);
    let near: BTreeSet<u64> = near.chain([0, u64::MAX]).collect();
    near.iter().flat_map(|value| [*value, value & 0xffff_ffff, value | 1 << 40]).collect()
}

#[test]
fn json_allows_what_the_profile_allows_and_more_only_for_the_listed_calls() {
    let (profile, json) = (built_in(Options::default()), parsed());
    let listed: BTreeSet<Syscall> = wider(&profile).collect();
    let mut found = BTreeSet::new();
    for (call, rules) in &profile.rules {
        let Some(number) = call.number(NATIVE) else { continue };
        let values = samples(rules);
        for first in &values {
            for second in &values {
                for third in [0, 3, 6, *first] {
                    let arguments = [*first, *second, third, *second, 0, 0];
                    let call_seen = Call { audit: NATIVE.audit(), number, arguments };
                    let ours = profile.evaluate(NATIVE, &call_seen).allows();
                    let theirs = allows(&json, call.name(), &arguments);
                    assert!(theirs || !ours, "{call:?} {arguments:x?}: stricter than the profile");
                    if theirs && !ours {
                        found.insert(*call);
                    }
                }
            }
        }
    }
    let names = |calls: &BTreeSet<Syscall>| calls.iter().map(|it| it.name()).collect::<Vec<_>>();
    // Comparisons of 32 bits other than equality are wider too: prlimit64 has one.
    let mut expected = listed;
    expected.extend(Syscall::named("prlimit64"));
    assert_eq!(names(&found), names(&expected));
}

#[test]
fn calls_that_programs_replace_are_unknown_and_the_rest_is_refused() {
    let json = parsed();
    assert_eq!(json["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(json["architectures"], serde_json::json!(["SCMP_ARCH_X86_64"]));
    let entry = |name: &str| {
        let entries = json["syscalls"].as_array().unwrap().iter();
        let mut named =
            entries.filter(|it| it["names"].as_array().unwrap().iter().any(|n| n == name));
        named.next().cloned()
    };
    let unknown = entry("io_uring_setup").unwrap();
    assert_eq!((&unknown["action"], &unknown["errnoRet"]), (&"SCMP_ACT_ERRNO".into(), &38.into()));
    assert_eq!(entry("bpf"), None);
    assert_eq!(entry("read").unwrap()["action"], "SCMP_ACT_ALLOW");
}
