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
    let rows = "download,request,request-kept";
    let run = bench(&["--json", "--rows", rows, "--rounds", "3", "--megabytes", "2"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report = run.json();
    let rows = report["rows"].as_array().expect("rows are a list");
    let told: Vec<_> = rows.iter().map(|row| (&row["row"], &row["unit"], &row["bound"])).collect();
    let least = json!({"least": {"against": "direct", "least": 0.5}});
    let added = json!({"added": {"against": "direct", "most": 1.5}});
    let [download, request, kept] = ["download", "request", "request-kept"].map(|row| json!(row));
    let [rate, time] = ["MB/s", "ms"].map(|unit| json!(unit));
    assert_eq!(
        told,
        [(&download, &rate, &least), (&request, &time, &added), (&kept, &time, &added)]
    );
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
