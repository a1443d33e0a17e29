//! The life of a sandbox: created with its egress policy, used, deleted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stockade_aca::{AcaOptions, AcaProvider, SelfTest, sweep};
use stockade_azure_double::{Double, GROUP};
use stockade_policy::Limit;
use stockade_provider::{ErrorKind, ProcessEnd, Provider, Stdio, TerminalSize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{can_run, code, command, count, create, options, refusal, request, run};

#[tokio::test(flavor = "multi_thread")]
async fn program_runs_on_another_machine_and_the_sandbox_is_deleted() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    let text = "import os, socket, sys\n\
                print(socket.gethostname(), os.getuid(), os.getcwd(), sys.argv[1:])\n\
                print('err', file=sys.stderr)";
    let ran = run(sandbox.as_ref(), code(text)).await;
    assert_eq!(ran.output(), "aca-sandbox 20000 /workspace []\n");
    assert_eq!(ran.stderr, "err\n");
    assert_eq!(double.sandboxes().len(), 1);
    sandbox.end().await.unwrap();
    assert_eq!(double.sandboxes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn create_call_carries_the_egress_policy_and_no_later_call_sets_it() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let policy = "{defaults: {max_cpu: 0.5, max_memory_mb: 1024}, network_allowlist: [packages.example.net]}";
    drop(create(&options(&double), policy).await.unwrap());
    let log = double.log();
    let created = log.iter().find(|it| it.method == "PUT" && it.path.ends_with("/sandboxes"));
    let body = &created.unwrap().body;
    let expected = json!({
        "defaultAction": "Deny",
        "hostRules": [{ "pattern": "packages.example.net", "action": "Allow" }],
        "trafficInspection": "Full",
    });
    assert_eq!(body["egressPolicy"], expected);
    assert_eq!(body["resources"], json!({ "cpu": "500m", "memory": "1024Mi" }));
    assert_eq!(body["lifecycle"]["autoDeletePolicy"]["enabled"], true);
    assert_eq!(count(&double, "POST", "/egresspolicy"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_egress_policy_than_the_asked_one_fails_and_deletes_the_sandbox() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    // The same policy without the double's change is accepted.
    drop(create(&options(&double), "{}").await.unwrap());
    double.hold_egress(json!({ "defaultAction": "Allow", "trafficInspection": "Full" }));
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains("default action is Allow and not Deny"), "{error}");
    assert_eq!((double.created(), double.sandboxes().len()), (2, 0));
    assert_eq!(count(&double, "POST", "/executeShellCommand"), 1, "nothing ran in the second");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_of_the_egress_policy_that_is_read_back_counts() {
    if !can_run() {
        return;
    }
    let policy = "network_allowlist: [packages.example.net]";
    let rule = |pattern: &str, action: &str| json!({ "pattern": pattern, "action": action });
    let asked = rule("packages.example.net", "Allow");
    let held = |rules: Value, inspection: &str| {
        json!({
            "defaultAction": "Deny", "hostRules": rules, "trafficInspection": inspection,
        })
    };
    // What was asked for is accepted when the service holds exactly it.
    let double = Double::start().unwrap();
    double.hold_egress(held(json!([asked]), "Full"));
    drop(create(&options(&double), policy).await.unwrap());
    assert_eq!(count(&double, "POST", "/executeShellCommand"), 1);
    let mut without = held(json!([asked]), "Full");
    without.as_object_mut().unwrap().remove("trafficInspection");
    let mut surprise = held(json!([asked]), "Full");
    surprise["surprise"] = json!(true);
    let mut rules = held(json!([asked]), "Full");
    rules["rules"] = json!([{ "name": "all", "action": { "type": "Allow" } }]);
    for (held, reason) in [
        (held(json!([]), "Full"), "lacks the rule Allow packages.example.net"),
        (
            held(json!([rule("packages.example.net", "Deny")]), "Full"),
            "it has the rule Deny packages",
        ),
        (held(json!([rule("*.example.net", "Allow")]), "Full"), "it has the rule Allow *.example"),
        (held(json!([asked, rule("*", "Allow")]), "Full"), "it has the rule Allow *"),
        (held(json!([asked]), "None"), "traffic inspection is None and not Full"),
        (held(json!([asked]), "Partial"), "traffic inspection is Partial and not Full"),
        (without, "traffic inspection is"),
        (surprise, "surprise"),
        (rules, "it has rules that were not asked for"),
    ] {
        let double = Double::start().unwrap();
        double.hold_egress(held);
        let error = refusal(&options(&double), policy).await;
        assert!(error.contains(reason), "{reason}: {error}");
        assert_eq!((double.created(), double.sandboxes().len()), (1, 0), "{reason}");
        assert_eq!(count(&double, "POST", "/executeShellCommand"), 0, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_travels_as_a_file_and_no_byte_of_it_is_in_the_command() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    let ran = run(sandbox.as_ref(), code("print('$(id) `id` \\'; id #')")).await;
    assert_eq!(ran.output(), "$(id) `id` '; id #\n");
    let words = ["printf", "%s|", "a b", "$(id)", "'; id", "", "\n"];
    let ran = run(sandbox.as_ref(), command(&words)).await;
    assert_eq!(ran.output(), "a b|$(id)|'; id||\n|");
    for entry in double.log().iter().filter(|it| it.path.ends_with("/executeShellCommand")) {
        let text = entry.body["command"].as_str().unwrap();
        let start = "exec python3 -I -S /var/lib/stockade/runner.py ";
        let rest = text.strip_prefix(start).unwrap();
        let (verb, id) = rest.split_once(' ').unwrap();
        assert!(["setup", "run"].contains(&verb), "{text}");
        assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_program_is_killed_inside_and_its_session_goes_on() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "defaults: {timeout_seconds: 1}").await.unwrap();
    let began = Instant::now();
    // A descendant in a session of its own that ignores signals.
    let text = "import os, signal, time\n\
                if os.fork() == 0:\n    os.setsid()\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    \
                while True:\n        open('/workspace/alive', 'w').write(str(time.time()))\n        \
                time.sleep(0.01)\n\
                while True: pass";
    let ran = run(sandbox.as_ref(), code(text)).await;
    let end = ran.end.unwrap();
    assert_eq!(end, ProcessEnd::LimitExceeded { limit: Limit::Timeout });
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The double kills nothing by itself: the runner did.
    let id = &double.sandboxes()[0];
    let alive = double.file(id, "/workspace/alive").unwrap();
    let ran = run(sandbox.as_ref(), code("import time; time.sleep(0.1); print('on')")).await;
    assert_eq!(ran.output(), "on\n");
    assert_eq!(double.file(id, "/workspace/alive").unwrap(), alive);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_the_limit_is_counted_and_dropped() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "limits: {max_output_bytes: 1000}").await.unwrap();
    let ran = run(sandbox.as_ref(), code("print('x' * 4999)")).await;
    let output = ran.output();
    assert_eq!(output.len(), 5000, "the engine counts every byte");
    assert!(output.starts_with(&"x".repeat(1000)) && output[1000..].bytes().all(|byte| byte == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_processes_files_and_system_calls_hold_inside() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let policy = "limits: {max_pids: 20, max_open_files: 40, max_disk_mb: 8}";
    let sandbox = create(&options(&double), policy).await.unwrap();
    let text = "import os, resource, ctypes, errno\n\
                print(resource.getrlimit(resource.RLIMIT_NPROC), resource.getrlimit(resource.RLIMIT_NOFILE))\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                print(libc.syscall(165, 0, 0, 0, 0, 0), errno.errorcode[ctypes.get_errno()])\n\
                print(open('/proc/self/status').read().split('Seccomp:')[1].split()[0], os.getgroups())\n\
                count = 0\n\
                try:\n    \
                while count < 100:\n        \
                if os.fork() == 0: os.execv('/bin/sleep', ['sleep', '5'])\n        count += 1\n\
                except BlockingIOError: print('stopped', 10 < count < 20)";
    let ran = run(sandbox.as_ref(), code(text)).await;
    let expected = "(20, 20) (40, 40)\n-1 EPERM\n2 []\nstopped True\n";
    assert_eq!(ran.output(), expected, "{}", ran.stderr);
    let text = "import time\nopen('/tmp/big', 'wb').write(bytes(64 << 20))\ntime.sleep(30)";
    let ran = run(sandbox.as_ref(), code(text)).await;
    assert_eq!(ran.end.unwrap(), ProcessEnd::LimitExceeded { limit: Limit::Disk });
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_programs_are_told_apart() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    let of = async |execution| run(sandbox.as_ref(), execution).await.end.unwrap();
    assert_eq!(of(code("raise SystemExit(137)")).await, ProcessEnd::Exited { code: 137 });
    let killed = of(code("import os; os.kill(os.getpid(), 9)")).await;
    assert_eq!(killed, ProcessEnd::Signaled { signal: 9 });
    let missing = of(command(&["no-such-program"])).await;
    let program = "no-such-program".to_owned();
    assert_eq!(missing, ProcessEnd::NotStarted { errno: 2, program, refused_call: None });
}

#[tokio::test(flavor = "multi_thread")]
async fn input_reaches_the_program_while_it_runs() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    let text = "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)";
    let mut running = sandbox.start(code(text)).await.unwrap();
    running.stdin.write_all(b"one\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    running.stdin.write_all("two\n".repeat(3).as_bytes()).await.unwrap();
    running.stdin.shutdown().await.unwrap();
    let mut output = String::new();
    assert_eq!(running.end.await.unwrap(), ProcessEnd::Exited { code: 0 });
    running.stdout.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "got one\ngot two\ngot two\ngot two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn egress_decisions_of_the_service_are_reported_once() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox =
        create(&options(&double), "network_allowlist: [packages.example.net]").await.unwrap();
    let text = "from urllib.request import urlopen\n\
                print(urlopen('https://packages.example.net/simple/?token=1', timeout=10).status)\n\
                try: urlopen('https://evil.example/')\n\
                except Exception as error: print(error)";
    let ran = run(sandbox.as_ref(), code(text)).await;
    assert!(ran.output().starts_with("200\n") && ran.stdout.contains("403"), "{ran:?}");
    let decided = sandbox.decided().await;
    let seen: Vec<_> = decided
        .iter()
        .map(|it| (it.host.as_str(), it.path.as_deref(), it.method.as_deref(), it.allowed))
        .collect();
    assert_eq!(
        seen,
        [
            ("packages.example.net", Some("/simple/"), Some("GET"), true),
            ("evil.example", Some(""), Some("CONNECT"), false),
        ]
    );
    assert_eq!(sandbox.decided().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_sandbox_is_deleted_before_the_drop_returns() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    assert_eq!(double.sandboxes().len(), 1);
    drop(sandbox);
    assert_eq!(double.sandboxes().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_group_is_created_only_if_a_location_is_named() {
    if !can_run() {
        return;
    }
    let double = Double::without_group().unwrap();
    let error = refusal(&options(&double), "{}").await;
    assert!(error.contains("there is no such object"), "{error}");
    assert!(!double.has_group());
    let ensure_group_location = Some("westus2".to_owned());
    let ensuring = AcaOptions { ensure_group_location, ..options(&double) };
    drop(create(&ensuring, "{}").await.unwrap());
    assert!(double.has_group());
    let puts = || count(&double, "PUT", &format!("/providers/Microsoft.App/sandboxGroups/{GROUP}"));
    assert_eq!(puts(), 1);
    drop(create(&ensuring, "{}").await.unwrap());
    assert_eq!(puts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_sandbox_is_resumed_and_its_egress_policy_is_compared_again() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    double.put_into("Suspended", Some("Idle"));
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
    double.put_into("Stopped", Some("Disabled"));
    let refused = run(sandbox.as_ref(), code("print(2)")).await.end.unwrap_err();
    assert!(refused.to_string().contains("an administrator disabled it"), "{refused}");
    double.put_into("Idle", None);
    double.hold_egress_after_resume(json!({ "defaultAction": "Allow" }));
    let refused = run(sandbox.as_ref(), code("print(3)")).await.end.unwrap_err();
    assert!(refused.to_string().contains("another egress policy"), "{refused}");
    // The programs of the two refused starts never ran.
    assert_eq!(count(&double, "POST", "/executeShellCommand"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_deletes_what_a_dead_owner_left_and_nothing_else() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    // The double needs root.
    let user = "0";
    let own = create(&options(&double), "{}").await.unwrap();
    let log = double.log();
    let labels = log
        .iter()
        .find(|it| it.method == "PUT" && it.path.ends_with("/sandboxes"))
        .unwrap()
        .body["labels"]
        .clone();
    let owner = labels["stockade.owner"].as_str().unwrap();
    let realm = owner.rsplit('.').next().unwrap();
    // No process has this start time.
    let dead = format!("1.18446744073709551615.{realm}");
    let left = double.plant(&json!({"stockade.owner": dead, "stockade.user": user})).unwrap();
    let foreign = double.plant(&json!({"stockade.owner": dead, "stockade.user": "4294967294"}));
    let other = double.plant(&json!({"agent_id": "someone"})).unwrap();
    double.page(1, "");
    assert_eq!(sweep(&options(&double)).await.unwrap(), [left.as_str()]);
    let rest = double.sandboxes();
    assert!(
        rest.len() == 3 && rest.contains(&foreign.unwrap()) && rest.contains(&other),
        "{rest:?}"
    );
    drop(own);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_wall_cannot_hold_is_refused_before_the_first_request() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    for (policy, reason) in [
        ("filesystem: {read: [/usr/share]}", "no files of this host"),
        ("network_allowlist: ['example.org:8443']", "no ports"),
        ("network_allowlist: ['203.0.113.7']", "match names"),
    ] {
        let error = refusal(&options(&double), policy).await;
        assert!(error.contains(reason), "{error}");
    }
    assert_eq!(double.log(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_program_terminal_and_unknown_signal_are_refused_by_name() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let sandbox = create(&options(&double), "{}").await.unwrap();
    let stdio = Stdio::Terminal(TerminalSize { columns: 80, rows: 24 });
    let terminal = stockade_provider::Execution { stdio, ..code("1") };
    let refused = sandbox.start(terminal).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unenforceable);
    let running = sandbox.start(code("import time; time.sleep(60)")).await.unwrap();
    drop(running.stdin);
    let busy = sandbox.start(code("print(1)")).await.err().unwrap();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(running.control.signal(34).await.is_err());
    running.control.kill().await.unwrap();
    assert_eq!(running.end.await.unwrap(), ProcessEnd::Signaled { signal: 9 });
    assert_eq!(run(sandbox.as_ref(), code("print(1)")).await.output(), "1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn self_test_creates_executes_and_deletes() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    let test = SelfTest::run(&options(&double)).await;
    assert!(test.passed && test.steps.len() == 3, "{test:?}");
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
    double.reach("Failed");
    let test = SelfTest::run(&options(&double)).await;
    assert!(!test.passed && test.steps[0].error.is_some(), "{test:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn start_that_is_abandoned_leaves_no_sandbox() {
    if !can_run() {
        return;
    }
    let double = Double::start().unwrap();
    double.looks_until_running(None);
    let provider = AcaProvider::new(options(&double));
    let wanted = request("{}");
    let creating = provider.create(&wanted);
    let waited = tokio::time::timeout(Duration::from_millis(700), creating).await;
    assert!(waited.is_err());
    assert_eq!((double.created(), double.sandboxes().len()), (1, 0));
}
