use std::collections::BTreeSet;
use std::path::Path;

use stockade_engine::{Audit, StreamOutput, Usage};
use stockade_provider::{Plan, ProviderName};

use super::*;

fn report(outcome: Outcome) -> RunReport {
    RunReport {
        outcome,
        stdout: StreamOutput::default(),
        stderr: StreamOutput::default(),
        start: Duration::ZERO,
        duration: Duration::ZERO,
        usage: Usage::default(),
        limits_hit: BTreeSet::new(),
        denials: Vec::new(),
        audits: Vec::new(),
        learned: Vec::new(),
        tool_calls: 0,
        stderr_tail: Vec::new(),
        plan: None,
        session: None,
        record: None,
    }
}

fn said(report: &RunReport) -> Vec<String> {
    said_with(report, &[])
}

fn said_with(report: &RunReport, hints: &[String]) -> Vec<String> {
    let text =
        "{defaults: {timeout_seconds: 1.5, max_memory_mb: 64}, limits: {max_cpu_seconds: 2}}";
    lines(report, &Policy::parse_str("p", text, Path::new("/")).unwrap(), hints)
}

#[test]
fn program_that_exited_gets_no_summary_line() {
    for code in [0, 1, 137] {
        assert_eq!(said(&report(Outcome::Exited { code })), [""; 0]);
    }
}

#[test]
fn reduced_wall_is_named_for_every_outcome() {
    let mut ended = report(Outcome::Exited { code: 0 });
    let plan = |provider, isolation| {
        let (provider, controls) = (ProviderName::new(provider), Vec::new());
        Some(Plan { provider, isolation, controls, start: None })
    };
    ended.plan = plan("native", Isolation::Process);
    assert_eq!(said(&ended), [""; 0]);
    ended.plan = plan("reduced", Isolation::Reduced);
    let line = "the reduced wall was used: no namespaces, and less hidden of the host";
    assert_eq!(said(&ended), [line]);
    ended.outcome = Outcome::Cancelled;
    assert_eq!(said(&ended), [line, "cancelled"]);
}

#[test]
fn every_other_outcome_is_one_line_with_its_cause() {
    let program = "nowhere".to_owned();
    let limit = Limit::CpuTime;
    for (outcome, line) in [
        (Outcome::Signaled { signal: 11 }, "killed by SIGSEGV"),
        (Outcome::TimedOut, "timed out after 1.5s (limit defaults.timeout_seconds)"),
        (Outcome::OutOfMemory, "out of memory (limit defaults.max_memory_mb: 64 MiB)"),
        (
            Outcome::LimitExceeded { limit },
            "ended by Stockade (limit limits.max_cpu_seconds: 2 seconds)",
        ),
        (
            Outcome::NotStarted { errno: 2, program, refused_call: None },
            "cannot start nowhere: No such file or directory (os error 2)",
        ),
        (Outcome::Cancelled, "cancelled"),
        (Outcome::EngineLost, "the sandbox was lost: its first process is gone"),
    ] {
        assert_eq!(said(&report(outcome)), [line]);
    }
}

#[test]
fn limit_that_ended_the_program_is_named_once_and_every_other_in_words_of_its_own() {
    let mut ended = report(Outcome::LimitExceeded { limit: Limit::EgressBytes });
    ended.limits_hit = BTreeSet::from([Limit::EgressBytes]);
    assert_eq!(said(&ended).len(), 1, "{:?}", said(&ended));
    let ending = [Limit::EgressBytes, Limit::CpuTime, Limit::IoRate, Limit::Cpu, Limit::Lifetime];
    let words: Vec<&str> = ending.into_iter().map(refused_by).collect();
    assert!(words.iter().all(|words| !words.contains("something")), "{words:?}");
}

#[test]
fn denial_shows_how_to_allow_it_once() {
    let denial = Denial {
        control: "commands".into(),
        rule: "p.yaml:1:1: x".to_owned(),
        target: "cat".to_owned(),
        why: "it is not listed".to_owned(),
        how_to_allow: "list it".to_owned(),
    };
    let mut denied = report(Outcome::Denied { denial: denial.clone() });
    denied.denials.push(denial);
    let expected = "denied cat: it is not listed\n  decided by p.yaml:1:1: x\n  = list it";
    assert_eq!(said(&denied), [expected]);
    denied.outcome = Outcome::Exited { code: 1 };
    let expected = "denied cat: it is not listed; decided by p.yaml:1:1: x; to allow it: list it";
    assert_eq!(said(&denied), [expected]);
}

#[test]
fn dropped_output_other_limits_records_and_hints_follow() {
    let mut report = report(Outcome::Exited { code: 1 });
    report.limits_hit = BTreeSet::from([Limit::Output, Limit::Disk]);
    report.stdout = StreamOutput { bytes: Vec::new(), kept_bytes: 10, dropped_bytes: 5 };
    report.stderr = StreamOutput { bytes: Vec::new(), kept_bytes: 1, dropped_bytes: 2 };
    let (control, rule) = ("code_rules", "p.yaml:1:1".to_owned());
    let (target, why) = ("python code of 3 bytes".to_owned(), "rule `r` matches".to_owned());
    report.audits.push(Audit { control, rule, target, why });
    let expected = [
        "a write was refused: the files inside are full (limit limits.max_disk_mb: 32 MiB)",
        "output kept 11 bytes and dropped 7 (limit limits.max_output_bytes: 1048576 bytes)",
        "recorded python code of 3 bytes: rule `r` matches",
        "hint: look here",
    ];
    assert_eq!(said_with(&report, &["look here".to_owned()]), expected);
}
