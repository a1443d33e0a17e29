use proptest::prelude::*;

use super::*;
use crate::{Call, Comparison, Width};

const HOST: Host = Host { architecture: Architecture::X86_64, kernel: (6, 1) };

fn refused(text: &str) -> String {
    CustomProfile::parse(text).unwrap_err().to_string()
}

fn resolved(text: &str) -> Profile {
    CustomProfile::parse(text).unwrap().resolve(HOST).unwrap()
}

/// A profile with one entry, on line 2.
fn entry(text: &str) -> String {
    format!("{{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [\n{text}]}}")
}

fn answer(profile: &Profile, name: &str, arguments: [u64; 6]) -> Action {
    let number = Syscall::named(name).unwrap().number(HOST.architecture).unwrap();
    let call = Call { audit: HOST.architecture.audit(), number, arguments };
    profile.evaluate(HOST.architecture, &call)
}

#[test]
fn container_profile_is_parsed_completely() {
    let text = r#"{
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X32"]},
            {"architecture": "SCMP_ARCH_S390X", "subArchitectures": null}
        ],
        "syscalls": [
            {"names": ["read", "socketcall"], "action": "SCMP_ACT_ALLOW", "args": [], "comment": "",
             "includes": {}, "excludes": {}},
            {"name": "clone", "action": "SCMP_ACT_TRAP", "errnoRet": 7, "errno": null,
             "args": [{"index": 0, "value": 2114060288, "valueTwo": 5, "op": "SCMP_CMP_MASKED_EQ"}]}
        ]
    }"#;
    let mask = Comparison::MaskedEqual { mask: 2114060288, value: 5 };
    let condition = Condition { argument: 0, width: Width::Whole, comparison: mask };
    let clone = Rule { conditions: vec![condition], action: Action::Trap(7) };
    let rules = [("read", Rule::always(Action::Allow)), ("clone", clone)];
    let rules = rules.map(|(name, rule)| (Syscall::named(name).unwrap(), vec![rule]));
    assert_eq!(resolved(text), Profile { default: Action::Errno(38), rules: rules.into() });
}

#[test]
fn every_action_and_comparison_is_parsed() {
    for (word, action) in [
        ("SCMP_ACT_ALLOW", Action::Allow),
        ("SCMP_ACT_LOG", Action::Log),
        ("SCMP_ACT_ERRNO", Action::Errno(1)),
        ("SCMP_ACT_TRAP", Action::Trap(1)),
        ("SCMP_ACT_KILL", Action::KillThread),
        ("SCMP_ACT_KILL_THREAD", Action::KillThread),
        ("SCMP_ACT_KILL_PROCESS", Action::KillProcess),
    ] {
        let profile = resolved(&format!("{{\"defaultAction\": \"{word}\"}}"));
        assert_eq!(profile, Profile { default: action, rules: BTreeMap::new() });
    }
    for (word, matching) in [
        ("EQ", [false, true, false]),
        ("NE", [true, false, true]),
        ("LT", [true, false, false]),
        ("LE", [true, true, false]),
        ("GE", [false, true, true]),
        ("GT", [false, false, true]),
    ] {
        let argument = format!(r#"{{"index": 1, "value": 9, "op": "SCMP_CMP_{word}"}}"#);
        let text =
            format!(r#"{{"name": "ioctl", "action": "SCMP_ACT_KILL", "args": [{argument}]}}"#);
        let profile = resolved(&entry(&text));
        let found =
            [8, 9, 10].map(|value| !answer(&profile, "ioctl", [0, value, 0, 0, 0, 0]).allows());
        assert_eq!(found, matching, "{word}");
    }
}

#[test]
fn strictest_of_several_matching_rules_applies() {
    let profile = resolved(&entry(
        r#"{"name": "ioctl", "action": "SCMP_ACT_ALLOW"},
           {"name": "ioctl", "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "value": 5, "op": "SCMP_CMP_EQ"}]},
           {"name": "ioctl", "action": "SCMP_ACT_KILL", "args": [{"index": 1, "value": 4, "op": "SCMP_CMP_GT"}]}"#,
    ));
    let ioctl = |value| answer(&profile, "ioctl", [0, value, 0, 0, 0, 0]);
    assert_eq!(
        [ioctl(4), ioctl(5), ioctl(6)],
        [Action::Allow, Action::KillThread, Action::KillThread]
    );
}

#[test]
fn rules_apply_by_architecture_kernel_and_missing_capabilities() {
    for (selector, applies) in [
        (r#""includes": {"caps": ["CAP_SYS_ADMIN"]}"#, false),
        (r#""excludes": {"caps": ["CAP_SYS_ADMIN"]}"#, true),
        (r#""includes": {"arches": ["amd64", "x32"]}"#, true),
        (r#""includes": {"arches": ["arm64"]}"#, false),
        (r#""excludes": {"arches": ["amd64"]}"#, false),
        (r#""includes": {"minKernel": "6.1"}"#, true),
        (r#""includes": {"minKernel": "6.10"}"#, false),
        (r#""excludes": {"minKernel": "4.8"}"#, false),
        (r#""includes": {"minKernel": "4.8", "caps": ["CAP_BPF"]}"#, false),
    ] {
        let profile = resolved(&entry(&format!(
            r#"{{"name": "bpf", "action": "SCMP_ACT_KILL", {selector}}}"#
        )));
        assert_eq!(!answer(&profile, "bpf", [0; 6]).allows(), applies, "{selector}");
    }
}

#[test]
fn profile_for_other_architectures_is_refused() {
    let list =
        |machine| format!(r#"{{"defaultAction": "SCMP_ACT_LOG", "architectures": ["{machine}"]}}"#);
    let arm = CustomProfile::parse(&list("SCMP_ARCH_AARCH64")).unwrap();
    let refused = arm.resolve(HOST).unwrap_err().to_string();
    assert_eq!(refused, "the seccomp profile is not for X86_64: it lists only SCMP_ARCH_AARCH64");
    assert!(arm.resolve(Host { architecture: Architecture::Aarch64, ..HOST }).is_ok());
    for own in ["SCMP_ARCH_X86_64", "SCMP_ARCH_NATIVE"] {
        assert!(CustomProfile::parse(&list(own)).unwrap().resolve(HOST).is_ok());
    }
}

#[test]
fn unknown_name_is_an_error_if_only_it_would_be_denied_and_otherwise_a_note() {
    let with =
        |action: &str| entry(&format!(r#"{{"names": ["read", "mkdri"], "action": "{action}"}}"#));
    let problem = "line 2, column 20: no system call is called `mkdri`; did you mean `mkdir`?";
    for action in ["SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_TRAP"] {
        assert_eq!(refused(&with(action)), problem);
    }
    for action in ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"] {
        let profile = CustomProfile::parse(&with(action)).unwrap();
        assert_eq!(profile.notes(), [format!("{problem} (it stays refused)")]);
    }
    let denies_anyway = with("SCMP_ACT_KILL").replacen("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", 1);
    assert_eq!(CustomProfile::parse(&denies_anyway).unwrap().notes().len(), 1);
    let foreign = entry(r#"{"names": ["socketcall", "stat64"], "action": "SCMP_ACT_KILL"}"#);
    assert_eq!(CustomProfile::parse(&foreign).unwrap().notes(), [""; 0]);
}

#[test]
fn comments_of_both_kinds_are_ignored() {
    let plain = r#"{"defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{"name": "read", "action": "SCMP_ACT_ALLOW", "comment": "// not one"}]}"#;
    let commented = r#"// A profile.
        {"defaultAction": "SCMP_ACT_ERRNO", /* "defaultAction": "SCMP_ACT_ALLOW", */
        "syscalls": [ // {"name": "write", "action": "SCMP_ACT_ALLOW"},
            {"name": "read", /**/ "action": "SCMP_ACT_ALLOW", "comment": "// not one"}]} // end"#;
    assert_eq!(CustomProfile::parse(commented), CustomProfile::parse(plain));
    assert!(CustomProfile::parse(plain).is_ok());
}

#[test]
fn json_errors_have_a_position_and_a_remedy() {
    for (text, expected) in [
        ("{}\n/* all", "line 2, column 1: this comment has no end; end it with */"),
        ("{\"syscalls\": [],\n}", "line 1, column 16: this comma has nothing after it; remove it"),
        ("[]", "line 1, column 1: this is a list; write an object here"),
        (
            "",
            "line 1, column 1: the profile is empty; write an object with `defaultAction` and `syscalls`",
        ),
        (
            "// nothing",
            "line 1, column 1: the profile is empty; write an object with `defaultAction` and `syscalls`",
        ),
        ("{\"defaultAction\": 1}", "line 1, column 19: this is a number; write a text here"),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
    for text in
        ["{", "{'a': 1}", "{a: 1}", "{\"a\" 1}", "{} {}", "{\"a\": 0x1}", "{\"a\": \"\\x41\"}"]
    {
        assert!(refused(text).contains("this is not JSON: "), "{text}: {}", refused(text));
    }
    let deep = format!("{{\"syscalls\": {}", "[".repeat(100_000));
    assert!(refused(&deep).contains("this is nested too deeply"));
    let long = format!("{{}}{}", " ".repeat(CustomProfile::MOST_BYTES));
    assert!(refused(&long).contains("keep it within 1048576 bytes"));
}

#[test]
fn profile_errors_have_a_position_and_a_remedy() {
    let argument = |text: &str| {
        entry(&format!(r#"{{"name":"ioctl","action":"SCMP_ACT_KILL","args":[{text}]}}"#))
    };
    for (text, expected) in [
        ("{}".into(), "line 1, column 1: `defaultAction` is missing in this object; add `defaultAction`"),
        (
            "{\"defaultAction\": \"SCMP_ACT_ALLOW\",\n \"defaultAction\": \"SCMP_ACT_LOG\"}".into(),
            "line 2, column 2: the key `defaultAction` is repeated here; keep one of the two",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"syscals\": []}".into(),
            "line 2, column 1: the key `syscals` is not known here; did you mean `syscalls`?",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_ALOW\"}".into(),
            "line 1, column 19: the action `SCMP_ACT_ALOW` is not known; did you mean SCMP_ACT_ALLOW?",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_NOTIFY\"}".into(),
            "line 1, column 19: `SCMP_ACT_NOTIFY` leaves the answer to a supervisor, which does not exist; write SCMP_ACT_ERRNO",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 0}".into(),
            "line 1, column 56: 0 is not an error number; write one from 1 to 4095",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 1, \"defaultErrno\": \"ENOSYS\"}".into(),
            "line 1, column 75: `defaultErrno` is 38, but `defaultErrnoRet` is 1; let them agree, or keep one",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_LOG\", \"defaultErrnoRet\": 1}".into(),
            "line 1, column 54: SCMP_ACT_LOG has no error number; remove the error number",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_LOG\", \"architectures\": [\"SCMP_ARCH_VAX\"]}".into(),
            "line 1, column 53: the architecture `SCMP_ARCH_VAX` is not known; write one such as SCMP_ARCH_X86_64",
        ),
        (
            "{\"defaultAction\": \"SCMP_ACT_LOG\", \"architectures\": [], \"archMap\": []}".into(),
            "line 1, column 67: `archMap` and `architectures` are both present; keep one of the two",
        ),
        (
            entry(r#"{"action": "SCMP_ACT_KILL"}"#),
            "line 2, column 1: this rule needs either `names` or `name`; write a list `names`",
        ),
        (
            entry(r#"{"names": [], "action": "SCMP_ACT_KILL"}"#),
            "line 2, column 1: this rule names no call; add a name or remove the rule",
        ),
        (
            entry(r#"{"name": "read", "action": "SCMP_ACT_KILL", "includes": {"arches": ["vax"]}}"#),
            "line 2, column 69: the architecture `vax` is not known; write one such as amd64 or arm64",
        ),
        (
            entry(r#"{"name": "read", "action": "SCMP_ACT_KILL", "includes": {"minKernel": "new"}}"#),
            "line 2, column 71: this is not a kernel version; write one such as 5.15",
        ),
        (
            argument(r#"{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}"#),
            "line 2, column 60: a call has no argument 6; write a number from 0 to 5",
        ),
        (
            argument(r#"{"index": 1, "value": -1, "op": "SCMP_CMP_EQ"}"#),
            "line 2, column 72: `-1` is not a whole number from 0 to 2^64-1; write it in full, without sign, point or exponent",
        ),
        (
            argument(r#"{"index": 1, "value": 1, "op": "SCMP_CMP_EQUAL"}"#),
            "line 2, column 81: the comparison `SCMP_CMP_EQUAL` is not known; did you mean SCMP_CMP_EQ?",
        ),
        (
            argument("{\"index\": 1, \"value\": 1, \"op\": \"SCMP_CMP_GE\"},\n{\"index\": 1, \"value\": 9, \"op\": \"SCMP_CMP_LE\"}"),
            "line 3, column 1: argument 1 is compared twice; write one rule for each comparison; each then matches by itself",
        ),
    ] {
        let text: String = text;
        assert_eq!(refused(&text), expected, "{text}");
    }
}

#[test]
fn overlong_words_and_lists_are_refused_quickly() {
    let long = "x".repeat(500_000);
    let name = refused(&entry(&format!(r#"{{"name": "{long}", "action": "SCMP_ACT_KILL"}}"#)));
    let start = "x".repeat(64);
    let expected = format!("line 2, column 10: no system call is called `{start}...`; ");
    assert_eq!(name, expected + "write the name as the kernel does");
    assert!(refused(&format!("{{\"{long}\": 1}}")).len() < 300);
    let names = vec!["\"no_such\""; 50_000].join(",");
    let many = entry(&format!(r#"{{"names": [{names}], "action": "SCMP_ACT_ALLOW"}}"#));
    assert!(refused(&many).contains("no system call is called `no_such`"));
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in r#"[{}\[\]",:a-zA-Z_0-9 \\/*\n]{0,200}"#) {
        let _ = CustomProfile::parse(&text);
    }

    #[test]
    fn accepted_text_is_json_for_every_parser(
        text in r#"\{"defaultAction": ?"SCMP_ACT_(ALLOW|LOG)"[,}\]/'\\ 0-9a-z"]{0,3}( |,)?("syscalls": ?\[[\[\]{}, ]{0,3}\])?\}?"#
    ) {
        if CustomProfile::parse(&text).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
        }
    }
}
