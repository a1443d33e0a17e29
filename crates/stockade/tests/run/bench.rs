//! `stockade bench`.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::{Run, alone, binary, finish, skipped, walls_can_be_built};
use stockade_testing::Scratch;

fn bench(words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.arg("bench").args(words);
    finish(command)
}

#[test]
fn row_is_measured_twice_with_every_sample_kept() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "destroy,python-cli", "--rounds", "3"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = run.json();
    assert_eq!((&report["rounds"], &report["not_measured"]), (&json!(3), &json!([])), "{report}");
    let rows = report["rows"].as_array().expect("rows are a list");
    let names: Vec<_> = rows.iter().map(|row| row["row"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["python-cli", "destroy"]);
    for row in rows {
        let passes = row["passes"].as_array().expect("passes are a list");
        assert_eq!(
            passes.iter().map(|pass| &pass["apart_ms"]).collect::<Vec<_>>(),
            [&json!(0), &json!(300)]
        );
        for side in passes.iter().flat_map(|pass| pass["sides"].as_array().into_iter().flatten()) {
            let samples = side["samples"].as_array().expect("samples are a list");
            assert_eq!(samples.len(), 3, "{side}");
            assert!(samples.iter().all(|one| one.as_f64().is_some_and(|one| one > 0.0)), "{side}");
            assert!(side["command"].as_str().is_some_and(|command| !command.is_empty()), "{side}");
        }
    }
    let bare = &rows[0]["passes"][0]["sides"][1];
    assert_eq!((&bare["name"], bare["ratio"].is_number()), (&json!("bare"), true));
}

#[test]
fn downloads_and_requests_are_compared_with_a_direct_connection() {
    if !walls_can_be_built() {
        return;
    }
    for program in ["curl", "openssl"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skipped(program, &format!("{program} is not installed"));
        }
    }
    let _quiet = alone();
    let least = |least: f64| ("MB/s", json!({"least": {"against": "direct", "least": least}}));
    let added = |most: f64| ("ms", json!({"added": {"against": "direct", "most": most}}));
    let expected = [
        ("download", least(0.5)),
        ("request", added(1.5)),
        ("request-kept", added(1.5)),
        ("download-opened", least(0.4)),
        ("request-opened", added(3.0)),
        ("request-opened-kept", added(0.5)),
    ];
    let rows = expected.each_ref().map(|(row, _)| *row).join(",");
    let run = bench(&["--json", "--rows", &rows, "--rounds", "3", "--megabytes", "2"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report = run.json();
    let rows = report["rows"].as_array().expect("rows are a list");
    let told = |row: &serde_json::Value| json!([row["row"], row["unit"], row["bound"]]);
    let told: Vec<_> = rows.iter().map(told).collect();
    assert_eq!(told, expected.map(|(row, (unit, bound))| json!([row, unit, bound])));
    for row in rows {
        assert!(row["within"].is_boolean(), "{row}");
        for pass in row["passes"].as_array().expect("passes are a list") {
            let (ours, direct) = (&pass["sides"][0], &pass["sides"][1]);
            assert_eq!((&ours["name"], &direct["name"]), (&json!("stockade"), &json!("direct")));
            assert_eq!(ours["samples"].as_array().map(Vec::len), Some(3), "{ours}");
            assert!(direct["ratio"].is_number(), "{direct}");
        }
    }
}

#[test]
fn tool_call_is_compared_with_the_tool_itself() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "tool-call", "--rounds", "3"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report = run.json();
    let row = &report["rows"][0];
    let bound = json!({"added": {"against": "the tool itself", "most": 1.0}});
    assert_eq!((&row["row"], &row["bound"]), (&json!("tool-call"), &bound));
    for pass in row["passes"].as_array().expect("passes are a list") {
        let (inside, itself) = (&pass["sides"][0]["median"], &pass["sides"][1]["median"]);
        assert!(inside.as_f64() > itself.as_f64(), "{pass}");
    }
}

#[test]
fn code_of_an_mcp_client_is_compared_with_the_engine_call() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "mcp-run-code", "--rounds", "3"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report = run.json();
    let row = &report["rows"][0];
    let bound = json!({"added": {"against": "the engine call", "most": 2.0}});
    assert_eq!((&row["row"], &row["bound"]), (&json!("mcp-run-code"), &bound));
    for pass in row["passes"].as_array().expect("passes are a list") {
        let sides = pass["sides"].as_array().expect("sides are a list");
        assert!(sides.iter().all(|side| side["median"].as_f64() > Some(0.0)), "{pass}");
    }
}

#[test]
fn download_without_curl_names_what_to_install() {
    let mut command = Command::new(binary());
    command.args(["bench", "--json", "--rows", "download"]).env("PATH", "/nonexistent");
    let run = finish(command);
    assert_eq!(run.code, 125, "{}", run.stdout);
    let report = run.json();
    let missing = &report["not_measured"][0];
    assert_eq!(
        (&missing["row"], &missing["reason"]),
        (&json!("download"), &json!("curl is not installed"))
    );
    assert!(missing["remedy"].as_str().is_some_and(|it| it.contains("openssl and curl")));
}

#[test]
fn rows_without_an_engine_or_the_package_name_what_to_install() {
    let bench = |path: &str, row: &str| {
        let mut command = Command::new(binary());
        command.args(["bench", "--json", "--rows", row]).env("PATH", path);
        // An address where no engine answers.
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        let run = finish(command);
        assert_eq!(run.code, 125, "it was asked for: {}", run.stdout);
        let missing = run.json()["not_measured"][0].clone();
        assert_eq!(missing["row"], row, "{missing}");
        let text = |key: &str| missing[key].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("remedy"))
    };
    let docker = ("docker is not installed".to_owned(), "install the package docker.io".to_owned());
    for row in ["docker-run", "docker-exec", "docker-destroy"] {
        assert_eq!(bench("/nonexistent", row), docker);
    }
    let (reason, remedy) = bench("/nonexistent", "python-snippets");
    assert_eq!(reason, "python3 is not installed");
    assert!(remedy.contains("pip install"), "{remedy}");
    // A `docker` whose engine is not there, and a `python3` without the package.
    let scratch = Scratch::new();
    for program in ["docker", "python3"] {
        let file = scratch.file(program, "#!/bin/sh\necho nothing answers here >&2; exit 1\n");
        stockade_testing::set_mode(file.as_ref(), 0o755);
    }
    let (reason, remedy) = bench(scratch.text(), "docker-run");
    assert!(
        reason.contains("nothing answers here") && remedy.contains("start the engine"),
        "{reason}"
    );
    let (reason, _) = bench(scratch.text(), "python-snippets");
    assert_eq!(reason, "the package `stockade` is not installed for python3");
}

#[test]
fn executions_in_a_session_are_compared_with_bwrap_and_the_bare_interpreter() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "exec,code", "--rounds", "3"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let report = run.json();
    let bounds: Vec<_> = [0, 1].map(|row| report["rows"][row]["bound"].clone()).into();
    let ratio = |peer: &str, most: f64| json!({ "ratio": { "against": peer, "most": most } });
    assert_eq!(bounds, [ratio("bwrap", 0.3), ratio("bare", 0.25)]);
    let names = |row: usize| -> Vec<&str> {
        let sides = report["rows"][row]["passes"][0]["sides"].as_array();
        sides.into_iter().flatten().filter_map(|side| side["name"].as_str()).collect()
    };
    let is_absent = report["absent_peers"].as_array().is_some_and(|peers| !peers.is_empty());
    let peers = if is_absent {
        &["stockade", "stockade exec"][..]
    } else {
        &["stockade", "stockade exec", "bwrap"]
    };
    assert_eq!(names(0), peers);
    assert_eq!(names(1), ["stockade", "bare"]);
    for row in 0..2 {
        let passes = report["rows"][row]["passes"].as_array().map(Vec::len);
        assert_eq!(passes, Some(2), "back to back and apart");
    }
}

#[test]
fn call_in_a_context_is_compared_with_the_bare_interpreter() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "context", "--rounds", "5"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let report = run.json();
    let row = &report["rows"][0];
    let bound = json!({ "ratio": { "against": "bare", "most": 0.1 } });
    assert_eq!((&row["row"], &row["bound"]), (&json!("context"), &bound), "{report}");
    let sides = &row["passes"][0]["sides"];
    let median = |side: usize| sides[side]["median"].as_f64().unwrap_or_default();
    // The exact bound is for a quiet machine; starting an interpreter would take as long as one.
    assert!(median(0) > 0.0 && median(0) < 0.5 * median(1), "{report}");
}

#[test]
fn removal_and_memory_of_a_session_are_measured() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "session-destroy,session-memory", "--rounds", "3"]);
    let report = run.json();
    let median = |row: usize, side: usize| {
        report["rows"][row]["passes"][0]["sides"][side]["median"].as_f64().unwrap_or_default()
    };
    assert!(median(0, 0) > 0.0 && median(0, 1) > 0.0, "{report}");
    let second = &report["rows"][0]["passes"][0]["sides"][1]["name"];
    assert_eq!(second, "until nothing is left");
    if stockade_testing::is_root() {
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        assert!(median(1, 0) > 0.5, "a session has processes: {report}");
    }
}

#[test]
fn page_with_charts_is_written_to_the_html_path() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let scratch = Scratch::new();
    let page = scratch.path().join("bench.html");
    let run = bench(&["--rows", "destroy", "--rounds", "3", "--html", page.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.contains("destroy") && run.stdout.contains("back to back"),
        "{}",
        run.stdout
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<svg"), "{page}");
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn invalid_rows_peers_rounds_and_pages_are_refused_at_once() {
    for (words, says) in [
        (&["--rows", "none"][..], "python-cli"),
        (&["--against", "none"], "bwrap"),
        (&["--rounds", "1"], "3"),
        (&["--html", "/nonexistent/page.html"], "/nonexistent/page.html"),
    ] {
        let run = bench(words);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{words:?}: {}", run.stderr);
        assert!(run.elapsed < Duration::from_secs(10), "nothing was measured");
    }
}

#[test]
fn checkpoints_and_forks_are_measured() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    let run = bench(&["--json", "--rows", "checkpoint,fork", "--rounds", "3"]);
    let report = run.json();
    assert_eq!(report["not_measured"], json!([]), "{}", run.stderr);
    let rows = report["rows"].as_array().expect("rows are a list");
    let told: Vec<_> = rows.iter().map(|row| (&row["row"], &row["unit"], &row["bound"])).collect();
    let [checkpoint, fork] = ["checkpoint", "fork"].map(|row| json!(row));
    let [slow, fast] = [150.0, 30.0].map(|most| json!({"median": {"most": most}}));
    assert_eq!(told, [(&checkpoint, &json!("ms"), &slow), (&fork, &json!("ms"), &fast)]);
    for side in
        rows.iter().flat_map(|row| row["passes"][0]["sides"].as_array().into_iter().flatten())
    {
        assert_eq!(side["samples"].as_array().map(Vec::len), Some(3), "{side}");
    }
}
