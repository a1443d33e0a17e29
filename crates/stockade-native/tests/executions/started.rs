//! The settings of one execution.

use std::time::{Duration, Instant};

use stockade_policy::Limit;
use stockade_provider::{
    ErrorKind, Execution, ImageRoot, ProcessEnd, Provider, Root, SandboxRequest, chain,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{
    are_counted, finished, native, request, runtime, sandbox, shell, walls_can_be_built,
};

#[test]
fn execution_starts_in_its_working_directory_and_a_relative_one_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let place = |place: Option<&str>| Execution {
            working_directory: place.map(str::to_owned),
            ..shell("pwd")
        };
        let usual = sandbox.start(place(None)).await.unwrap();
        assert_eq!(finished(usual).await.0, "/workspace\n");
        let other = sandbox.start(place(Some("/tmp"))).await.unwrap();
        assert_eq!(finished(other).await.0, "/tmp\n");
        let error = sandbox.start(place(Some("tmp"))).await.err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"tmp\" is not an absolute path"), "{error}");
        assert!(error.remedy().is_some());
    });
}

#[test]
fn image_is_refused_by_name_with_a_remedy() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let root = Root::Image(ImageRoot::named("docker.io/library/alpine:3"));
        let image = SandboxRequest { root, ..request() };
        let error = native().create(&image).await.err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Unenforceable);
        assert!(chain(&error).contains("an image as root"), "{}", chain(&error));
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("--root")));
    });
}

#[test]
fn execution_is_killed_at_its_timeout_whether_or_not_its_end_is_awaited() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let short = Duration::from_millis(200);
        let limited = |script| Execution { timeout: Some(short), ..shell(script) };
        let in_time = sandbox.start(limited("echo done")).await.unwrap();
        let (text, end) = finished(in_time).await;
        assert_eq!((text.as_str(), end.unwrap()), ("done\n", ProcessEnd::Exited { code: 0 }));
        let began = Instant::now();
        // The output ends with the program, so reading it to its end proves the kill.
        let late = sandbox.start(limited("exec sleep 60")).await.unwrap();
        let (_, end) = finished(late).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(end.unwrap(), ProcessEnd::LimitExceeded { limit: Limit::Timeout });
        // Its sandbox continues.
        let next = sandbox.start(shell("echo next")).await.unwrap();
        assert_eq!(finished(next).await.0, "next\n");
    });
}

#[test]
fn signal_and_kill_end_only_their_own_execution() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let start = || async { sandbox.start(shell("echo up; exec cat")).await.unwrap() };
        let (mut one, mut two, mut three) = (start().await, start().await, start().await);
        assert!(one.id != two.id && two.id != three.id && one.id != three.id);
        for running in [&mut one, &mut two, &mut three] {
            running.stdout.read_exact(&mut [0; 3]).await.unwrap();
        }
        one.control.signal(15).await.unwrap();
        assert_eq!(one.end.await.unwrap(), ProcessEnd::Signaled { signal: 15 });
        two.control.kill().await.unwrap();
        assert_eq!(two.end.await.unwrap(), ProcessEnd::Signaled { signal: 9 });
        three.stdin.shutdown().await.unwrap();
        assert_eq!(finished(three).await.1.unwrap(), ProcessEnd::Exited { code: 0 });
    });
}

#[test]
fn execution_has_its_own_usage_only_if_it_ran_alone_or_a_cgroup_counts_it() {
    if !walls_can_be_built() {
        return;
    }
    runtime().block_on(async {
        let sandbox = sandbox().await;
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let first = sandbox.start(shell(busy)).await.unwrap();
        let control = std::sync::Arc::clone(&first.control);
        assert_eq!(finished(first).await.1.unwrap(), ProcessEnd::Exited { code: 0 });
        let alone = control.observe().await;
        assert_eq!(alone.cpu_time.is_some(), sandbox.observe().await.cpu_time.is_some());
        let second = sandbox.start(shell("true")).await.unwrap();
        assert_ne!(second.id.0, 0);
        finished(second).await.1.unwrap();
        let later = control.observe().await;
        match are_counted(&*sandbox).await {
            true => assert_eq!(later, alone),
            false => assert_eq!(later, Default::default()),
        }
        assert!(sandbox.observe().await.cpu_time >= alone.cpu_time);
    });
}
