//! Everything that goes wrong at the service: a typed error, in bounded time, no sandbox left, and
//! no code that runs twice.

use std::time::{Duration, Instant};

use serde_json::json;
use stockade_aca::{AcaOptions, sweep};
use stockade_azure_double::{Double, Fault, Injection, Operation};
use stockade_provider::{
    ErrorKind, FileErrorKind, FilePart, FilePath, FinalLink, ProcessEnd, chain,
};

use crate::support::{can_run, code, count, create, options, options_from, refusal, run};

fn status(operation: Operation, status: u16, times: usize) -> Injection {
    Injection::of(operation, Fault::Status(status, None), times)
}

/// A double with one fault, and the error of a create call that meets it. Nothing is left.
async fn fails(injection: Injection, expected: &str) -> Double {
    let double = Double::start().expect("the double answers as asked");
    double.inject(injection);
    let began = Instant::now();
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains(expected), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(double.sandboxes(), [""; 0]);
    double
}

/// A double with one fault that a create call survives.
async fn survives(injection: Injection) -> Double {
    let double = Double::start().expect("the double answers as asked");
    double.inject(injection);
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
    sandbox.end().await.expect("the double answers as asked");
    assert_eq!(double.sandboxes(), [""; 0]);
    double
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_replaced_once_and_a_second_refusal_is_an_error() {
    if !can_run() {
        return;
    }
    survives(status(Operation::Create, 401, 1)).await;
    let double = fails(status(Operation::Create, 401, 9), "HTTP status 401").await;
    assert_eq!(count(&double, "PUT", "/sandboxes"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_is_repeated_while_roles_spread_and_then_an_error() {
    if !can_run() {
        return;
    }
    survives(status(Operation::Create, 403, 3)).await;
    let double = fails(status(Operation::Create, 403, 1000), "HTTP status 403").await;
    assert!(count(&double, "PUT", "/sandboxes") > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_group_and_conflict_are_typed_errors() {
    if !can_run() {
        return;
    }
    fails(status(Operation::Create, 404, 1), "there is no such object").await;
    fails(status(Operation::Create, 409, 1), "HTTP status 409").await;
    // A new sandbox that is not visible yet is waited for.
    survives(status(Operation::Get, 404, 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_service_is_asked_again_after_the_time_that_it_names() {
    if !can_run() {
        return;
    }
    let began = Instant::now();
    survives(Injection::of(Operation::Create, Fault::Status(429, Some(1)), 1)).await;
    assert!(began.elapsed() >= Duration::from_secs(1));
    let double = Double::start().expect("the double answers as asked");
    double.inject(Injection::of(Operation::Create, Fault::Status(429, Some(1)), 1000));
    let error = create(&options(&double), "{}").await.err().expect("the double answers as asked");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(double.sandboxes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_errors_are_repeated_where_nothing_is_made() {
    if !can_run() {
        return;
    }
    for code in [500, 503] {
        survives(status(Operation::Get, code, 2)).await;
        survives(status(Operation::FilePut, code, 2)).await;
        fails(status(Operation::Get, code, 100), &format!("HTTP status {code}")).await;
        // Of a create call nobody knows whether it made something: it is not repeated.
        let double = fails(status(Operation::Create, code, 1), &format!("status {code}")).await;
        assert_eq!(count(&double, "PUT", "/sandboxes"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_of_a_create_call_without_an_answer_is_found_by_its_label_and_deleted() {
    if !can_run() {
        return;
    }
    for fault in [Fault::Status(500, None), Fault::HalfClosed, Fault::Malformed] {
        let injection = Injection::of(Operation::Create, fault.clone(), 1).with_effect();
        let double = fails(injection, "create a sandbox").await;
        assert_eq!(double.created(), 1, "{fault:?}");
        let own = double.log();
        let list = own.iter().find(|it| {
            it.method == "GET" && it.path.ends_with("/sandboxes") && {
                it.query.get("labels").is_some_and(|it| it.starts_with("stockade.session="))
            }
        });
        assert!(list.is_some(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_service_ends_in_bounded_time() {
    if !can_run() {
        return;
    }
    let slow = Fault::Slow(Duration::from_secs(60));
    let injection = Injection::of(Operation::Create, slow, 1);
    let double = fails(injection, "no response within 2 s").await;
    assert_eq!(count(&double, "PUT", "/sandboxes"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_and_malformed_responses_are_typed_errors() {
    if !can_run() {
        return;
    }
    fails(Injection::of(Operation::Get, Fault::Malformed, 100), "it is not JSON").await;
    fails(Injection::of(Operation::Get, Fault::HalfClosed, 100), "cannot look at a sandbox").await;
    survives(Injection::of(Operation::Get, Fault::HalfClosed, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_that_never_runs_is_deleted() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    double.looks_until_running(None);
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains("after 2 s its state is Creating"), "{error}");
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
    let double = Double::start().expect("the double answers as asked");
    double.reach("Failed");
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains("its state is Failed"), "{error}");
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn egress_decisions_that_cannot_be_read_end_the_sandbox_with_an_error() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    double.inject(status(Operation::Decisions, 500, 1000));
    let ran = run(sandbox.as_ref(), code("print(1)")).await;
    let error = ran.end.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(chain(&error).contains("read the egress decisions"), "{error}");
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn execution_is_never_sent_twice() {
    if !can_run() {
        return;
    }
    let faults = [
        Fault::Status(401, None),
        Fault::Status(403, None),
        Fault::Status(404, None),
        Fault::Status(409, None),
        Fault::Status(429, Some(0)),
        Fault::Status(500, None),
        Fault::Status(503, Some(0)),
        Fault::HalfClosed,
        Fault::Malformed,
    ];
    for fault in faults {
        for takes_effect in [false, true] {
            let double = Double::start().expect("the double answers as asked");
            let sandbox =
                create(&options(&double), "{}").await.expect("the double answers as asked");
            let id = double.sandboxes().remove(0);
            let before = count(&double, "POST", "/executeShellCommand");
            let injection = Injection::of(Operation::Execute, fault.clone(), 1);
            double.inject(Injection { takes_effect, ..injection });
            let text = "open('/workspace/runs', 'a').write('x')";
            let ran = run(sandbox.as_ref(), code(text)).await;
            assert!(ran.end.is_err(), "{fault:?}: {ran:?}");
            let sent = count(&double, "POST", "/executeShellCommand") - before;
            assert_eq!(sent, 1, "{fault:?}");
            if double.sandboxes().is_empty() {
                continue;
            }
            // Only an answer that says that nothing ran leaves the sandbox.
            let refused = [401, 403, 409, 429].map(|it| Fault::Status(it, None));
            let is_refusal = refused.contains(&fault) || fault == Fault::Status(429, Some(0));
            assert!(is_refusal, "{fault:?}");
            let runs = double.file(&id, "/workspace/runs").map_or(0, |runs| runs.len());
            assert_eq!(runs, usize::from(takes_effect), "{fault:?}");
            drop(sandbox);
            assert!(double.sandboxes().is_empty(), "{fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_deletion_is_repeated_and_a_permanent_failure_is_reported() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    double.inject(status(Operation::Delete, 500, 6));
    sandbox.end().await.expect("the double answers as asked");
    assert_eq!(double.sandboxes(), [""; 0]);
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    double.inject(status(Operation::Delete, 500, 1000));
    let began = Instant::now();
    let error = sandbox.end().await.unwrap_err();
    assert!(error.to_string().starts_with("cannot delete the sandbox sb-"), "{error}");
    assert!(error.remedy().expect("the double answers as asked").contains("portal"), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_deletion_that_does_not_happen_is_reported_and_prune_repeats_it() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let log = double.log();
    let created = log.iter().find(|it| it.method == "PUT" && it.path.ends_with("/sandboxes"));
    let labels = &created.expect("the double answers as asked").body["labels"];
    let owner = labels["stockade.owner"].as_str().expect("the double answers as asked");
    let (_, realm) = owner.rsplit_once('.').expect("the double answers as asked");
    // No process has this start time.
    let dead = format!("1.18446744073709551615.{realm}");
    let labels = json!({"stockade.owner": dead, "stockade.user": "0"});
    let left = double.plant(&labels).expect("the double answers as asked");
    double.inject(status(Operation::Delete, 202, 100_000));
    let began = Instant::now();
    let error = sandbox.end().await.unwrap_err();
    assert!(chain(&error).contains("the sandbox is still there"), "{}", chain(&error));
    assert!(error.remedy().expect("it has one").contains("stockade prune"), "{error:?}");
    let error = sweep(&options(&double)).await.unwrap_err();
    assert!(chain(&error).contains(&format!("cannot delete the sandbox {left}")), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(double.sandboxes().len(), 2);
    double.heal();
    let swept = sweep(&options(&double)).await.expect("the double answers as asked");
    assert_eq!(swept, [left]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_that_goes_on_is_asked_for_once_and_is_no_error() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    double.inject(status(Operation::Delete, 202, 1000));
    double.put_into("Deleting", None);
    let began = Instant::now();
    sandbox.end().await.expect("the double answers as asked");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let log = double.log();
    assert_eq!(log.iter().filter(|it| it.method == "DELETE").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_group_are_repeated_or_typed_errors() {
    if !can_run() {
        return;
    }
    let ensuring = |double: &Double| AcaOptions {
        ensure_group_location: Some("westus2".to_owned()),
        ..options(double)
    };
    for operation in [Operation::GroupGet, Operation::GroupPut] {
        for fault in [Fault::Status(500, None), Fault::HalfClosed] {
            let double = Double::without_group().expect("the double answers as asked");
            double.inject(Injection::of(operation, fault, 2));
            let sandbox = create(&ensuring(&double), "{}").await;
            sandbox.expect("the double answers as asked").end().await.expect("it is deleted");
        }
        for (code, kind) in [(500, ErrorKind::Unavailable), (403, ErrorKind::Unavailable)] {
            let double = Double::without_group().expect("the double answers as asked");
            double.inject(status(operation, code, 100_000));
            let began = Instant::now();
            let error = create(&ensuring(&double), "{}").await.err().expect("it is refused");
            assert_eq!(error.kind(), kind, "{error}");
            let doing = match operation {
                Operation::GroupGet => "look at the sandbox group",
                _ => "create the sandbox group",
            };
            assert!(chain(&error).contains(doing), "{}", chain(&error));
            assert!(chain(&error).contains(&code.to_string()), "{}", chain(&error));
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
            assert_eq!((double.created(), double.has_group()), (0, false));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_that_fails_is_repeated_and_then_a_typed_error() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    double.inject(status(Operation::List, 500, 2));
    assert_eq!(sweep(&options(&double)).await.expect("it is repeated"), [""; 0]);
    for fault in [Fault::Status(500, None), Fault::HalfClosed, Fault::Malformed] {
        double.inject(Injection::of(Operation::List, fault.clone(), 1000));
        let error = sweep(&options(&double)).await.unwrap_err();
        assert!(chain(&error).contains("list sandboxes"), "{fault:?}: {error}");
        double.heal();
    }
    // The sandbox of a create call without an answer is found by a list that works at last.
    double.inject(Injection::of(Operation::Create, Fault::HalfClosed, 1).with_effect());
    double.inject(status(Operation::List, 500, 4));
    refusal(&options(&double), "{}").await;
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_about_files_are_repeated_if_that_is_safe_and_else_typed_errors() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let files = sandbox.files().expect("the double answers as asked");
    let path = |text: &str| FilePath::try_from(text).expect("it is a path");
    run(sandbox.as_ref(), code("open('f', 'w').write('x')")).await.output();
    let (file, whole) = (path("f"), FilePart::default());
    for fault in [Fault::Status(503, None), Fault::HalfClosed] {
        double.inject(Injection::of(Operation::FileGet, fault.clone(), 2));
        assert!(files.read(&file, whole).await.is_ok(), "{fault:?}");
        double.inject(Injection::of(Operation::FileOther, fault.clone(), 2));
        assert!(files.stat(&file, FinalLink::Follow).await.is_ok(), "{fault:?}");
        double.inject(Injection::of(Operation::FileOther, fault.clone(), 2));
        assert!(files.list(&path("."), 1, 10).await.is_ok(), "{fault:?}");
        // Making a directory is not repeated: the first request may have made it.
        let before = count(&double, "POST", "/files/mkdir");
        // The first request looks whether it exists.
        let injection = Injection::of(Operation::FileOther, fault.clone(), 1);
        double.inject(Injection { after: 1, ..injection });
        assert!(files.make_directory(&path("d"), false).await.is_err(), "{fault:?}");
        assert_eq!(count(&double, "POST", "/files/mkdir"), before + 1, "{fault:?}");
    }
    double.inject(status(Operation::FileGet, 500, 1000));
    let error = files.read(&file, whole).await.err().expect("it fails");
    assert_eq!(error.kind, FileErrorKind::Other);
    double.heal();
    double.inject(status(Operation::FileOther, 500, 1000));
    let error = files.remove(&file, false).await.unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Other);
    double.heal();
    files.remove(&file, false).await.expect("nothing fails any more");
    sandbox.end().await.expect("the double answers as asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_that_cannot_be_resumed_runs_nothing() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    let before = count(&double, "POST", "/executeShellCommand");
    for fault in [Fault::Status(500, None), Fault::HalfClosed] {
        double.put_into("Suspended", None);
        double.inject(Injection::of(Operation::Resume, fault.clone(), 1));
        let error = run(sandbox.as_ref(), code("print(1)")).await.end.unwrap_err();
        assert!(chain(&error).contains("resume a sandbox"), "{fault:?}: {}", chain(&error));
        assert_eq!(count(&double, "POST", "/executeShellCommand"), before, "{fault:?}");
    }
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
    sandbox.end().await.expect("the double answers as asked");
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_that_the_service_deleted_is_lost() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "{}").await.expect("the double answers as asked");
    double.put_into("Deleting", None);
    let ran = run(sandbox.as_ref(), code("print(1)")).await;
    assert_eq!(ran.end.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_follows_a_redirection_or_a_link_to_another_host() {
    if !can_run() {
        return;
    }
    // The other host is a double too: what reaches it is in its log.
    let other = Double::start().expect("the double answers as asked");
    let to = format!("{}/stolen", other.endpoint());
    let injection = Injection::of(Operation::Get, Fault::Redirect(to), 100);
    fails(injection, "HTTP status 302").await;
    let double = Double::start().expect("the double answers as asked");
    double.plant(&json!({ "stockade.user": "0" })).expect("the double answers as asked");
    double.plant(&json!({ "stockade.user": "0" })).expect("the double answers as asked");
    double.page(1, &other.endpoint());
    let error = stockade_aca::sweep(&options(&double)).await.unwrap_err();
    assert!(error.to_string().contains("on another host"), "{error}");
    assert_eq!(other.log(), []);
    for entry in double.log() {
        assert_eq!(format!("https://{}", entry.host), double.endpoint());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_an_unknown_authority_is_refused() {
    if !can_run() {
        return;
    }
    let (double, other) = (
        Double::start().expect("the double answers as asked"),
        Double::start().expect("the double answers as asked"),
    );
    let certificates = Some(other.certificates().to_owned());
    let error = refusal(&AcaOptions { certificates, ..options(&double) }, "{}").await;
    assert!(error.contains("cannot connect"), "{error}");
    assert_eq!(double.log(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn runner_that_cannot_hold_the_policy_refuses_the_sandbox() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    // A file that is accepted and not written.
    double.inject(Injection::of(Operation::FilePut, Fault::Status(200, None), 1));
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains("the runner answers with exit code"), "{error}");
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_a_program_is_an_outcome_although_the_service_is_slow() {
    if !can_run() {
        return;
    }
    let double = Double::start().expect("the double answers as asked");
    let sandbox = create(&options(&double), "defaults: {timeout_seconds: 1}")
        .await
        .expect("the double answers as asked");
    double.inject(Injection::of(Operation::Execute, Fault::Slow(Duration::from_secs(2)), 1));
    let ran = run(sandbox.as_ref(), code("while True: pass")).await;
    let limit = stockade_policy::Limit::Timeout;
    assert_eq!(ran.end.expect("the double answers as asked"), ProcessEnd::LimitExceeded { limit });
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_token_service_is_a_typed_error_without_a_secret() {
    if !can_run() {
        return;
    }
    for fault in [Fault::Status(500, None), Fault::Malformed, Fault::HalfClosed] {
        let double = Double::start().expect("the double answers as asked");
        double.inject(Injection::of(Operation::Token, fault.clone(), 100));
        let error = refusal(&options(&double), "{}").await;
        assert!(error.starts_with("cannot authenticate to Azure"), "{fault:?}: {error}");
        assert_eq!(count(&double, "PUT", "/sandboxes"), 0);
    }
    let double = Double::start().expect("the double answers as asked");
    let mut variables = double.variables();
    variables.retain(|(name, _)| name != "AZURE_CLIENT_SECRET");
    variables.push(("AZURE_CLIENT_SECRET".to_owned(), "wrong-but-secret".to_owned()));
    let error = refusal(&options_from(variables), "{}").await;
    assert!(error.contains("HTTP status 401 (invalid_client)"), "{error}");
    assert!(!error.contains("wrong-but-secret"), "{error}");
}
