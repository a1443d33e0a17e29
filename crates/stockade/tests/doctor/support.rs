//! Runs `doctor`, `plan` and `run`, and compares their texts.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use stockade_testing::set_mode;

use crate::leftovers::binary;
use crate::refusing::{Refused, Run, finish, finish_refusing};

/// A reason and a remedy.
pub(crate) type Words = (String, String);

/// The uid of `nobody`.
pub(crate) const NOBODY: &str = "65534";

/// A temporary directory that every user may read, with a copy of the binary and a policy.
pub(crate) struct Scratch(stockade_testing::Scratch);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let scratch = Scratch(stockade_testing::Scratch::new());
        std::fs::copy(binary(), scratch.binary()).expect("the binary can be copied");
        set_mode(&scratch.binary(), 0o755);
        scratch
    }

    pub(crate) fn binary(&self) -> PathBuf {
        self.0.path().join("stockade")
    }

    /// Writes a policy and returns its path.
    pub(crate) fn policy(&self, text: &str) -> String {
        self.0.file("policy.yaml", text)
    }
}

/// `stockade` with these arguments.
pub(crate) fn stockade(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments);
    quiet(command)
}

/// Captures a command's output.
pub(crate) fn quiet(mut command: Command) -> Command {
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command and parses its JSON output.
pub(crate) fn json(command: Command, refused: &[Refused]) -> (Option<i32>, Value) {
    let Run { code, stdout, stderr, .. } = match refused {
        [] => finish(command),
        refused => finish_refusing(command, refused),
    };
    let value = serde_json::from_str(&stdout);
    (code, value.unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}")))
}

/// Repeats a command while it reports that the host is overloaded.
pub(crate) fn patiently(ask: impl Fn() -> (Option<i32>, Value)) -> (Option<i32>, Value) {
    let is_told = |said: &(Option<i32>, Value)| {
        !said.1.to_string().contains("see whether the host is overloaded")
    };
    (0..20).map(|_| ask()).find(is_told).expect("the host is not too busy for ever")
}

/// The answer of `doctor`.
pub(crate) fn doctor(ask: impl Fn(&[&str]) -> (Option<i32>, Value)) -> (Option<i32>, Value) {
    patiently(|| ask(&["doctor", "--json"]))
}

/// The answer of `doctor` on this host.
pub(crate) fn doctor_here() -> (Option<i32>, Value) {
    doctor(|words| json(stockade(words), &[]))
}

/// `doctor`'s report of a wall.
pub(crate) fn wall<'a>(doctor: &'a Value, provider: &str) -> &'a Value {
    let walls = doctor["walls"].as_array().expect("walls are a list");
    walls.iter().find(|it| it["provider"] == provider).expect("every wall is named")
}

/// `doctor`'s report of the native wall.
pub(crate) fn native(doctor: &Value) -> &Value {
    wall(doctor, "native")
}

/// `doctor`'s report of one control of a wall.
pub(crate) fn control_of<'a>(wall: &'a Value, name: &str) -> &'a Value {
    let controls = wall["controls"].as_array().expect("controls are a list");
    controls.iter().find(|it| it["control"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// `doctor`'s report of one control of the native wall.
pub(crate) fn control<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    control_of(native(doctor), name)
}

/// The reason and the remedy in an object.
pub(crate) fn words(value: &Value) -> Words {
    let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}"));
    (text("reason").to_owned(), text("remedy").to_owned())
}

/// The distinct reasons for which `plan` refuses a policy on the requested wall.
pub(crate) fn refusals(plan: &Value) -> Vec<Words> {
    let controls = plan["walls"][0]["controls"].as_array().expect("controls are a list");
    let refused = controls.iter().filter(|finding| finding["status"] == "refused");
    let mut words: Vec<Words> = refused.map(words).collect();
    words.dedup();
    words
}

/// The reason and remedy of a run's error.
pub(crate) fn error(run: &Value) -> Words {
    let text = |key: &str| run["error"][key].as_str().expect("errors have words").to_owned();
    (text("message"), text("remedy"))
}
