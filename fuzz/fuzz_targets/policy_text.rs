//! Any bytes as a policy: no panic, and what is accepted can be written, read back and asked.

#![no_main]

use std::path::PathBuf;

use stockade_policy::{
    Access, Context, GuestPath, Host, Method, Moment, Policy, PolicyText, UrlPath,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| check(data));

fn check(data: &[u8]) {
    let read = |bytes: &[u8]| {
        let base = PathBuf::from("/srv/project");
        Policy::parse(&PolicyText { name: "fuzz".to_owned(), bytes: bytes.to_vec(), base })
    };
    let policy = match read(data) {
        Ok(policy) => policy,
        Err(errors) => {
            assert!(errors.diagnostics().iter().all(|found| found.line > 0 && found.column > 0));
            assert!(!errors.to_string().is_empty());
            return;
        }
    };
    assert_eq!(read(policy.to_yaml().as_bytes()).as_ref(), Ok(&policy));
    let json = policy.to_value().to_string();
    if !json.contains(is_escaped_in_yaml) {
        assert_eq!(read(json.as_bytes()).as_ref(), Ok(&policy));
    }
    assert!(!policy.requirements().is_empty());
    assert_eq!(policy.widenings(&policy), []);
    assert_eq!(policy.combine(&policy), policy);
    ask(&policy);
}

/// Whether a character may stand as it is in JSON but not in YAML.
fn is_escaped_in_yaml(character: char) -> bool {
    let code = u32::from(character);
    character.is_control() || code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
}

fn ask(policy: &Policy) {
    let mut context = Context::default();
    context.now = Some(Moment { unix_seconds: 1_772_955_000 });
    let mut verdicts = vec![
        policy.judge_code("import os", "python", &context),
        policy.judge_code("", "", &Context::default()),
        policy.judge_command(&["ls".to_owned(), "-l".to_owned()], &context),
        policy.judge_command(&[], &context),
        policy.judge_tool("search", None, &context),
        policy.judge_tool("search", Some(&policy.to_value()), &context),
    ];
    for path in ["/", "/workspace", "/data/x", "/etc/passwd", "/proc/1/root"] {
        let path = GuestPath::parse(path).expect("the path is plain");
        verdicts.extend([Access::Read, Access::Write].map(|way| policy.judge_path(&path, way)));
    }
    let (method, path) = (Method::parse("GET"), UrlPath::parse("/repos/a"));
    let (method, path) = (method.expect("a method"), path.expect("a plain path"));
    for host in ["api.github.com", "8.8.8.8", "[2001:db8::1]", "metadata.google.internal"] {
        let host = Host::parse(host).expect("the host is plain");
        verdicts.push(policy.judge_host(&host, 443));
        verdicts.push(policy.judge_request(&host, 443, &method, &path));
        verdicts.push(policy.judge_address(&host, 443, [10, 0, 0, 1].into()));
    }
    for verdict in verdicts {
        assert_eq!(verdict.denial().is_none(), verdict.allows());
    }
}
