use std::path::Path;

use stockade_policy::{Context, Effect, Limit, Policy};
use stockade_provider::{ErrorKind, ProcessEnd, Root, SandboxUsage};
use stockade_record::{Egress, Inspection, Reader, RecordDirectory, Via, verify};

use super::*;
use crate::Passage;
use crate::scripted::{Inside, Scripted};
use crate::{Engine, Streams};

fn recorder(scratch: &Path) -> Arc<Recorder> {
    let place = RecordDirectory::named(&scratch.join("records")).expect("the path has a name");
    Arc::new(Recorder::new(vec![place]).expect("there is randomness"))
}

fn request(policy: &str, recorder: &Arc<Recorder>) -> crate::RunRequest {
    let policy = Policy::parse_str("p", policy, Path::new("/srv")).expect("the policy is one");
    let session = crate::SessionRequest {
        policy: Arc::new(policy),
        provider: None,
        root: Root::Standard,
        user: 7,
        protected: Vec::new(),
        environment: vec![("NAME".to_owned(), "hidden-value".to_owned())],
        credentials: Vec::new(),
        passage: Passage::Allowed,
        tools: stockade_tools::Tools::new(),
        context: Context::default(),
        recorder: Some(Arc::clone(recorder)),
    };
    let program = Program::Command { argv: vec!["prog".to_owned(), "word".to_owned()] };
    crate::RunRequest { session, program, working_directory: None }
}

async fn run(wall: Scripted, request: crate::RunRequest) -> Result<RunReport, RunError> {
    let engine = Engine::new(vec![Arc::new(wall)]);
    engine.run(request, Streams::default(), std::future::pending()).await
}

fn bodies(recorder: &Recorder) -> Vec<Body> {
    let path = recorder.path().expect("a record has a file");
    assert!(verify(&path).expect("it can be read").verdict.is_complete());
    let mut reader = Reader::open(&path).expect("it can be read");
    let mut bodies = Vec::new();
    while let Some(event) = reader.next().expect("it holds") {
        bodies.push(event.body);
    }
    bodies
}

fn kinds(recorder: &Recorder) -> Vec<&'static str> {
    bodies(recorder).iter().map(Body::kind).collect()
}

fn egress() -> Egress {
    Egress {
        execution: None,
        connection: 0,
        via: Via::Connect,
        host: "example.org".to_owned(),
        port: Some(443),
        address: None,
        method: None,
        path: None,
        status: None,
        inspection: Inspection::None,
        sent_bytes: 0,
        received_bytes: 0,
        duration_ms: 0,
        verdict: Effect::Allow,
        rule: String::new(),
        denial: None,
        failure: None,
        secrets: Vec::new(),
    }
}

#[tokio::test]
async fn run_is_recorded_from_start_to_end_without_code_or_values() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let wall = Scripted::running(|_: Inside| async { Ok(ProcessEnd::Exited { code: 3 }) });
    let report = run(wall, request("{}", &recorder)).await.unwrap();
    assert_eq!(report.session.as_ref(), Some(recorder.session()));
    assert_eq!(report.record, recorder.path());
    let told = bodies(&recorder);
    let [
        Body::SessionStarted(started),
        _,
        Body::ExecutionStarted(_),
        Body::ExecutionEnded(ended),
        _,
    ] = told.as_slice()
    else {
        panic!("{told:?}")
    };
    assert_eq!(started.command.argv, ["prog", "word"]);
    assert_eq!((started.user, started.variables.as_slice()), (7, &["NAME".to_owned()][..]));
    assert_eq!((ended.outcome.as_str(), ended.exit_code), ("exited", Some(3)));
    let text = std::fs::read_to_string(recorder.path().unwrap()).unwrap();
    assert!(!text.contains("hidden-value"), "{text}");
}

#[tokio::test]
async fn wall_that_cannot_be_built_is_not_recorded_as_a_start_and_the_next_wall_is() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let first = Scripted::named("first").failing(ErrorKind::Unavailable);
    let engine = Engine::new(vec![Arc::new(first), Arc::new(Scripted::named("second"))]);
    let request = request("{}", &recorder);
    let report = engine.run(request, Streams::default(), std::future::pending()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
    let recorded = bodies(&recorder);
    let [_, _, Body::ExecutionStarted(started), Body::ExecutionEnded(ended), _] =
        recorded.as_slice()
    else {
        panic!("{recorded:?}")
    };
    assert_eq!((started.provider.as_str(), ended.outcome.as_str()), ("second", "exited"));
}

#[tokio::test]
async fn every_event_names_its_execution_or_belongs_to_the_session() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let running = Arc::new(RunningNow::default());
    running.add(0);
    let gate = OfExecution { recorder: Some(Arc::clone(&recorder)), running: Arc::clone(&running) };
    let wall = Scripted::running(move |_: Inside| {
        gate.egress(egress()).expect("the record takes an event");
        async { Ok(ProcessEnd::Exited { code: 0 }) }
    });
    let observed = SandboxUsage { limits_hit: [Limit::Pids].into(), ..SandboxUsage::default() };
    run(wall.observing(observed), request("{}", &recorder)).await.unwrap();
    let whose: Vec<_> =
        bodies(&recorder).iter().map(|body| (body.kind(), body.execution())).collect();
    assert_eq!(
        whose,
        [
            ("session_started", None),
            ("verdict", Some(0)),
            ("execution_started", Some(0)),
            ("egress", Some(0)),
            ("limit_hit", Some(0)),
            ("execution_ended", Some(0)),
            ("session_ended", None),
        ]
    );
}

#[test]
fn event_belongs_to_the_execution_that_the_wall_names_or_the_only_one_or_the_session() {
    let running = RunningNow::default();
    assert_eq!(running.owner(None, None), None);
    running.add(3);
    assert_eq!(running.owner(None, None), Some(3));
    running.started(3, ExecutionId(1));
    running.add(4);
    assert_eq!(running.owner(Some(2), None), Some(4), "its start is not reported yet");
    assert_eq!(running.owner(Some(1), None), Some(3));
    assert_eq!(running.owner(Some(0), None), None, "an earlier one has ended");
    running.started(4, ExecutionId(2));
    assert_eq!(running.owner(None, None), None);
    assert_eq!(running.owner(Some(1), None), Some(3));
    assert_eq!(running.owner(Some(2), None), Some(4));
    assert_eq!(running.owner(Some(7), None), None);
    running.remove(3);
    assert_eq!(running.owner(None, None), Some(4));
    assert_eq!(
        running.owner(Some(1), None),
        None,
        "an event of one that has ended is not another's"
    );
}

#[tokio::test]
async fn session_records_every_program_with_its_verdict_and_its_end() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let wall = Scripted::running(|_: Inside| async { Ok(ProcessEnd::Exited { code: 0 }) });
    let engine = Engine::new(vec![Arc::new(wall)]);
    let crate::RunRequest { session, program, .. } =
        request("command_allowlist: [prog]", &recorder);
    let entry = stockade_provider::EntryProgram::Program("prog".to_owned());
    let session = engine.open(session, entry, std::future::pending()).await.unwrap().unwrap();
    for program in [program, Program::Command { argv: vec!["other".to_owned()] }] {
        let request = crate::ExecutionRequest::new(program);
        session.execute(request, Streams::default(), std::future::pending()).await.unwrap();
    }
    session.end("removed").await.unwrap();
    let whose: Vec<_> =
        bodies(&recorder).iter().map(|body| (body.kind(), body.execution())).collect();
    assert_eq!(
        whose,
        [
            ("session_started", None),
            ("verdict", Some(0)),
            ("execution_started", Some(0)),
            ("execution_ended", Some(0)),
            ("verdict", Some(1)),
            ("session_ended", None),
        ]
    );
}

#[tokio::test]
async fn start_is_recorded_before_the_program_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let path = Arc::clone(&recorder);
    let wall = Scripted::running(move |_: Inside| {
        let text = std::fs::read_to_string(path.path().unwrap()).unwrap();
        let is_recorded = text.contains("execution_started");
        async move { Ok(ProcessEnd::Exited { code: i32::from(!is_recorded) }) }
    });
    let report = run(wall, request("{}", &recorder)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test]
async fn code_is_recorded_only_by_its_digest() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let program = Program::Code {
        language: stockade_provider::Language::Python,
        name: "a.py".to_owned(),
        code: b"secret_code()".to_vec(),
        arguments: vec!["x".to_owned()],
    };
    let request = crate::RunRequest { program, ..request("{}", &recorder) };
    run(Scripted::named("wall"), request).await.unwrap();
    let text = std::fs::read_to_string(recorder.path().unwrap()).unwrap();
    assert!(!text.contains("secret_code"), "{text}");
    let digest = stockade_record::Digest::of(b"secret_code()").to_string();
    assert!(text.contains(&digest) && text.contains("\"bytes\":13"), "{text}");
}

#[tokio::test]
async fn policy_refusal_is_recorded_as_a_verdict_and_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let request = request("command_allowlist: [ls]", &recorder);
    let report = run(Scripted::named("wall"), request).await.unwrap();
    assert_eq!(kinds(&recorder), ["session_started", "verdict", "session_ended"]);
    let Body::Verdict(given) = &bodies(&recorder)[1] else { panic!("it is a verdict") };
    assert_eq!(given.denial.as_ref(), report.denials.first());
    assert_eq!(given.verdict, Effect::Deny);
}

#[tokio::test]
async fn limits_and_denials_of_the_wall_are_recorded_verbatim() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let policy = Policy::parse_str("p", "command_allowlist: [ls]", Path::new("/")).unwrap();
    let verdict = policy.judge_command(&["cat".to_owned()], &Context::default());
    let denial = verdict.denial().unwrap();
    let observed = SandboxUsage {
        limits_hit: [Limit::Pids].into(),
        denials: vec![denial.clone()],
        ..SandboxUsage::default()
    };
    let report = run(Scripted::named("wall").observing(observed), request("{}", &recorder)).await;
    assert_eq!(report.unwrap().denials, std::slice::from_ref(&denial));
    let told = bodies(&recorder);
    assert!(told.contains(&Body::Denial(Denied { execution: Some(0), denial })), "{told:?}");
    let limit = Limit::Pids.spec().key.to_owned();
    assert!(told.contains(&Body::LimitHit(LimitHit { execution: Some(0), limit, ended: false })));
}

#[tokio::test]
async fn alarm_of_a_secret_is_recorded_by_the_gate_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let denial = |control: Control| Denial {
        control: control.as_str().into(),
        rule: "r".to_owned(),
        target: "a.example.org:443".to_owned(),
        why: "w".to_owned(),
        how_to_allow: "h".to_owned(),
    };
    let of_gate = [Control::Secrets, Control::NetworkRequests, Control::NetworkHosts];
    let observed = SandboxUsage {
        denials: of_gate.into_iter().map(denial).collect(),
        ..SandboxUsage::default()
    };
    let report = run(Scripted::named("wall").observing(observed), request("{}", &recorder)).await;
    assert_eq!(report.unwrap().denials.len(), 3, "the report has them");
    assert!(!kinds(&recorder).contains(&"denial"), "{:?}", kinds(&recorder));
}

#[tokio::test]
async fn wall_failure_is_recorded_as_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    assert!(run(Scripted::named("wall"), request("isolation: vm", &recorder)).await.is_err());
    assert_eq!(kinds(&recorder), ["session_started", "verdict", "session_ended"]);
}

#[tokio::test]
async fn nothing_starts_when_the_first_event_cannot_be_written() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("records"), "").unwrap();
    let recorder = recorder(scratch.path());
    let wall = Scripted::running(|_: Inside| async { panic!("the program was started") });
    let error = run(wall, request("{}", &recorder)).await.unwrap_err();
    assert!(matches!(error, RunError::Record(_)), "{error}");
}

#[tokio::test]
async fn program_is_killed_when_the_record_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let recorder = recorder(scratch.path());
    let gate = Arc::clone(&recorder);
    let (killed, mut was_killed) = tokio::sync::watch::channel(false);
    let wall = Scripted::running(move |mut inside: Inside| {
        let (gate, killed) = (Arc::clone(&gate), killed.clone());
        async move {
            gate.egress(egress()).expect("the record takes an event");
            // A record that has its last event accepts no further event.
            gate.end("early").expect("the record ends");
            gate.egress(egress()).expect_err("the record takes nothing more");
            inside.killed.wait_for(|killed| *killed).await.expect("the wall stays");
            killed.send_replace(true);
            Ok(ProcessEnd::Exited { code: 0 })
        }
    });
    let error = run(wall, request("{}", &recorder)).await.unwrap_err();
    assert!(matches!(error, RunError::Record(_)), "{error}");
    was_killed.wait_for(|killed| *killed).await.unwrap();
}
