//! The conformance suite from npm. It speaks HTTP only, so a bridge of the tests is in front of the
//! server; `expected_failures.json` has each check that fails, with the reason.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::libraries::{node, packages};
use crate::support::{Conversation, Place, binary, finish};

const BRIDGE: &str = include_str!("programs/bridge.py");
const EXPECTED: &str = include_str!("expected_failures.json");

/// The checks of a run with a status, as `scenario/check`.
fn checks(results: &Path, status: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(results).expect("there are results").flatten() {
        let name = entry.file_name().into_string().expect("a text");
        // server-SCENARIO-TIME.
        let scenario = name.strip_prefix("server-").expect("a scenario of servers");
        let scenario = &scenario[..scenario.len() - "-2026-11-18T20-28-44-657Z".len()];
        let text = std::fs::read(entry.path().join("checks.json")).expect("it has checks");
        let checks: Vec<Value> = serde_json::from_slice(&text).expect("they are JSON");
        let with = checks.iter().filter(|check| check["status"] == status);
        found.extend(
            with.map(|check| format!("{scenario}/{}", check["id"].as_str().expect("a text"))),
        );
    }
    found
}

/// The expected failures of a revision, as `scenario/check`. Each group has its reason.
fn expected(revision: &str) -> BTreeSet<String> {
    let all: Value = serde_json::from_str(EXPECTED).expect("it is JSON");
    let mut found = BTreeSet::new();
    for group in all[revision].as_array().expect("the revision has groups") {
        assert!(group["why"].as_str().is_some_and(|why| why.len() > 40), "{group}");
        for (scenario, checks) in group["checks"].as_object().expect("a group has checks") {
            let ids = checks.as_array().expect("a list").iter();
            found.extend(ids.map(|id| format!("{scenario}/{}", id.as_str().expect("a text"))));
        }
    }
    found
}

#[test]
fn protocol_scenarios_of_the_conformance_suite_pass_but_for_explained_ones() {
    let Some(place) = Place::new() else { return };
    let Some(packages) = packages() else { return };
    let mut bridge = Command::new("python3");
    bridge.arg(place.scratch.file("bridge.py", BRIDGE)).arg(binary()).arg("mcp");
    place.prepare(&mut bridge);
    let mut bridge = Conversation::start(bridge);
    let url = format!("http://127.0.0.1:{}/mcp", bridge.hear());
    for (revision, passing) in [
        (
            "2025-11-25",
            &["server-initialize", "ping", "tools-list", "server-session-lifecycle"][..],
        ),
        (
            "2026-07-28",
            &[
                "server-stateless",
                "tools-list",
                "caching",
                "input-required-result-unsupported-methods",
            ],
        ),
    ] {
        let results = place.scratch.path().join(revision);
        let mut suite = node(packages);
        suite.arg(packages.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        suite.args(["server", "--url", &url, "--requirements", revision, "-o"]).arg(&results);
        // Its exit code counts the expected failures too.
        let run = finish(suite.current_dir(place.scratch.path()));
        let (passed, failed) = (checks(&results, "SUCCESS"), checks(&results, "FAILURE"));
        let expected = expected(revision);
        let new: Vec<&String> = failed.difference(&expected).collect();
        assert!(new.is_empty(), "{revision} fails: {new:#?}\n{}", run.stdout);
        // A check that passes in some runs is listed if it fails in one of them.
        let repaired: Vec<&String> = expected.difference(&failed).collect();
        assert!(repaired.is_empty(), "{revision} passes, and must not be listed: {repaired:#?}");
        for scenario in passing {
            let prefix = format!("{scenario}/");
            assert!(
                passed.iter().any(|check| check.starts_with(&prefix)),
                "{scenario} did not run"
            );
        }
    }
    assert_eq!(bridge.end(), 0);
}
