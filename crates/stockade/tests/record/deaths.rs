//! `kill -9` of Stockade at many different moments.

use std::time::Duration;

use stockade_record::{Verdict, verify};
use stockade_testing::within;

use crate::support::{Records, walls_can_be_built};

/// The number of moments to try.
const MOMENTS: u64 = 30;

#[test]
fn killed_stockade_leaves_a_record_valid_to_its_last_whole_event() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let (mut begun, mut whole) = (0, 0);
    for moment in 0..MOMENTS {
        let before = records.files();
        let mut child =
            records.command(&["run", "--quiet", "--", "sleep", "0.05"]).spawn().unwrap();
        // From during the start to after the exit.
        std::thread::sleep(Duration::from_micros(moment * 150_000 / MOMENTS));
        child.kill().unwrap();
        child.wait().unwrap();
        let new: Vec<_> =
            records.files().into_iter().filter(|file| !before.contains(file)).collect();
        assert!(new.len() <= 1, "{new:?}");
        for file in new {
            let found = verify(&file).unwrap();
            assert!(found.verdict.holds(), "moment {moment}: {:?}", found.verdict);
            begun += u64::from(found.events > 0);
            whole += u64::from(matches!(found.verdict, Verdict::Complete));
        }
    }
    assert!(begun > 5 && whole < begun, "{begun} streams were begun, {whole} are complete");
    let all = records.audit(&["verify", "--all", "--json"]);
    assert_eq!(all.code, 0, "{all:?}");
    let all = all.json();
    let unfinished = |one: &&serde_json::Value| one["complete"] == false;
    let found = all.as_array().unwrap().iter().filter(unfinished).count();
    assert!(found > 0, "{all}");
}

#[test]
fn running_session_is_distinguished_from_a_killed_one() {
    if !walls_can_be_built() {
        return;
    }
    let records = Records::new();
    let mut child = records.command(&["run", "--", "sleep", "60"]).spawn().unwrap();
    let states = || records.audit(&["ls", "--json"]).json();
    let is_running = || states()[0]["state"] == "running";
    assert!(within(Duration::from_secs(20), is_running), "{}", states());
    assert_eq!(records.audit(&["verify", "--json"]).json()["running"], true);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(states()[0]["state"], "unfinished");
    let verified = records.audit(&["verify"]);
    assert_eq!(verified.code, 0);
    assert!(verified.stdout.contains("unfinished"), "{verified:?}");
}
