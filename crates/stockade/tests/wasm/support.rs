//! Programs behind the wall: `wasm`, or the wall that `STOCKADE_COMPONENT_WALL` names. Both run the
//! same component.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use stockade_internet::{EnterError, Internet};
use stockade_testing::{Run, Scratch, finish, finish_with, skipped, under_test};

static INTERNET: OnceLock<Option<Internet>> = OnceLock::new();

/// Stores what `main` prepared, and compiles the component, so that no test waits for that.
pub(crate) fn begin(entered: Result<Internet, EnterError>) {
    INTERNET.get_or_init(|| entered.ok());
    let first = run("print('ready')");
    assert_eq!(
        (first.code, first.stdout.as_str()),
        (0, "ready\n"),
        "the component must be built, by `cargo xtask component python`: {}",
        first.stderr
    );
}

/// The fake internet, if it could be entered.
pub(crate) fn internet() -> Option<&'static Internet> {
    let internet = INTERNET.get().and_then(Option::as_ref);
    if internet.is_none() {
        skipped("internet", "the fake internet could not be entered");
    }
    internet
}

/// The tests of a module, each named after its function.
macro_rules! named {
    ($($name:ident),* $(,)?) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$(libtest_mimic::Trial::test(stringify!($name), || {
                $name();
                Ok(())
            })),*]
        }
    };
}
pub(crate) use named;

/// The wall under test.
pub(crate) fn wall() -> &'static str {
    static WALL: OnceLock<&'static str> = OnceLock::new();
    WALL.get_or_init(|| match std::env::var("STOCKADE_COMPONENT_WALL").as_deref() {
        Ok("hyperlight") => "hyperlight",
        Ok("wasm") | Err(_) => "wasm",
        Ok(other) => panic!("no wall {other} runs the component"),
    })
}

/// Whether programs run in a virtual machine. Where this is tested a translator runs it, so that
/// everything takes ten times as long.
pub(crate) fn is_machine() -> bool {
    wall() == "hyperlight"
}

/// How long an act may take that takes so long on an idle host.
pub(crate) fn patience(time: Duration) -> Duration {
    if is_machine() { time * 10 } else { time }
}

/// A `stockade` command.
pub(crate) fn stockade() -> Command {
    Command::new(under_test(env!("CARGO_BIN_EXE_stockade")))
}

/// A `stockade run` behind this wall, without a record.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = stockade();
    command.args(["run", "--provider", wall(), "--no-record"]).args(arguments);
    command
}

/// Runs code with default limits.
pub(crate) fn run(code: &str) -> Run {
    run_with(&[], code)
}

/// Runs code with options.
pub(crate) fn run_with(options: &[&str], code: &str) -> Run {
    let mut arguments = options.to_vec();
    arguments.extend(["--language", "python", "-"]);
    finish_with(command(&arguments), code.as_bytes())
}

/// Runs code with options; returns its report.
pub(crate) fn report(options: &[&str], code: &str) -> Value {
    let mut arguments = vec!["--json"];
    arguments.extend(options);
    run_with(&arguments, code).json()
}

/// Runs a file.
pub(crate) fn run_file(options: &[&str], file: &Path) -> Run {
    let mut arguments = options.to_vec();
    let path = file.to_str().expect("a path of the tests is text");
    arguments.push(path);
    finish(command(&arguments))
}

/// A new directory with files.
pub(crate) fn directory(files: &[(&str, &str)]) -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let path = scratch.path().canonicalize().expect("a scratch directory exists");
    for (name, text) in files {
        std::fs::write(path.join(name), text).expect("a scratch directory is writable");
    }
    (scratch, path)
}

/// Runs a command with an input.
pub(crate) fn finish_of(command: &mut Command, input: &[u8]) -> Run {
    finish_with(command, input)
}
