//! The engine ends and comes back.

use std::process::Stdio;

use libtest_mimic::Trial;
use stockade_testing::{ended, wait_for};

use crate::engine;
use crate::life::running;
use crate::support::{command, containers, docker, run, wait_until_removed};

pub(crate) fn tests() -> Vec<Trial> {
    let restart = || {
        restarted_engine_ends_the_session_and_leaves_nothing();
        Ok(())
    };
    vec![Trial::test("restarted_engine_ends_the_session_and_leaves_nothing", restart)]
}

fn restarted_engine_ends_the_session_and_leaves_nothing() {
    wait_until_removed("stockade.sandbox");
    let mut command = command("runc", &["--json"], &["sleep", "86403"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("stockade starts");
    wait_for("the program runs", || running("86403"));
    engine::stop(&engine::directory());
    let ended = ended(child);
    assert_eq!(ended.json()["outcome"], "engine_lost", "{ended:?}");
    assert_eq!(run("runc", &[], &["true"]).code, 125);
    engine::start(&engine::directory()).expect("the engine starts again");
    assert_eq!(run("runc", &[], &["true"]).code, 0);
    wait_until_removed("stockade.sandbox");
    assert_eq!(containers("stockade.user"), [] as [String; 0]);
    let filter = "label=stockade.sandbox";
    assert_eq!(docker(&["volume", "ls", "--quiet", "--filter", filter]), [] as [String; 0]);
    let networks = docker(&["network", "ls", "--format", "{{.Name}}"]);
    assert!(
        networks.iter().all(|name| ["bridge", "host", "none"].contains(&&**name)),
        "{networks:?}"
    );
    let images = docker(&["images", "--format", "{{.Repository}}"]);
    assert!(
        images.iter().all(|name| ["python", "stockade-trial"].contains(&&**name)),
        "{images:?}"
    );
}
