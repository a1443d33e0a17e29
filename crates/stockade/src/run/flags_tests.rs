use clap::Parser;
use stockade_policy::{Isolation, Preset, Protocol, Workspace, WorkspaceMode};

use super::*;
use crate::args::{Cli, Command};

fn flags(words: &[&str]) -> PolicyFlags {
    let argv = ["stockade", "run"].iter().chain(words);
    let Command::Run(args) = Cli::try_parse_from(argv).unwrap().command else {
        panic!("run was said")
    };
    args.sandbox.flags
}

fn without_policy(words: &[&str]) -> Result<Policy, Problem> {
    preset(&flags(words), Passage::Allowed, &Offered::default(), Path::new("/srv/me"))
}

fn beside(policy: &str, words: &[&str]) -> Result<Policy, Problem> {
    let policy = Policy::parse_str("p", policy, Path::new("/srv")).unwrap();
    tightened(policy, &flags(words), Path::new("/srv/me"))
}

#[test]
fn no_flag_is_the_preset_default() {
    let mut written =
        Policy::parse_str("default", Preset::Default.text(), Path::new("/srv/me")).unwrap();
    written.description.clear();
    assert_eq!(without_policy(&[]).unwrap(), written);
}

#[test]
fn every_limit_has_its_flag() {
    let words = [
        "--memory",
        "64m",
        "--cpus",
        "0.5",
        "--timeout",
        "1.5s",
        "--pids",
        "9",
        "--disk",
        "16m",
        "--max-output",
        "2k",
        "--isolation",
        "vm",
    ];
    let policy = without_policy(&words).unwrap();
    let limits =
        [Limit::Memory, Limit::Cpu, Limit::Timeout, Limit::Pids, Limit::Disk, Limit::Output]
            .map(|limit| policy.limits.value(limit).unwrap());
    assert_eq!(limits, [64, 500, 1500, 9, 16, 2048]);
    assert_eq!(policy.isolation.value, Isolation::Vm);
}

#[test]
fn mounts_and_the_workspace_start_at_the_working_directory() {
    let words = [
        "--mount",
        "data:/data",
        "--mount",
        "/srv/o ut\"x:/out:rw",
        "--mount",
        "ä:/esc:ro",
        "--workspace",
        ".:read",
    ];
    let policy = without_policy(&words).unwrap();
    let mounts: Vec<(&Path, &str, &str)> = policy
        .mounts
        .iter()
        .map(|mount| (mount.host.as_path(), mount.guest.as_str(), mount.access.as_str()))
        .collect();
    let expected = [
        (Path::new("/srv/me/data"), "/data", "read"),
        (Path::new("/srv/me/ä"), "/esc", "read"),
        (Path::new("/srv/o ut\"x"), "/out", "write"),
    ];
    assert_eq!(mounts, expected);
    let host = "/srv/me".into();
    let mode = WorkspaceMode::Read;
    assert_eq!(policy.workspace.value, Workspace::Host { host, mode });
}

#[test]
fn disk_limit_follows_memory_and_may_not_exceed_it() {
    let policy = without_policy(&["--memory", "64m"]).unwrap();
    assert_eq!(policy.limits.value(Limit::Disk), Some(32));
    let problem = without_policy(&["--memory", "64m", "--disk", "512m"]).unwrap_err();
    assert!(problem.message.starts_with("--disk 512m is more than --memory 64m"), "{problem}");
    assert_eq!(problem.remedy, "raise --memory to at least 512m, or lower --disk");
    let problem = without_policy(&["--disk", "1g"]).unwrap_err();
    assert!(problem.message.contains("the 512 MiB of memory"), "{problem}");
}

#[test]
fn error_names_the_flag_as_written() {
    for (words, flag) in [
        (&["--memory", "1m"][..], "--memory 1m: "),
        (&["--timeout", "0s"], "--timeout 0s: "),
        (&["--cpus", "0"], "--cpus 0: "),
        (&["--pids", "5", "--mount", "/etc/shadow:/x"], "--mount /etc/shadow:/x: "),
        (&["--mount", "a:b"], "--mount a:b: "),
        (&["--mount", "a:/proc/x"], "--mount a:/proc/x: "),
        (&["--mount", "a:/x", "--mount", "b:/x:rw"], "--mount b:/x:rw: "),
        (&["--mount", "a\u{1b}:/x"], "--mount a\u{1b}:/x: "),
        (&["--mount", "a"], "--mount a is not"),
        (&["--mount", "a:/x:rx"], "--mount a:/x:rx is not"),
        (&["--workspace", "/"], "--workspace /: "),
        (&["--workspace", ".:never"], "--workspace .:never is not"),
        (&["--memory", "1100k"], "--memory 1100k is not a whole number of MiB"),
    ] {
        let problem = without_policy(words).unwrap_err();
        assert!(problem.message.starts_with(flag), "{words:?}: {problem}");
        assert!(!problem.remedy.is_empty(), "{words:?}");
    }
}

const POLICY: &str = "{isolation: container, filesystem: {read: [/data]}, environment: {A: b}, \
     defaults: {max_memory_mb: 2048, timeout_seconds: 90}, limits: {max_disk_mb: 1024}}";

#[test]
fn flag_with_a_policy_narrows_only_its_own_limit() {
    let policy = beside(POLICY, &["--timeout", "5s", "--disk", "600m"]).unwrap();
    let limits = [Limit::Timeout, Limit::Disk, Limit::Memory, Limit::Pids];
    let held = limits.map(|limit| policy.limits.value(limit).unwrap());
    assert_eq!(held, [5000, 600, 2048, 256]);
    assert_eq!((policy.mounts.len(), policy.environment.len()), (1, 1));
}

#[test]
fn flag_that_would_widen_a_policy_is_refused_with_both_values() {
    let problem = beside(POLICY, &["--timeout", "2m"]).unwrap_err();
    assert_eq!(
        problem.message,
        "--timeout 2m would widen the policy: 120 seconds is more than the 90 seconds that the \
         policy sets by defaults.timeout_seconds"
    );
    for words in [
        &["--isolation", "process"][..],
        &["--mount", "a:/a"],
        &["--workspace", "."],
        &["--pids", "257"],
    ] {
        let problem = beside(POLICY, words).unwrap_err();
        assert!(problem.message.contains("widen the policy"), "{words:?}: {problem}");
    }
}

#[test]
fn remedy_without_a_policy_names_the_flag() {
    let refused = |words: &[&str]| without_policy(words).unwrap_err();
    let problem = refused(&["--mount", "out:/workspace"]);
    assert!(problem.remedy.starts_with("pass --workspace DIR"), "{}", problem.remedy);
    let problem = refused(&["--mount", "a:/x", "--mount", "b:/x:rw"]);
    assert!(problem.message.ends_with("mounted twice; first by --mount a:/x"), "{problem}");
}

#[test]
fn decision_without_a_policy_names_the_flag_and_no_line() {
    let words = ["--allow-host", "example.org:81", "--block-host", "bad.example.org"];
    let policy = without_policy(&words).unwrap();
    let judged = |host: &str| policy.judge_host(&Host::parse(host).unwrap(), 80);
    let denial = judged("example.org").denial().unwrap();
    assert_eq!(denial.rule, "command line: --allow-host example.org:81");
    assert_eq!(denial.how_to_allow, "pass --allow-host example.org:80 too");
    let denial = judged("bad.example.org").denial().unwrap();
    assert_eq!(denial.rule, "command line: --block-host bad.example.org");
    assert_eq!(denial.how_to_allow, "leave --block-host bad.example.org out");
}

#[test]
fn learned_policy_keeps_the_literal_behind_a_name() {
    let said = flags(&["--allow-host", "10.0.0.7:443", "--allow-host", "10.0.0.8:80"]);
    let used = |host: &str, port| Learned {
        host: Host::parse(host).unwrap(),
        port,
        protocol: Protocol::Web,
        request: None,
    };
    let used = [used("10.0.0.8", 80), used("pypi.internal.example", 443)];
    let text = learned(&said, &used, &[], Path::new("/srv/me")).unwrap();
    let policy = Policy::parse_str("learned", &text, Path::new("/srv/me")).unwrap();
    let mut hosts: Vec<String> =
        policy.gates[0].network.entries.iter().map(|entry| entry.host.to_string()).collect();
    hosts.sort();
    assert_eq!(hosts, ["10.0.0.7", "10.0.0.8", "pypi.internal.example"]);
}
