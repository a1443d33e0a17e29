//! Concurrent sessions, and reading them.

use std::path::Path;
use std::sync::Arc;

use stockade_policy::Effect;
use stockade_record::{
    Body, Egress, Pruned, Reader, RecordDirectory, Sink, Summary, Time, ToolCall, Via, glance,
    list, prune, verify,
};

use crate::support::{egress, recorder, session, started, tool_call};

fn place(scratch: &Path) -> RecordDirectory {
    RecordDirectory::named(&scratch.join("records")).expect("the path has a name")
}

#[test]
fn many_threads_of_many_sessions_each_write_a_valid_chain() {
    let scratch = tempfile::tempdir().unwrap();
    let recorders: Vec<Arc<_>> = (0..8).map(|_| Arc::new(recorder(scratch.path()))).collect();
    std::thread::scope(|scope| {
        for recorder in &recorders {
            scope.spawn(move || {
                recorder.begin(started(&["ls"])).unwrap();
                std::thread::scope(|scope| {
                    for thread in 0..4 {
                        scope.spawn(move || {
                            for _ in 0..25 {
                                let host = format!("h{thread}.example.org");
                                recorder.egress(egress(&host, None, Effect::Allow)).unwrap();
                            }
                        });
                    }
                });
                recorder.end("exited").unwrap();
            });
        }
    });
    let listed = list(&place(scratch.path())).unwrap();
    assert_eq!(listed.len(), 8);
    for record in &listed {
        let found = verify(&record.path).unwrap();
        assert!(found.verdict.is_complete(), "{:?}", found.verdict);
        assert_eq!((found.events, found.session.as_ref()), (102, Some(&record.session)));
    }
}

#[test]
fn reader_sees_each_event_as_soon_as_it_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    let mut reader = Reader::open(&recorder.path().unwrap()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().body.kind(), "session_started");
    for _ in 0..3 {
        assert_eq!(reader.next().unwrap(), None);
        assert!(reader.is_live() && !reader.is_complete());
        recorder.egress(egress("example.org", None, Effect::Allow)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().body.kind(), "egress");
    }
    recorder.end("exited").unwrap();
    assert_eq!(reader.next().unwrap().unwrap().body.kind(), "session_ended");
    assert!(reader.is_complete());
    drop(recorder);
    assert!(!reader.is_live());
}

#[test]
fn first_and_last_event_are_read_without_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let path = session(scratch.path(), "x");
    let seen = glance(&path).unwrap();
    assert_eq!(seen.first.unwrap().body.kind(), "session_started");
    assert_eq!(seen.last.unwrap().body.kind(), "session_ended");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(glance(&path).unwrap().last.unwrap().body.kind(), "execution_ended");
}

#[test]
fn summary_counts_requests_by_host_method_status_and_verdict() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    let dns = |verdict| Egress { via: Via::Dns, ..egress("dns.example.org", None, verdict) };
    for event in [
        egress("a.example.org", Some(200), Effect::Allow),
        egress("a.example.org", Some(404), Effect::Allow),
        egress("b.example.org", None, Effect::Allow),
        egress("c.example.org", Some(403), Effect::Deny),
        // An answered query is followed by a connection, and only the connection counts.
        dns(Effect::Allow),
        dns(Effect::Deny),
    ] {
        recorder.egress(event).unwrap();
    }
    for number in 0..12 {
        let event = egress(&format!("n{number}.example.org"), Some(200), Effect::Audit);
        recorder.egress(event).unwrap();
    }
    recorder.end("exited").unwrap();
    let mut summary = Summary::default();
    let mut reader = Reader::open(&recorder.path().unwrap()).unwrap();
    while let Some(event) = reader.next().unwrap() {
        summary.add(&event);
    }
    assert_eq!((summary.requests, summary.sent_bytes, summary.received_bytes), (17, 170, 340));
    assert_eq!(summary.by_host["a.example.org"], 2);
    assert_eq!(summary.by_host.len(), 16);
    let method = &summary.by_method;
    assert_eq!((method["GET"], method["unknown"]), (15, 2));
    let status = &summary.by_status;
    assert_eq!((status["200"], status["404"], status["403"], status["unknown"]), (13, 1, 1, 2));
    let verdict = &summary.by_verdict;
    assert_eq!((verdict["allow"], verdict["audit"], verdict["deny"]), (3, 12, 2));
    assert_eq!(summary.latest.len(), 10);
    assert_eq!(summary.latest[0].host, "n11.example.org");
    assert_eq!(summary.latest[9].host, "n2.example.org");
}

#[test]
fn summary_counts_tool_calls_by_tool_and_outcome() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    for (tool, outcome) in [
        ("search", ToolCall::ANSWERED),
        ("search", ToolCall::ANSWERED),
        ("search", "timed_out"),
        ("send", "denied"),
    ] {
        recorder.tool_call(tool_call(tool, outcome)).unwrap();
    }
    recorder.end("exited").unwrap();
    let mut summary = Summary::default();
    let mut reader = Reader::open(&recorder.path().unwrap()).unwrap();
    while let Some(event) = reader.next().unwrap() {
        summary.add(&event);
    }
    assert_eq!((summary.tool_calls, summary.requests), (4, 0));
    let search = &summary.by_tool["search"];
    assert_eq!((search["answered"], search["timed_out"], search.len()), (2, 1, 2));
    assert_eq!(summary.by_tool["send"]["denied"], 1);
}

#[test]
fn recorded_texts_of_a_tool_call_are_bounded() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    recorder.begin(started(&["ls"])).unwrap();
    let long = ToolCall {
        arguments: Some(format!("{{\"text\":\"{}\"}}", "\u{1f600}".repeat(1 << 20))),
        argument_bytes: 4 << 20,
        ..tool_call(&"ä".repeat(100_000), "denied")
    };
    recorder.tool_call(long.clone()).unwrap();
    recorder.end("exited").unwrap();
    let path = recorder.path().unwrap();
    assert!(verify(&path).unwrap().verdict.is_complete());
    let mut reader = Reader::open(&path).unwrap();
    reader.next().unwrap();
    let Body::ToolCall(read) = reader.next().unwrap().unwrap().body else { panic!("no call") };
    assert!(read.tool.starts_with("ää") && read.tool.ends_with('…'), "{}", read.tool);
    assert!(read.tool.len() <= ToolCall::MAX_TOOL_BYTES);
    let arguments = read.arguments.unwrap();
    assert!(arguments.starts_with("{\"text\":\"\u{1f600}") && arguments.ends_with('…'));
    assert!(arguments.len() <= ToolCall::MAX_ARGUMENT_BYTES);
    assert_eq!(read.argument_bytes, 4 << 20, "the size is that of what came");
    let short = tool_call("search", ToolCall::ANSWERED);
    assert_eq!(short.clone().bounded(), short);
}

#[test]
fn old_records_are_removed_and_the_newest_and_running_ones_stay() {
    let scratch = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        session(scratch.path(), "x");
    }
    let running = recorder(scratch.path());
    running.begin(started(&["sleep"])).unwrap();
    let all = list(&place(scratch.path())).unwrap();
    assert_eq!(all.len(), 4);
    let past =
        Time::from_unix_microseconds(Time::now().unix_microseconds() - 3_600_000_000).unwrap();
    assert!(Pruned { before: past, keep: 0 }.of(&all).is_empty());
    let now = Time::now();
    let names = |keep: usize| -> Vec<_> {
        Pruned { before: now, keep }.of(&all).into_iter().map(|record| &record.session).collect()
    };
    assert_eq!(names(0), [&all[0].session, &all[1].session, &all[2].session]);
    assert_eq!(names(2), [&all[0].session, &all[1].session]);
    for record in (Pruned { before: now, keep: 0 }).of(&all) {
        prune(record).unwrap();
    }
    let left = list(&place(scratch.path())).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].session, *running.session());
}

#[test]
fn nothing_is_recorded_before_the_start_or_after_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let early = recorder(scratch.path());
    assert!(early.egress(egress("example.org", None, Effect::Allow)).is_err());
    assert!(early.begin(started(&["ls"])).is_err());
    let late = recorder(scratch.path());
    late.begin(started(&["ls"])).unwrap();
    late.end("exited").unwrap();
    let path = late.path().unwrap();
    assert!(late.record(Body::Egress(egress("example.org", None, Effect::Allow))).is_err());
    assert!(late.failure().is_some(), "an event that comes too late is not lost in silence");
    assert_eq!(late.path().as_ref(), Some(&path));
    let found = verify(&path).unwrap();
    assert!(found.verdict.is_complete());
    assert_eq!(found.events, 2);
}
