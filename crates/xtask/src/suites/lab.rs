//! The tests of the native wall in the lab: another kernel, with cgroup v2 alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cargo::{count_tests, failed_tests};
use crate::lab::{self, Job, Size};
use crate::program::{cargo, executable, finish};
use crate::suite::Outcome;

/// One machine, and what is shown in it.
struct Round {
    name: &'static str,
    user: &'static str,
    delegate: bool,
    /// A shell script that must succeed before any test runs.
    first: &'static str,
    tests: &'static [Selection],
}

/// Tests of one executable: those whose names have one of these parts, or all, without others.
struct Selection {
    target: &'static str,
    only: &'static [&'static str],
    without: &'static [&'static str],
}

/// Translated instructions take ten times as long: these measure time, and the machine shares it.
const TIMED: [&str; 4] = [
    "fork_bomb_dies_whole",
    "fork_bomb_leaves_the_host_able_to_fork",
    "half_a_processor_is_half_of_the_time",
    "time_that_is_over_ends_every_process_at_once",
];

/// Before Linux 6.6 a tmpfs cannot mark a directory as replaced, so that one of the workspace with
/// something in it cannot be removed from an overlay.
const OVERLAY: &str = "overlay_takes_every_change_and_leaves_the_host_as_it_was";

const NO_CGROUP: &str = "stockade run --json -- true | grep -q 'cgroup v2 memory limit' || exit 1";

const ROUNDS: [Round; 3] = [
    Round {
        name: "root",
        user: "root",
        delegate: false,
        first: NO_CGROUP,
        tests: &[
            Selection { target: "wall", only: &[], without: &[] },
            Selection {
                target: "stockade_native",
                only: &["cgroup::tests::", "id_range::"],
                without: &TIMED,
            },
            Selection {
                target: "faults",
                only: &["refused_clone", "refused_writes"],
                without: &[],
            },
            Selection {
                target: "run",
                only: &[
                    "canaries::",
                    "leftovers::",
                    "limits::",
                    "memory::",
                    "mounts::",
                    "neighbours::",
                    "outcomes::",
                    "scratch::",
                    "workspace::",
                    "examples::",
                ],
                without: &[OVERLAY, TIMED[0], TIMED[1], TIMED[2], TIMED[3]],
            },
        ],
    },
    Round {
        name: "no user namespaces",
        user: "root",
        delegate: false,
        first: include_str!("lab/no_user_namespaces.sh"),
        tests: &[],
    },
    Round {
        name: "a user with a delegated cgroup",
        user: "agent",
        delegate: true,
        first: NO_CGROUP,
        tests: &[
            Selection { target: "wall", only: &[], without: &[] },
            Selection {
                target: "run",
                only: &[
                    "canaries::",
                    "leftovers::",
                    "limits::",
                    "memory::",
                    "mounts::",
                    "neighbours::",
                    "workspace::",
                ],
                without: &[OVERLAY, TIMED[0], TIMED[1], TIMED[2], TIMED[3]],
            },
        ],
    },
];

/// The tests and what they start, some of which ask for more memory than they may have.
const SIZE: Size = Size { memory_mib: 2048, cpus: 2, timeout: Duration::from_secs(600) };

/// Where the test executables are in the machine.
const TESTS: &str = "/srv/tests";

/// Boots one machine after another.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    if let Some(missing) = lab::missing_programs() {
        return Ok(Outcome::skipped(missing));
    }
    let files = files(root)?;
    let mut passed = 0;
    for round in &ROUNDS {
        let job = Job {
            user: round.user.to_owned(),
            delegate: round.delegate,
            sysctls: Vec::new(),
            environment: environment(),
            files: files.clone(),
            command: ["sh", "-c", &script(round)].map(str::to_owned).to_vec(),
        };
        let (code, output) = lab::capture(&job, SIZE)?;
        let name = round.name;
        if code != 0 {
            let tests = failed_tests(&output);
            return Ok(Outcome::failed(format!("{name}: {tests}\n{output}")));
        }
        let ran = count_tests(&output).passed;
        ensure!(ran > 0 || round.tests.is_empty(), "{name}: no test ran at all\n{output}");
        passed += ran;
    }
    Ok(Outcome::passed(format!("{passed} tests in {} machines", ROUNDS.len())))
}

/// One after another; every one runs, and one that fails makes the whole fail.
fn script(round: &Round) -> String {
    let mut lines = vec![round.first.to_owned(), "failed=0".to_owned()];
    for Selection { target, only, without } in round.tests {
        let skips: Vec<String> = without.iter().map(|name| format!("--skip {name}")).collect();
        let (only, skips) = (only.join(" "), skips.join(" "));
        lines.push(format!("{TESTS}/{target} --test-threads=2 {only} {skips} || failed=1"));
    }
    lines.push("exit $failed".to_owned());
    lines.join("\n")
}

fn environment() -> Vec<String> {
    [
        "STOCKADE_UNDER_TEST=/usr/local/bin/stockade",
        "STOCKADE_EXAMPLES=/srv/lab/examples",
        "STOCKADE_REQUIRE=namespaces,cgroup",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The command line, the tests as the suite `tests` built them, and what these start, where they
/// look for it.
fn files(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = lab::ours(root)?;
    let (stockade, _) = files.first().context("the command line is the first file")?.clone();
    let mut build = cargo(root);
    build.args(["test", "--workspace", "--locked", "--no-run", "--message-format=json"]);
    let built = finish(build)?;
    ensure!(built.success, "the tests do not build\n{}", built.output);
    for target in ["run", "faults", "wall", "stockade_native"] {
        let from = executable(&built.output, target)?;
        files.push((from, format!("{TESTS}/{target}")));
    }
    let tests = executable(&built.output, "run")?;
    let beside = tests.ancestors().nth(2).context("tests lie two folders below their profile")?;
    let launch = fs::canonicalize(beside.join("stockade-launch"))?;
    for (from, name) in [(stockade, "stockade"), (launch, "stockade-launch")] {
        files.push((from, beside.join(name).display().to_string()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_runs_every_selection_and_fails_with_any() {
        let tests = &[
            Selection { target: "a", only: &["b::", "c::"], without: &["d"] },
            Selection { target: "e", only: &[], without: &[] },
        ];
        let round = Round { name: "", user: "root", delegate: false, first: "true", tests };
        let expected = "true\nfailed=0\n\
            /srv/tests/a --test-threads=2 b:: c:: --skip d || failed=1\n\
            /srv/tests/e --test-threads=2   || failed=1\n\
            exit $failed";
        assert_eq!(script(&round), expected);
    }
}
