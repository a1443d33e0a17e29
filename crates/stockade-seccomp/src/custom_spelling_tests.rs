use super::*;
use crate::compile;

const HOSTS: [Host; 2] = [
    Host { architecture: Architecture::X86_64, kernel: (6, 1) },
    Host { architecture: Architecture::Aarch64, kernel: (5, 15) },
];

/// A small profile with every feature that the default profile of an engine uses.
const CURRENT: &str = r#"{
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 1,
    "archMap": [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}
    ],
    "syscalls": [
        {"names": ["read"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["write"], "action": "SCMP_ACT_ALLOW", "args": [], "comment": "output",
         "includes": {}, "excludes": {}},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": 40, "valueTwo": 0, "op": "SCMP_CMP_NE"}]},
        {"names": ["personality"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": 131072, "op": "SCMP_CMP_EQ"}]},
        {"names": ["personality"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": 4294967295, "op": "SCMP_CMP_EQ"}]},
        {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
         "args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
         "excludes": {"caps": ["CAP_SYS_ADMIN"], "arches": ["s390", "s390x"]}},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38,
         "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
        {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64"]}},
        {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_BPF"]}}
    ]
}"#;

/// The same profile in the older spelling.
fn older() -> String {
    let mut text = CURRENT.replace("\"value\":", "\"val\":").replace("\"valueTwo\":", "\"val2\":");
    for name in CURRENT.split("\"names\": [").skip(1).filter_map(|rest| rest.split(']').next()) {
        text = text.replace(&format!("\"names\": [{name}]"), &format!("\"name\": {name}"));
    }
    text
}

fn refused(text: &str) -> String {
    CustomProfile::parse(text).unwrap_err().to_string()
}

/// A profile with one rule for `ioctl`, on line 2.
fn rule(members: &str) -> String {
    let start = "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [\n";
    format!("{start}{{\"action\": \"SCMP_ACT_KILL\", {members}}}]}}")
}

#[test]
fn older_spelling_compiles_to_the_same_program() {
    let older = older();
    assert!(!older.contains("\"names\"") && !older.contains("\"value"), "{older}");
    for host in HOSTS {
        let programs = [CURRENT, &older].map(|text| {
            let profile = CustomProfile::parse(text).unwrap().resolve(host).unwrap();
            compile(&profile, host.architecture).unwrap()
        });
        assert_eq!(programs[0], programs[1], "{host:?}");
    }
}

#[test]
fn engine_profile_resolves_as_in_the_engine_without_capabilities() {
    let profile = CustomProfile::parse(CURRENT).unwrap();
    assert_eq!(profile.notes(), [""; 0]);
    let [intel, arm] = HOSTS.map(|host| profile.resolve(host).unwrap());
    let names = |profile: &Profile| -> Vec<&str> {
        let mut names: Vec<&str> = profile.rules.keys().map(|one| one.name()).collect();
        names.sort_unstable();
        names
    };
    let everywhere = ["clone", "clone3", "personality", "ptrace", "read", "socket", "write"];
    assert_eq!(names(&arm), everywhere);
    assert_eq!(names(&intel), [&["arch_prctl"], &everywhere[..]].concat());
    let clone3 = Syscall::named("clone3").unwrap();
    assert_eq!(intel.rules[&clone3], [Rule::always(Action::Errno(38))]);
}

#[test]
fn both_spellings_at_once_are_refused_by_name() {
    let argument = |members: &str| {
        rule(&format!(
            r#""name": "ioctl", "args": [{{"index": 1, "op": "SCMP_CMP_EQ", {members}}}]"#
        ))
    };
    for (text, problem) in [
        (rule(r#""names": ["ioctl"], "name": "ioctl""#), "`name` and `names` are both present"),
        (argument(r#""value": 1, "val": 1"#), "`val` and `value` are both present"),
        (
            argument(r#""val": 1, "valueTwo": 0, "val2": 0"#),
            "`val2` and `valueTwo` are both present",
        ),
    ] {
        let refused = refused(&text);
        assert!(refused.starts_with("line 2, column "), "{refused}");
        assert!(refused.ends_with(&format!(": {problem}; keep one of the two")), "{refused}");
    }
    // A null key counts as absent, here as everywhere.
    assert!(CustomProfile::parse(&rule(r#""names": null, "name": "ioctl""#)).is_ok());
    assert!(CustomProfile::parse(&argument(r#""value": null, "val": 1"#)).is_ok());
}

#[test]
fn typos_in_either_spelling_are_refused_with_a_suggestion() {
    for (members, remedy) in [
        (r#""nmae": "ioctl""#, "the key `nmae` is not known here; did you mean `name`?"),
        (r#""namse": ["ioctl"]"#, "the key `namse` is not known here; did you mean `names`?"),
        (r#""name": "ioclt""#, "no system call is called `ioclt`; did you mean `ioctl`?"),
        (
            r#""name": "ioctl", "args": [{"index": 0, "vall2": 1}]"#,
            "the key `vall2` is not known here; did you mean `val2`?",
        ),
        (
            r#""name": "ioctl", "args": [{"index": 0, "value_two": 1}]"#,
            "the key `value_two` is not known here; did you mean `valueTwo`?",
        ),
        (
            r#""name": "ioctl", "args": [{"index": 0, "op": "SCMP_CMP_EQ"}]"#,
            "`value` is missing in this object; add `value`",
        ),
        (
            r#""name": "ioctl", "errnoRte": 1"#,
            "the key `errnoRte` is not known here; did you mean `errnoRet`?",
        ),
        (
            r#""name": "ioctl", "includes": {"minKernal": "5.1"}"#,
            "the key `minKernal` is not known here; did you mean `minKernel`?",
        ),
    ] {
        let refused = refused(&rule(members));
        assert!(refused.ends_with(remedy), "{refused}");
    }
}

#[test]
fn unsupported_flags_are_refused() {
    let with = |flags: &str| format!(r#"{{"defaultAction": "SCMP_ACT_LOG", "flags": {flags}}}"#);
    for honoured in ["null", "[]", r#"["SECCOMP_FILTER_FLAG_TSYNC"]"#] {
        assert!(CustomProfile::parse(&with(honoured)).is_ok(), "{honoured}");
    }
    for flag in ["SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_LOG", "anything"] {
        let expected = format!("line 1, column 45: the flag `{flag}` is not honoured; remove it");
        assert_eq!(refused(&with(&format!("[\"{flag}\"]"))), expected);
    }
}

#[test]
fn other_formats_are_refused_and_not_partly_read() {
    for (text, problem) in [
        (r#"{"default_action": "SCMP_ACT_KILL"}"#, "the key `default_action` is not known here"),
        (
            r#"{"defaultAction": "SCMP_ACT_LOG", "listenerPath": "/s"}"#,
            "the key `listenerPath` is not",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_LOG", "seccomp": {}}"#,
            "the key `seccomp` is not known here",
        ),
        (r#"{"main": {"filter": []}}"#, "the key `main` is not known here"),
    ] {
        assert!(refused(text).contains(problem), "{}", refused(text));
    }
    let narrow =
        r#""name": "ioctl", "args": [{"index": 1, "type": "dword", "op": "eq", "val": 1}]"#;
    assert!(refused(&rule(narrow)).contains("the key `type` is not known here"));
}
