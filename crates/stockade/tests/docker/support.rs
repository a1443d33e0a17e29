//! Programs in containers, and what the engine has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use stockade_internet::{EnterError, Internet};
pub(crate) use stockade_testing::{Run, finish, finish_with, skipped};
use stockade_testing::{engine, under_test, wait_for, within};

static INTERNET: OnceLock<Option<Internet>> = OnceLock::new();

/// Stores what `main` prepared.
pub(crate) fn begin(entered: Option<Result<Internet, EnterError>>) {
    INTERNET.get_or_init(|| entered.and_then(Result::ok));
}

/// The fake internet, if it could be entered.
pub(crate) fn internet() -> Option<&'static Internet> {
    let internet = INTERNET.get().and_then(Option::as_ref);
    if internet.is_none() {
        skipped("internet", "the fake internet could not be entered");
    }
    internet
}

/// The directory of the running engine.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os(engine::DIRECTORY).map(PathBuf::from).expect("main has started an engine")
}

/// The runtimes to test.
pub(crate) fn runtimes() -> Vec<&'static str> {
    if !engine::has("runsc") {
        skipped("gvisor", "runsc is not installed");
        return vec!["runc"];
    }
    vec!["runc", "runsc"]
}

/// A list of tests of a runtime.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this module with a runtime.
        pub(crate) fn tests(runtime: &'static str) -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(runtime, stringify!($name), $name)),*]
        }
    };
}
pub(crate) use tests;

/// Tests that do not depend on a runtime, each named after its function.
macro_rules! named {
    ($($name:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($name), || {
            $name();
            Ok(())
        })),*]
    };
}
pub(crate) use named;

pub(crate) fn trial(runtime: &'static str, name: &str, test: fn(&'static str)) -> Trial {
    Trial::test(format!("{runtime}::{name}"), move || {
        test(runtime);
        Ok(())
    })
}

/// A `stockade` command with the engine's address.
pub(crate) fn stockade() -> Command {
    let directory = directory();
    let mut command = Command::new(under_test(env!("CARGO_BIN_EXE_stockade")));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", &directory);
    command.env("DOCKER_HOST", engine::address(&directory));
    command
}

/// A `stockade run` command with a runtime, flags and a program.
pub(crate) fn command(runtime: &str, flags: &[&str], words: &[&str]) -> Command {
    let mut command = stockade();
    command.args(["run", "--provider", "docker", "--runtime", runtime]);
    command.args(flags).arg("--").args(words);
    command
}

/// Runs a program in a container.
pub(crate) fn run(runtime: &str, flags: &[&str], words: &[&str]) -> Run {
    finish(command(runtime, flags, words))
}

/// Runs a program in a container and returns the report of `--json`.
pub(crate) fn report(runtime: &str, flags: &[&str], words: &[&str]) -> Value {
    let run = run(runtime, &[&["--json"], flags].concat(), words);
    assert_ne!(run.code, 125, "{}{}", run.stdout, run.stderr);
    run.json()
}

/// The lines that a `docker` command prints.
#[track_caller]
pub(crate) fn docker(words: &[&str]) -> Vec<String> {
    let run = finish(engine::client(&directory()).args(words));
    run.text().lines().map(str::to_owned).collect()
}

/// Removes images that a test made. The containers of ended sandboxes may still be there.
pub(crate) fn forget(images: &[&str]) {
    finish(engine::client(&directory()).args(["rmi", "--force"]).args(images));
}

/// The containers with a label, in any state.
pub(crate) fn containers(label: &str) -> Vec<String> {
    docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &format!("label={label}")])
}

/// Waits until the engine has no container with a label.
#[track_caller]
pub(crate) fn wait_until_removed(label: &str) {
    wait_for("the containers are removed", || containers(label).is_empty().then_some(()));
}

/// Starts a container, which removes what engines that were stopped, and runs that were killed, have
/// left. Concurrently it could hide what a test leaves, so it is for the end.
pub(crate) fn sweep() {
    assert_eq!(run("runc", &[], &["true"]).code, 0);
}

/// Everything that an engine has: containers, volumes, networks and images.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inventory(BTreeMap<&'static str, BTreeSet<String>>);

impl Inventory {
    pub(crate) fn of(directory: &Path) -> Inventory {
        let lists: [(&str, &[&str]); 4] = [
            ("containers", &["ps", "--all", "--format", "{{.ID}} {{.Image}} {{.Names}}"]),
            ("volumes", &["volume", "ls", "--quiet"]),
            ("networks", &["network", "ls", "--format", "{{.Name}}"]),
            ("images", &["images", "--format", "{{.Repository}}:{{.Tag}}"]),
        ];
        let listed = lists.map(|(kind, words)| {
            let run = finish(engine::client(directory).args(words));
            // The image of trial starts stays for the next.
            let lines = run.text().lines().filter(|line| *line != "stockade-trial:1");
            (kind, lines.map(str::to_owned).collect())
        });
        Inventory(listed.into())
    }

    /// Waits until the engine has the same again; prints what it has instead.
    pub(crate) fn is_restored(&self, directory: &Path) -> bool {
        let is_restored = within(Duration::from_secs(30), || *self == Inventory::of(directory));
        if !is_restored {
            let after = Inventory::of(directory);
            let line =
                format!("test engine_has_the_same_as_before ... FAILED\n{self:?}\n{after:?}");
            let _ = writeln!(std::io::stdout(), "{line}");
        }
        is_restored
    }
}
