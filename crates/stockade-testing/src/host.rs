//! The binary under test, and the parts of the host that tests need.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::program::finish;

/// The binary under test: `STOCKADE_UNDER_TEST`, else the one that cargo built for the test target.
pub fn under_test(built: &str) -> PathBuf {
    place("STOCKADE_UNDER_TEST", Path::new(built))
}

/// The examples that come with Stockade: `STOCKADE_EXAMPLES`, else those of the clone.
pub fn examples() -> PathBuf {
    place("STOCKADE_EXAMPLES", &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"))
}

fn place(variable: &str, otherwise: &Path) -> PathBuf {
    env::var_os(variable).map_or_else(|| otherwise.to_owned(), PathBuf::from)
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether `stockade run` of this binary builds a wall on this host. If it does not, prints why
/// with [`skipped`].
pub fn walls_can_be_built(binary: &Path) -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| {
        let run = finish(Command::new(binary).args(["run", "--no-record", "--", "true"]));
        (run.code != 0).then_some(run.stderr)
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// Prints that a test does not run because a part of the host is missing.
///
/// # Panics
/// If `STOCKADE_REQUIRE` names that part.
pub fn skipped(part: &str, reason: &str) {
    let required = env::var("STOCKADE_REQUIRE").unwrap_or_default();
    assert!(!is_required(part, &required), "required, but skipped: {reason}");
    say(&format!("skipped for want of {part}: {reason}"));
}

/// Prints that the rest of a test has no meaning for this user or this host.
pub fn not_run(reason: &str) {
    say(&format!("not for this user or host: {reason}"));
}

/// Writes one line past the test harness, which captures the output of tests that pass.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "run tests: {}", line.trim().replace('\n', " "));
}

fn is_required(part: &str, required: &str) -> bool {
    required.split(',').map(str::trim).any(|name| name == part || name == "all")
}

#[cfg(test)]
mod tests {
    use super::is_required;

    #[test]
    fn part_is_required_by_name_or_by_all() {
        for required in ["terminals", "node, terminals", "all"] {
            assert!(is_required("terminals", required), "{required}");
        }
        for required in ["", "node", "terminal"] {
            assert!(!is_required("terminals", required), "{required}");
        }
    }
}
