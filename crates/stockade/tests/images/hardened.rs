//! A hardened image behind the native wall: its stubs report the commands that it denies.

use serde_json::{Value, json};
use stockade_testing::finish;
use stockade_testing::image::{Image, Layer};

use crate::support::{Place, shell, walls_can_be_built};

/// The recipe of the hardened image.
const RECIPE: &str = include_str!("../../../../docker/Dockerfile.sandbox");
/// Where its stub is.
const STUB: &str = "/usr/local/lib/sandbox/denied";
/// The only directory in its PATH.
const BIN: &str = "/usr/local/sandbox-bin";

/// The script that the recipe writes as the stub.
fn stub() -> String {
    let lines = RECIPE.split_once("printf '%s\\n' '").and_then(|(_, rest)| rest.split_once("' > "));
    let (lines, _) = lines.expect("the recipe writes a stub");
    lines
        .split("' \\\n")
        .map(|line| format!("{}\n", line.trim_start().trim_matches('\'')))
        .collect()
}

/// An image with cloud tools, and the same with the PATH and the stubs of the hardened image.
fn images() -> [Image; 2] {
    let open = shell("tools:1", json!({ "Env": ["PATH=/bin"] }));
    let tools = Layer::default();
    let tools = ["az", "git"].into_iter().fold(tools, |layer, name| {
        layer.file(&format!("bin/{name}"), format!("#!/bin/sh\necho ran {name} $*\n"))
    });
    let mut stubs = Layer::default().file(STUB.trim_start_matches('/'), stub());
    for name in ["az", "git", "wget"] {
        stubs = stubs.link(&format!("{BIN}/{name}")[1..], STUB);
    }
    let with = |name: &str, path: &str, more: Layer| {
        let lower = open.layers.iter().cloned().map(Layer);
        let layers = lower.chain([tools.clone(), more]).collect();
        Image::new(name, layers, json!({ "Env": [format!("PATH={path}")] }))
    };
    [with("tools:1", "/bin", Layer::default()), with("hardened:1", BIN, stubs)]
}

/// The control and the target of each denial.
fn denied(denials: &Value) -> Vec<(String, String)> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let all = denials.as_array().cloned().unwrap_or_default();
    all.iter().map(|it| (text(&it["control"]), text(&it["target"]))).collect()
}

fn pairs(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ("image".to_owned(), (*name).to_owned())).collect()
}

/// The events of the latest record.
fn events(place: &Place) -> Vec<Value> {
    let run = finish(place.command(&["audit", "show", "--json"]));
    serde_json::from_str(run.text()).unwrap_or_else(|_| run.lines())
}

#[test]
fn denied_command_of_an_imported_hardened_image_is_in_the_result_and_in_the_record() {
    if !walls_can_be_built() {
        return;
    }
    let [open, hardened] = images();
    let tries = "az account list; echo $?; git status; echo $?; az vm list; nowhere; echo $?";
    let words = |image| [image, "--json", "--", "/bin/sh", "-c", tries];
    let place = Place::with(&open);
    let report = place.run(&words("tools:1")).json();
    let ran = "ran az account list\n0\nran git status\n0\nran az vm list\n127\n";
    assert_eq!(report["stdout"], ran, "{report}");
    assert_eq!(denied(&report["denials"]), [], "{report}");

    let place = Place::with(&hardened);
    let report = place.run(&words("hardened:1")).json();
    assert_eq!(report["stdout"], "127\n127\n127\n", "{report}");
    let stderr = report["stderr"].as_str().unwrap();
    let complaints = "az: command not found\ngit: command not found\naz: command not found\n";
    assert!(stderr.starts_with(complaints), "{report}");
    assert_eq!(denied(&report["denials"]), pairs(&["az", "git"]), "{report}");
    let recorded: Vec<Value> =
        events(&place).into_iter().map(|event| event["body"]["denial"].clone()).collect();
    let recorded = Value::Array(recorded.into_iter().filter(Value::is_object).collect());
    assert_eq!(denied(&recorded), pairs(&["az", "git"]));
    // A list of programs denies them itself, and nothing reports.
    let policy = place.path().join("policy.yaml");
    std::fs::write(&policy, "command_allowlist: [sh]\n").unwrap();
    let script = "[ -e /run/stockade/guest ] || echo none";
    let policy = policy.to_str().unwrap();
    let run = place.run(&["hardened:1", "--policy", policy, "--", "/bin/sh", "-c", script]);
    assert_eq!(run.text(), "none\n", "{run:?}");
}

#[test]
fn forged_report_behind_the_native_wall_adds_only_a_name_of_the_recipe() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&images()[1]);
    let script = "for name in no-such-tool /bin/az 'az x' wget wget; do \
                  /run/stockade/guest denied \"$name\"; echo $?; done; \
                  echo x > /run/stockade/more || echo kept; /bin/ls /run/stockade";
    let words = ["hardened:1", "--json", "--", "/bin/sh", "-c", script];
    let report = place.run(&words).json();
    let expected = "0\n0\n0\n0\n0\nkept\ndenials.sock\nguest\n";
    assert_eq!(report["stdout"], expected, "{report}");
    assert_eq!(denied(&report["denials"]), pairs(&["wget"]), "{report}");
}

#[test]
fn every_program_of_a_native_session_has_its_own_denials() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&images()[1]);
    let session = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("STOCKADE_STATE", place.path().join("state"));
        finish(command)
    };
    let words = ["create", "--name", "stubs", "--provider", "native", "--image", "hardened:1"];
    assert_eq!(session(&words).text(), "stubs\n");
    for (tried, code) in [("az", 127), ("/bin/ls", 0), ("az", 127), ("wget", 127)] {
        assert_eq!(session(&["exec", "stubs", "--", tried]).code, code, "{tried}");
    }
    session(&["rm", "-f", "stubs"]).text();
    let all = events(&place);
    let of_execution: Vec<(u64, &str)> = all
        .iter()
        .filter_map(|event| {
            let body = &event["body"];
            Some((body["execution"].as_u64()?, body["denial"]["target"].as_str()?))
        })
        .collect();
    assert_eq!(of_execution, [(0, "az"), (2, "az"), (3, "wget")], "{all:?}");
}

#[test]
fn mount_in_the_place_of_the_stubs_reports_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&images()[1]);
    let mount = format!("{}:/run/stockade", place.path().display());
    let run = place.run(&["hardened:1", "--mount", &mount, "--", "/bin/ls"]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    assert!(run.stderr.contains("report denied commands through that directory"), "{run:?}");
}
