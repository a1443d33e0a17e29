//! Sessions for tests.

use std::path::{Path, PathBuf};

use stockade_policy::{Denial, Effect};
use stockade_record::{
    Body, CodeDigest, Command, Denied, Egress, ExecutionEnded, ExecutionStarted, Inspection,
    LimitHit, OutputCounts, PolicyDigest, RecordDirectory, Recorder, SessionStarted, ToolCall,
    UsageCounts, VerdictGiven, Via,
};

/// A recorder in a directory of a scratch directory.
pub(crate) fn recorder(scratch: &Path) -> Recorder {
    let place = RecordDirectory::named(&scratch.join("records")).expect("the path has a name");
    Recorder::new(vec![place]).expect("there is randomness")
}

/// The start of a session that runs these words.
pub(crate) fn started(words: &[&str]) -> SessionStarted {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let code = CodeDigest::of("python", "a.py", b"print(1)");
    let policy = PolicyDigest::of("default", "version: 2");
    SessionStarted::new("0.1.0", policy, 1000, Command::of(&words, Some(code)))
}

/// A request to a host.
pub(crate) fn egress(host: &str, status: Option<u16>, verdict: Effect) -> Egress {
    Egress {
        execution: Some(0),
        connection: 1,
        via: Via::Http,
        host: host.to_owned(),
        port: Some(443),
        address: Some([192, 0, 2, 1].into()),
        method: status.map(|_| "GET".to_owned()),
        path: status.map(|_| "/a".to_owned()),
        status,
        inspection: Inspection::Requests,
        sent_bytes: 10,
        received_bytes: 20,
        duration_ms: 3,
        verdict,
        rule: "built in: a rule".to_owned(),
        denial: (verdict == Effect::Deny).then(|| denial(host)),
        failure: None,
        secrets: Vec::new(),
    }
}

/// A tool call.
pub(crate) fn tool_call(tool: &str, outcome: &str) -> ToolCall {
    let verdict = if outcome == "denied" { Effect::Deny } else { Effect::Allow };
    ToolCall {
        execution: Some(0),
        call: 1,
        tool: tool.to_owned(),
        verdict,
        rule: "policy.yaml:1: tool_allowlist".to_owned(),
        denial: (verdict == Effect::Deny).then(|| denial(tool)),
        outcome: outcome.to_owned(),
        duration_ms: 2,
        argument_bytes: 13,
        result_bytes: 20,
        arguments: None,
    }
}

pub(crate) fn denial(target: &str) -> Denial {
    Denial {
        control: "network_hosts".into(),
        rule: "built in: denied by default".to_owned(),
        target: format!("{target}:443"),
        why: format!("network_allowlist does not name {target}"),
        how_to_allow: format!("add `{target}:443` to network_allowlist"),
    }
}

/// One event of each kind between the start and the end, with this text in every text field.
pub(crate) fn bodies(text: &str) -> Vec<Body> {
    let own = || text.to_owned();
    let refusal = Denial {
        control: own().into(),
        rule: own(),
        target: own(),
        why: own(),
        how_to_allow: own(),
    };
    let counts = OutputCounts { kept_bytes: 1, dropped_bytes: u64::MAX };
    vec![
        Body::Verdict(VerdictGiven {
            execution: Some(0),
            verdict: Effect::Audit,
            control: own(),
            rule: own(),
            target: own(),
            why: own(),
            denial: Some(refusal.clone()),
        }),
        Body::ExecutionStarted(ExecutionStarted {
            execution: 0,
            provider: own(),
            isolation: own(),
            command: None,
            variables: vec![own()],
        }),
        Body::Egress(Egress {
            method: Some(own()),
            path: Some(own()),
            rule: own(),
            denial: Some(refusal.clone()),
            failure: Some(own()),
            ..egress(text, Some(200), Effect::Allow)
        }),
        Body::ToolCall(ToolCall {
            rule: own(),
            denial: Some(refusal.clone()),
            arguments: Some(own()),
            ..tool_call(text, text)
        }),
        Body::LimitHit(LimitHit { execution: Some(0), limit: own(), ended: true }),
        Body::Denial(Denied { execution: Some(0), denial: refusal }),
        Body::ExecutionEnded(ExecutionEnded {
            execution: 0,
            outcome: own(),
            exit_code: Some(-1),
            signal: Some(9),
            error: Some(own()),
            duration_ms: 5,
            usage: UsageCounts { cpu_ms: Some(1), memory_peak_bytes: None, tasks_peak: Some(2) },
            stdout: counts,
            stderr: counts,
        }),
    ]
}

/// Records a whole session with one event of each kind.
pub(crate) fn session(scratch: &Path, text: &str) -> PathBuf {
    let recorder = recorder(scratch);
    recorder.begin(started(&["ls", text])).expect("the record begins");
    for body in bodies(text) {
        recorder.record(body).expect("an event is kept");
    }
    recorder.end("exited").expect("the record ends");
    recorder.path().expect("a record has a file")
}
