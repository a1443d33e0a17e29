//! A part of a session is killed in the middle of an execution: the caller gets a typed answer, and
//! nothing is left.

use std::fs;

use crate::support::{
    Sessions, ended, is_alive, kill, wait_for, wait_for_end, wait_for_no_process,
};

/// A program that runs until it is killed, with a descendant in another session.
fn script(mark: &str) -> String {
    format!("(setsid sh -c 'sleep 600; : {mark}' &); echo started; sleep 600; : {mark}")
}

/// The processes below a process, deepest last.
fn below(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children: String =
        tasks.flat_map(|task| fs::read_to_string(task.path().join("children"))).collect();
    let children: Vec<u32> = children.split_whitespace().flat_map(str::parse).collect();
    children.iter().copied().chain(children.iter().flat_map(|child| below(*child))).collect()
}

#[test]
fn killed_supervisor_is_reported_as_lost_and_leaves_nothing() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let supervisor = sessions.supervisor("one");
    let script = script("killed-supervisor");
    let program = sessions.start(&["--json", "exec", "one", "--", "sh", "-c", &script]);
    sessions.wait_for_programs("one", 1);
    kill(supervisor);
    let run = ended(program);
    assert_eq!((run.code, run.json()["outcome"].as_str()), (125, Some("engine_lost")));
    wait_for_no_process("killed-supervisor");
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    assert_eq!(fs::read_dir(sessions.state().join("sessions")).unwrap().count(), 0);
    sessions.create("one");
}

#[test]
fn killed_client_cancels_its_program_and_a_detached_one_continues() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    sessions.text(&["exec", "-d", "one", "--", "sleep", "600"]);
    let script = script("killed-client");
    let program = sessions.start(&["exec", "one", "--", "sh", "-c", &script]);
    sessions.wait_for_programs("one", 2);
    kill(program.id());
    ended(program);
    sessions.wait_for_programs("one", 1);
    wait_for_no_process("killed-client");
    let all = sessions.json(&["ps", "-a", "one"]);
    assert_eq!(all[1]["state"], "cancelled", "{all}");
    assert_eq!(all[0]["state"], "running", "{all}");
}

#[test]
fn interrupted_client_reports_the_cancellation() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = "trap '' INT TERM; echo started; sleep 600";
    let program = sessions.start(&["--json", "exec", "one", "--", "sh", "-c", script]);
    sessions.wait_for_programs("one", 1);
    let pid = i32::try_from(program.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let run = ended(program);
    assert_eq!((run.code, run.json()["outcome"].as_str()), (130, Some("cancelled")));
    sessions.wait_for_programs("one", 0);
}

#[test]
fn program_that_is_cancelled_shortly_before_its_timeout_ends_alone() {
    let Some(sessions) = Sessions::new() else { return };
    let text = "defaults: { timeout_seconds: 5 }\nlimits: { cancel_grace_seconds: 60 }\n";
    let policy = sessions.place.file("policy.yaml", text);
    sessions.text(&["create", "--name", "one", "--policy", &policy]);
    let script = "trap 'echo heard' INT TERM; echo started; while :; do sleep 0.1; done";
    let program = sessions.start(&["--json", "exec", "one", "--", "sh", "-c", script]);
    sessions.wait_for_programs("one", 1);
    let pid = i32::try_from(program.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let run = ended(program);
    assert_eq!((run.code, run.json()["outcome"].as_str()), (130, Some("cancelled")));
    // Its timeout ends the grace before the launcher's own clock ends the sandbox.
    sessions.wait_for_programs("one", 0);
    assert_eq!(sessions.text(&["exec", "one", "--", "echo", "alive"]), "alive\n");
}

#[test]
fn killed_processes_of_the_sandbox_end_the_session_with_a_typed_answer() {
    let Some(sessions) = Sessions::new() else { return };
    // The launcher, which is the parent of the first process, and the first process itself.
    for depth in [0, 1] {
        sessions.create("one");
        let supervisor = sessions.supervisor("one");
        let script = script("killed-guest");
        let program = sessions.start(&["--json", "exec", "one", "--", "sh", "-c", &script]);
        sessions.wait_for_programs("one", 1);
        let victim =
            wait_for("the sandbox has processes", || below(supervisor).get(depth).copied());
        kill(victim);
        let run = ended(program);
        let outcome = run.json()["outcome"].clone();
        assert_eq!((run.code, outcome.as_str()), (125, Some("engine_lost")), "{depth}");
        wait_for_end(supervisor);
        wait_for_no_process("killed-guest");
        assert_eq!(sessions.text(&["ls", "-q"]), "");
    }
}

#[test]
fn removed_session_cancels_its_programs() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let script = script("removed-session");
    let program = sessions.start(&["--json", "exec", "one", "--", "sh", "-c", &script]);
    sessions.wait_for_programs("one", 1);
    sessions.text(&["rm", "-f", "one"]);
    let run = ended(program);
    assert_eq!((run.code, run.json()["outcome"].as_str()), (130, Some("cancelled")));
    wait_for_no_process("removed-session");
}

/// The supervisors of these sessions, which no list needs to know.
fn supervisors(sessions: &Sessions) -> Vec<u32> {
    let own = format!("STOCKADE_STATE={}", sessions.state().display());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &u32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has = |bytes: Vec<u8>, word: &str| {
            bytes.split(|byte| *byte == 0).any(|it| it == word.as_bytes())
        };
        has(read("cmdline"), "__supervise") && has(read("environ"), &own)
    };
    pids.filter(is_ours).collect()
}

#[test]
fn killed_create_ends_a_session_that_is_still_being_created() {
    let Some(sessions) = Sessions::new() else { return };
    // A tool server that never answers: the session waits for it, up to a minute.
    let tools = "mcp_servers: [{name: mute, command: [sleep, '600'], tools: [any]}]";
    let tools = sessions.place.file("tools.yaml", tools);
    let create = sessions.start(&["create", "--name", "one", "--tools", &tools]);
    let named = sessions.state().join("sessions/one/session");
    wait_for("the session has a name", || named.exists().then_some(()));
    let supervisor = wait_for("it has a supervisor", || supervisors(&sessions).first().copied());
    let tool = wait_for("its tool server runs", || below(supervisor).first().copied());
    kill(create.id());
    assert_eq!(ended(create).stdout, "", "no name was printed");
    let deadline = std::time::Duration::from_secs(20);
    assert!(stockade_testing::within(deadline, || !is_alive(supervisor)), "it waits on");
    wait_for_end(tool);
    assert_eq!(fs::read_dir(sessions.state().join("sessions")).unwrap().count(), 0);
    assert_eq!(sessions.text(&["ls", "-q"]), "");
}

#[test]
fn killed_create_leaves_no_session() {
    let Some(sessions) = Sessions::new() else { return };
    let mut gone = 0;
    for round in 0..10 {
        let create = sessions.start(&["create", "--name", "one"]);
        // Each round kills it a little later; a late kill may find a usable session.
        std::thread::park_timeout(std::time::Duration::from_millis(3 * round));
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(i32::try_from(create.id()).unwrap()).unwrap(),
            rustix::process::Signal::KILL,
        );
        ended(create);
        let listed = wait_for("the session is gone or usable", || {
            let listed = sessions.json(&["ls"]);
            let all = listed.as_array().unwrap();
            let is_gone = all.is_empty() && supervisors(&sessions).is_empty();
            let is_usable = all.iter().any(|session| session["state"] == "running");
            (is_gone || is_usable).then_some(all.len())
        });
        match listed {
            0 => gone += 1,
            _ => {
                assert_eq!(sessions.sh("one", "echo usable").text(), "usable\n");
                sessions.text(&["rm", "-f", "one"]);
                wait_for("its supervisor ends", || supervisors(&sessions).is_empty().then_some(()));
            }
        }
    }
    assert!(gone > 0, "every kill came too late");
    assert_eq!(fs::read_dir(sessions.state().join("sessions")).unwrap().count(), 0);
}

#[test]
fn stopped_supervisor_is_listed_and_removed_by_force() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("one");
    let supervisor = sessions.supervisor("one");
    let pid = i32::try_from(supervisor).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    assert_eq!(sessions.json(&["ls"])[0]["state"], "unanswered");
    assert_eq!(sessions.text(&["rm", "-f", "one"]), "one\n");
    assert_eq!(sessions.text(&["ls", "-q"]), "");
    assert!(!is_alive(supervisor));
}
