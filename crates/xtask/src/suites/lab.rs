//! The tests of the native wall in the lab: another kernel, with only cgroup v2.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cargo::{count_tests, failed_tests, test_command};
use crate::lab::{self, Job, Kernel, Size};
use crate::program::{executable_of, finish};
use crate::suite::Outcome;

/// One machine, and the tests that run in it.
struct Round {
    name: &'static str,
    kernel: Kernel,
    user: &'static str,
    delegate: bool,
    /// A shell script that must succeed before any test runs.
    first: &'static str,
    /// Host features without which a test fails instead of being skipped.
    requires: &'static str,
    tests: &'static [Selection],
}

/// Tests of one executable: those whose names contain a part in `only`, or all, except those in
/// `without`.
struct Selection {
    target: &'static str,
    only: &'static [&'static str],
    without: &'static [&'static str],
}

impl Selection {
    const fn all(target: &'static str) -> Selection {
        Selection { target, only: &[], without: &[] }
    }

    const fn only(target: &'static str, only: &'static [&'static str]) -> Selection {
        Selection { target, only, without: &[] }
    }

    const fn without(self, without: &'static [&'static str]) -> Selection {
        Selection { without, ..self }
    }
}

/// Tests that measure time: translated instructions take ten times as long, and the machine shares
/// the processor. The last two use curl and openssl, which the machine lacks. The one before: before
/// Linux 6.6 a tmpfs cannot mark a directory as opaque, so a
/// workspace directory with contents cannot be removed through an overlay.
const UNFIT: &[&str] = &[
    "fork_bomb_leaves_the_host_able_to_fork",
    "half_a_cpu_gives_half_of_the_cpu_time",
    "busy_sandbox_does_not_starve_another",
    "timeout_ends_every_process_at_once",
    "overlay_takes_every_change_and_leaves_the_host_unchanged",
    "commands_of_the_readme_run_in_their_order",
    "secrets_example_shows_the_real_key_to_the_server_only",
];

/// Tests that need user namespaces: to forbid them inside, and to prove that an act works without
/// the wall.
const FORBIDDEN: &[&str] =
    &["reduced::forbidden::", "unlisted_paths_are_neither_read_nor_listed_nor_watched"];

/// The `run` tests that depend on the kernel and on cgroups.
const RUN: Selection = Selection::only(
    "run",
    &[
        "canaries::",
        "examples::",
        "leftovers::",
        "limits::",
        "memory::",
        "mounts::",
        "neighbours::",
        "outcomes::",
        "scratch::",
        "workspace::",
    ],
)
.without(UNFIT);

const REDUCED: Selection = Selection::only("run", &["reduced::"]).without(FORBIDDEN);

/// Doctor on the host as it is, and on simulated hosts. The test left out delegates version 1
/// cgroups to a user; another round does the same with version 2.
const DOCTOR: Selection = Selection::all("doctor")
    .without(&["delegated_cgroups_hold_limits_exactly_for_an_ordinary_user"]);
const DOCTOR_HERE: Selection = Selection::only("doctor", &["here::"]);

const WALLS: &str = "namespaces,cgroup";

const CGROUP: &str = "stockade run --json -- true | grep -q 'cgroup v2 memory limit' || exit 1";
const FORBID: &str = include_str!("lab/no_user_namespaces.sh");

/// The short ones first.
const ROUNDS: [Round; 5] = [
    Round {
        name: "no user namespaces",
        kernel: Kernel::Stable,
        user: "root",
        delegate: false,
        first: FORBID,
        requires: "",
        tests: &[DOCTOR_HERE],
    },
    Round {
        name: "no user namespaces, newer kernel",
        kernel: Kernel::Newer,
        user: "root",
        delegate: false,
        first: concat!(include_str!("lab/no_user_namespaces.sh"), include_str!("lab/reduced.sh")),
        requires: "landlock",
        tests: &[REDUCED, DOCTOR_HERE],
    },
    Round {
        name: "a user, newer kernel",
        kernel: Kernel::Newer,
        user: "agent",
        delegate: false,
        first: "true",
        requires: "landlock,namespaces",
        tests: &[Selection::only("run", &["reduced::"]), Selection::all("commands"), DOCTOR],
    },
    Round {
        name: "root",
        kernel: Kernel::Stable,
        user: "root",
        delegate: false,
        first: CGROUP,
        requires: WALLS,
        tests: &[
            Selection::all("wall"),
            Selection::only("stockade_cgroup", &["tests::"]).without(UNFIT),
            Selection::only("stockade_native", &["id_range::"]),
            Selection::only("faults", &["refused_clone", "refused_writes"]),
            RUN,
            DOCTOR,
        ],
    },
    Round {
        name: "a user with a delegated cgroup",
        kernel: Kernel::Stable,
        user: "agent",
        delegate: true,
        first: CGROUP,
        requires: WALLS,
        tests: &[Selection::all("wall"), RUN, DOCTOR_HERE],
    },
];

/// Enough for the tests and their programs, some of which exceed their own memory limits.
const SIZE: Size =
    Size { memory_mib: 2048, cpus: 2, timeout: Duration::from_secs(1200), nested: false };

/// The newer kernel gets one processor: QEMU's translator sometimes panics when the kernel modifies
/// its own code while another processor runs it.
fn size(kernel: Kernel) -> Size {
    match kernel {
        Kernel::Stable => SIZE,
        Kernel::Newer => Size { cpus: 1, ..SIZE },
    }
}

/// The folder of the test executables in the machine.
const TESTS: &str = "/srv/tests";

/// The suite `lab`: the machines with the kernel of the host's Debian release.
pub(crate) fn stable_kernel(root: &Path) -> Result<Outcome> {
    run(root, Kernel::Stable)
}

/// The suite `lab-newer`: the machines with the backported kernel.
pub(crate) fn newer_kernel(root: &Path) -> Result<Outcome> {
    run(root, Kernel::Newer)
}

/// Boots the machines of one kernel, one after another.
fn run(root: &Path, kernel: Kernel) -> Result<Outcome> {
    if let Some(missing) = lab::missing_programs() {
        return Ok(Outcome::skipped(missing));
    }
    let files = files(root)?;
    let (mut passed, mut machines) = (0, 0);
    for round in ROUNDS.iter().filter(|round| round.kernel == kernel) {
        let job = Job {
            user: round.user.to_owned(),
            delegate: round.delegate,
            sysctls: Vec::new(),
            environment: environment(round),
            files: files.clone(),
            packages: Vec::new(),
            command: ["sh", "-c", &script(round)].map(str::to_owned).to_vec(),
        };
        let (code, output) = lab::capture(round.kernel, &job, size(round.kernel))?;
        let name = round.name;
        if code != 0 {
            let tests = failed_tests(&output);
            return Ok(Outcome::failed(format!("{name}: {tests}\n{output}")));
        }
        let ran = count_tests(&output).passed;
        ensure!(ran > 0, "{name}: no test ran at all\n{output}");
        passed += ran;
        machines += 1;
    }
    Ok(Outcome::passed(format!("{passed} tests in {machines} machines")))
}

/// Runs every selection, even after a failure; any failure fails the script.
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

fn environment(round: &Round) -> Vec<String> {
    vec![
        "STOCKADE_UNDER_TEST=/usr/local/bin/stockade".to_owned(),
        "STOCKADE_EXAMPLES=/srv/lab/examples".to_owned(),
        format!("STOCKADE_REQUIRE={}", round.requires),
    ]
}

/// The test targets that the rounds name, with their packages.
const TARGETS: [(&str, &str); 7] = [
    ("stockade", "run"),
    ("stockade", "commands"),
    ("stockade", "doctor"),
    ("stockade", "faults"),
    ("stockade-launcher", "wall"),
    ("stockade-cgroup", "stockade_cgroup"),
    ("stockade-native", "stockade_native"),
];

/// The command line, the tests as the suite `tests` built them, and the programs that the tests
/// start, at the paths where they look for them.
fn files(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = lab::ours(root)?;
    let (stockade, _) = files.first().context("the command line is the first file")?.clone();
    let mut build = test_command(root);
    build.args(["--no-run", "--message-format=json"]);
    let built = finish(build)?;
    ensure!(built.success, "the tests do not build\n{}", built.output);
    for (package, target) in TARGETS {
        let from = executable_of(&built.output, package, target)?;
        files.push((from, format!("{TESTS}/{target}")));
    }
    let tests = executable_of(&built.output, "stockade", "run")?;
    let profile = tests.ancestors().nth(2).context("tests lie two folders below their profile")?;
    let launch = fs::canonicalize(profile.join("stockade-launch"))?;
    for (from, name) in [(stockade, "stockade"), (launch, "stockade-launch")] {
        files.push((from, profile.join(name).display().to_string()));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_runs_every_selection_and_fails_if_any_fails() {
        const TESTS: &[Selection] =
            &[Selection::only("a", &["b::", "c::"]).without(&["d"]), Selection::all("e")];
        let round = Round { first: "true", tests: TESTS, ..ROUNDS[0] };
        let expected = "true\nfailed=0\n\
            /srv/tests/a --test-threads=2 b:: c:: --skip d || failed=1\n\
            /srv/tests/e --test-threads=2   || failed=1\n\
            exit $failed";
        assert_eq!(script(&round), expected);
    }
}
