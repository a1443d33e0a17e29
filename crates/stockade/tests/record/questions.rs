//! What the audit commands print about records, as text and as JSON.

use stockade_policy::{Context, Denial, Effect, Host, Policy};
use stockade_record::{
    Body, Command, Egress, Inspection, PolicyDigest, RecordDirectory, Recorder, SessionStarted,
    Sink, ToolCall, Via,
};

use crate::support::{Records, Run, binary, finish, walls_can_be_built};

fn egress(host: &str, status: Option<u16>, denied: bool) -> Egress {
    let host: Host = Host::parse(host).expect("the host is one");
    let verdict = Policy::parse_str("p", "{}", std::path::Path::new("/"))
        .expect("the policy is one")
        .judge_host(&host, 443);
    let denial: Option<Denial> = verdict.denial().filter(|_| denied);
    Egress {
        execution: Some(0),
        connection: 1,
        via: Via::Connect,
        host: host.to_string(),
        port: Some(443),
        address: None,
        method: status.map(|_| "GET".to_owned()),
        path: status.map(|_| "/\u{1b}[2J".to_owned()),
        status,
        inspection: Inspection::None,
        sent_bytes: 100,
        received_bytes: 1000,
        duration_ms: 5,
        verdict: if denied { Effect::Deny } else { Effect::Allow },
        rule: verdict.basis.to_string(),
        denial,
        failure: None,
        secrets: Vec::new(),
    }
}

/// A tool call event.
fn tool_call(tool: &str, outcome: &str, arguments: Option<&str>) -> ToolCall {
    let policy = Policy::parse_str("p", "tool_allowlist: [search]", std::path::Path::new("/"));
    let verdict = policy.expect("the policy is one").judge_tool(tool, None, &Context::default());
    ToolCall {
        execution: Some(0),
        call: 0,
        tool: tool.to_owned(),
        verdict: verdict.effect,
        rule: verdict.basis.to_string(),
        denial: verdict.denial(),
        outcome: outcome.to_owned(),
        duration_ms: 2,
        argument_bytes: 13,
        result_bytes: 20,
        arguments: arguments.map(str::to_owned),
    }
}

fn recorded(records: &Records, events: Vec<Egress>) -> String {
    recorded_all(records, events.into_iter().map(Body::Egress).collect())
}

fn recorded_all(records: &Records, events: Vec<Body>) -> String {
    let place = RecordDirectory::named(&records.path()).expect("the path has a name");
    let recorder = Recorder::new(vec![place]).expect("there is randomness");
    let policy = PolicyDigest::of("p", "{}");
    let command = Command::of(&["evil\u{1b}[2J\nname".to_owned()], None);
    recorder.begin(SessionStarted::new("0.1.0", policy, 0, command)).expect("it begins");
    for event in events {
        let kept = match event {
            Body::Egress(egress) => recorder.egress(egress),
            Body::ToolCall(call) => recorder.tool_call(call),
            other => recorder.record(other),
        };
        kept.expect("an event is kept");
    }
    recorder.end("exited").expect("it ends");
    recorder.session().to_string()
}

fn is_harmless(run: &Run) -> bool {
    let plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    plain(&run.stdout) && plain(&run.stderr)
}

#[test]
fn audit_summary_counts_requests_by_host_method_status_and_verdict() {
    let records = Records::new();
    recorded(
        &records,
        vec![
            egress("a.example.org", Some(200), false),
            egress("a.example.org", None, false),
            egress("b.example.org", Some(403), true),
        ],
    );
    let told = records.audit(&["summary", "--json"]).json();
    assert_eq!((&told["requests"], &told["sessions"]), (&3.into(), &1.into()));
    assert_eq!(told["by_host"]["a.example.org"], 2);
    assert_eq!((&told["by_method"]["GET"], &told["by_method"]["unknown"]), (&2.into(), &1.into()));
    assert_eq!(told["by_status"]["unknown"], 1);
    assert_eq!((&told["by_verdict"]["allow"], &told["by_verdict"]["deny"]), (&2.into(), &1.into()));
    assert_eq!(told["latest"][0]["host"], "b.example.org");
    let text = records.audit(&["summary"]);
    for said in ["requests  3", "2  a.example.org", "1  403", "1  deny", "latest"] {
        assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
    }
    assert!(is_harmless(&text), "{text:?}");
    recorded(&records, vec![egress("a.example.org", None, false)]);
    assert_eq!(
        records.audit(&["summary", "--all", "--json"]).json()["by_host"]["a.example.org"],
        3
    );
    assert_eq!(records.audit(&["summary", "--json"]).json()["requests"], 1);
}

#[test]
fn calls_to_tools_are_shown_and_counted() {
    let records = Records::new();
    let session = recorded_all(
        &records,
        vec![
            Body::ToolCall(tool_call("search", "answered", Some(r#"{"query":"cs.CL"}"#))),
            Body::ToolCall(tool_call("search", "answered", None)),
            Body::ToolCall(tool_call("search", "timed_out", None)),
            Body::ToolCall(tool_call("evil\u{1b}[2J\nname", "denied", Some("\u{1b}[2J\n"))),
        ],
    );
    let told = records.audit(&["summary", "--json"]).json();
    assert_eq!((&told["tool_calls"], &told["requests"]), (&4.into(), &0.into()));
    let search = serde_json::json!({ "answered": 2, "timed_out": 1 });
    assert_eq!(told["by_tool"]["search"], search);
    let text = records.audit(&["summary"]);
    for said in ["tool calls  4", "2  search  answered", "1  search  timed_out"] {
        assert!(text.stdout.contains(said), "{said}: {}", text.stdout);
    }
    for words in [&["show"][..], &["follow"]] {
        let shown = records.audit(words);
        assert_eq!(shown.stdout.lines().count(), 6, "{shown:?}");
        assert!(is_harmless(&shown), "{shown:?}");
        let allowed = "allow search: answered, 13 bytes of arguments, 20 of result, 2 ms; \
                       with {\"query\":\"cs.CL\"}";
        assert!(shown.stdout.contains(allowed), "{}", shown.stdout);
        assert!(shown.stdout.contains("tool_allowlist does not name"), "{}", shown.stdout);
    }
    assert!(is_harmless(&text), "{text:?}");
    assert_eq!(records.audit(&["verify", &session]).code, 0);
    let shown = records.audit(&["show", "--json"]).json();
    assert_eq!(
        (&shown[1]["kind"], &shown[1]["body"]["outcome"]),
        (&"tool_call".into(), &"answered".into())
    );
    assert_eq!(shown[2]["body"]["arguments"], serde_json::Value::Null);
}

#[test]
fn names_from_inside_cannot_inject_escapes_or_lines() {
    let records = Records::new();
    recorded(&records, vec![egress("a.example.org", Some(200), false)]);
    for words in [&["ls"][..], &["show"], &["verify"], &["summary"], &["follow"], &["ls", "--json"]]
    {
        let run = records.audit(words);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
        assert!(is_harmless(&run), "{words:?}: {run:?}");
    }
    assert_eq!(records.audit(&["ls"]).stdout.lines().count(), 1);
    assert_eq!(records.audit(&["show"]).stdout.lines().count(), 3);
}

#[test]
fn session_is_found_by_the_beginning_of_its_name_or_by_its_file() {
    let records = Records::new();
    let (first, second) = (recorded(&records, vec![]), recorded(&records, vec![]));
    let found = |word: &str| records.audit(&["verify", "--json", word]).json()["session"].clone();
    assert_eq!(found(&first), first);
    assert_eq!(found(&first[23..40]), first);
    let file = records.path().join(format!("{second}.jsonl"));
    assert_eq!(found(file.to_str().unwrap()), second);
    assert_eq!(records.audit(&["verify", "--json"]).json()["session"], second);
    for (word, message) in [("zzz", "no session is called"), (&first[..8], "2 sessions begin")] {
        let run = records.audit(&["show", word]);
        assert_eq!(run.code, 125);
        assert!(run.stderr.contains(message), "{run:?}");
    }
    let none = Records::new().audit(&["show"]);
    assert_eq!(none.code, 125);
    assert!(none.stderr.contains("there is no record yet"), "{none:?}");
}

#[test]
fn prune_removes_old_records_and_dry_run_only_lists_them() {
    let records = Records::new();
    for _ in 0..3 {
        recorded(&records, vec![]);
    }
    let nothing = records.audit(&["prune", "--older-than", "1h"]);
    let expected = ("", "nothing to remove: 3 records are kept\n");
    assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), expected);
    let dry = records.audit(&["prune", "--older-than", "0s", "--keep", "1", "--dry-run"]);
    assert_eq!((dry.stdout.lines().count(), records.files().len()), (2, 3), "{dry:?}");
    let pruned = records.audit(&["prune", "--older-than", "0s", "--keep", "1", "--json"]).json();
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 2);
    assert_eq!(records.files().len(), 1);
    assert_eq!(records.audit(&["prune", "--older-than", "soon"]).code, 125);
    assert_eq!(records.audit(&["prune"]).code, 125);
}

#[test]
fn suggestion_for_a_session_is_a_policy_that_allows_what_was_denied() {
    let records = Records::new();
    let session = recorded(&records, vec![egress("api.example.org", Some(403), true)]);
    let place = records.path();
    let words = ["policy", "suggest", "--record", place.to_str().unwrap(), &session];
    let run = finish(std::process::Command::new(binary()).args(words));
    let host = Host::parse("api.example.org").unwrap();
    let before = Policy::parse_str("p", "{}", std::path::Path::new("/")).unwrap();
    assert!(!before.judge_host(&host, 443).allows());
    let after = Policy::parse_str("s", &run.stdout, std::path::Path::new("/")).unwrap();
    assert!(after.judge_host(&host, 443).allows(), "{run:?}");
}

#[test]
fn denial_is_identical_in_event_result_and_suggestion() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let policy = records.scratch().join("policy.yaml");
    std::fs::write(&policy, "command_allowlist: [ls]\n").unwrap();
    let policy = policy.to_str().unwrap();
    let run = records.stockade(&["run", "--json", "--policy", policy, "--", "cat", "/x"]);
    assert_eq!(run.code, 126, "{run:?}");
    let denial = &run.json()["denials"][0];
    assert_eq!(&records.audit(&["show", "--json"]).json()[1]["body"]["denial"], denial);
    let place = records.path();
    let suggest = |from: &[&str]| {
        let mut command = std::process::Command::new(binary());
        command.args(["policy", "suggest", "--record"]).arg(&place).args(from);
        finish(&mut command)
    };
    let by_record = suggest(&[]);
    let result = records.scratch().join("result.json");
    std::fs::write(&result, &run.stdout).unwrap();
    let by_result = suggest(&[result.to_str().unwrap()]);
    assert_eq!(by_record.stdout, by_result.stdout);
    assert!(by_record.stdout.contains(denial["why"].as_str().unwrap()), "{by_record:?}");
    assert!(by_record.stdout.contains("- \"cat\""), "{by_record:?}");
    let told = suggest(&["--json"]).json();
    assert_eq!(&told["command_allowlist"][0]["denial"], denial);
}

#[test]
fn list_has_the_time_the_exit_code_and_a_short_command() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let long = format!("exit 7 # {}", "x".repeat(3000));
    let run = records.stockade(&["run", "--", "sh", "-c", &long]);
    assert_eq!(run.code, 7, "{run:?}");
    let listed = records.audit(&["ls"]).stdout;
    assert!(listed.len() < 200, "{listed}");
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!((words[1].len(), words[2].len(), words[3], words[4]), (10, 8, "exited", "7"));
    assert_eq!(records.audit(&["ls", "--json"]).json()[0]["exit_code"], 7);
}
