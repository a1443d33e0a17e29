//! The tests of the command line and of files that hold behind any wall, behind the container wall.
//!
//! A test runs unless `not_portable.toml` lists it with a reason, so a new test is tried behind this
//! wall too. An entry that names no test fails the suite.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use stockade_testing::engine;
use toml::{Table, Value};

use super::super::stage::Stage;
use crate::program::{Finished, finish};

/// The test targets that can run at the same time on two runtimes.
pub(super) const TOGETHER: [&str; 4] = ["run", "tools", "sessions", "files"];

/// The test target that adds an authority to the image.
pub(super) const ALONE: &str = "network";

const NOT_PORTABLE: &str = include_str!("not_portable.toml");

/// Runs the portable tests of targets with a runtime, as an unprivileged user.
pub(super) fn run(
    stage: &Stage,
    directory: &Path,
    runtime: &str,
    targets: &[&str],
) -> Result<Finished> {
    let excluded = parse(NOT_PORTABLE)?;
    let wrapper = stage.place().join(format!("stockade-{runtime}"));
    engine::write_wrapper(&wrapper, &stage.stockade, directory, runtime)?;
    let (mut success, mut output) = (true, String::new());
    for target in targets {
        let mut list = stage.command(target);
        list.args(["--list", "--format=terse"]);
        let listed = finish(list)?;
        ensure!(listed.success, "{target} cannot list its tests\n{}", listed.output);
        let mut tests = stage.command(target);
        tests.env("STOCKADE_UNDER_TEST", &wrapper).env("DOCKER_HOST", engine::address(directory));
        tests.env("STOCKADE_TEST_PROVIDER", "docker").env("STOCKADE_TEST_RUNTIME", runtime);
        tests.arg("--exact");
        for name in skipped(&excluded, target, runtime, &names(&listed.output))? {
            tests.args(["--skip", &name]);
        }
        let finished = finish(tests)?;
        success &= finished.success;
        output.push_str(&format!("{target} on {runtime}\n{}", finished.output));
    }
    Ok(Finished { success, output })
}

/// Tests of one target that do not hold behind this wall.
#[derive(Debug, PartialEq, Eq)]
struct Excluded {
    target: String,
    /// `any` or the one runtime.
    runtime: String,
    /// Names; one that ends with `::` is a module.
    tests: Vec<String>,
}

fn parse(text: &str) -> Result<Vec<Excluded>> {
    let file: Table = text.parse().context("not_portable.toml")?;
    let entries = file.get("excluded").and_then(Value::as_array).context("no [[excluded]]")?;
    entries.iter().map(entry).collect()
}

fn entry(value: &Value) -> Result<Excluded> {
    let text = |key: &str| {
        let found = value.get(key).and_then(Value::as_str).unwrap_or_default().trim();
        ensure!(!found.is_empty(), "an entry of not_portable.toml has no {key}: {value:?}");
        Ok(found.to_owned())
    };
    text("reason")?;
    let (target, runtime) = (text("target")?, text("runtime")?);
    let is_known = TOGETHER.contains(&&*target) || target == ALONE;
    ensure!(is_known, "not_portable.toml names an unknown target {target}");
    if !["any", "runc", "runsc"].contains(&&*runtime) {
        bail!("not_portable.toml names an unknown runtime {runtime}");
    }
    let tests = value.get("tests").and_then(Value::as_array).into_iter().flatten();
    let tests = tests.filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Excluded { target, runtime, tests })
}

/// The names in the output of `--list`.
fn names(listed: &str) -> Vec<&str> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).collect()
}

/// The tests to leave out; fails if an entry matches no test, or two entries the same one.
fn skipped(
    excluded: &[Excluded],
    target: &str,
    runtime: &str,
    names: &[&str],
) -> Result<Vec<String>> {
    let mut found = BTreeMap::new();
    let of_target = excluded.iter().filter(|entry| entry.target == target);
    for entry in of_target {
        for test in &entry.tests {
            let is_named = |name: &&&str| match test.ends_with("::") {
                true => name.starts_with(test),
                false => *name == test,
            };
            let matching: Vec<&&str> = names.iter().filter(is_named).collect();
            ensure!(!matching.is_empty(), "not_portable.toml: {target} has no test {test}");
            if entry.runtime != "any" && entry.runtime != runtime {
                continue;
            }
            for name in matching {
                let is_second = found.insert((*name).to_owned(), ()).is_some();
                ensure!(!is_second, "not_portable.toml lists {target} {name} twice");
            }
        }
    }
    Ok(found.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(runtime: &str, test: &str) -> Excluded {
        let (target, runtime) = ("run".to_owned(), runtime.to_owned());
        Excluded { target, runtime, tests: vec![test.to_owned()] }
    }

    #[test]
    fn list_is_valid_and_each_entry_has_a_reason() {
        assert!(!parse(NOT_PORTABLE).unwrap().is_empty());
        let entry = "[[excluded]]\ntarget = \"run\"\nruntime = \"any\"\ntests = [\"a\"]\n";
        assert!(parse(entry).is_err());
        let whole = format!("{entry}reason = \"because\"\n");
        assert_eq!(parse(&whole).unwrap(), [excluded("any", "a")]);
        assert!(parse(&whole.replace("run\"", "runs\"")).is_err());
        assert!(parse(&whole.replace("any", "crun")).is_err());
    }

    #[test]
    fn modules_and_names_are_left_out_and_a_stale_entry_is_an_error() {
        let listed = names("a::b: test\na::c: test\nd: test\nx: benchmark\n");
        assert_eq!(listed, ["a::b", "a::c", "d"]);
        let list = [excluded("any", "a::"), excluded("runsc", "d")];
        assert_eq!(skipped(&list, "run", "runc", &listed).unwrap(), ["a::b", "a::c"]);
        assert_eq!(skipped(&list, "run", "runsc", &listed).unwrap(), ["a::b", "a::c", "d"]);
        assert_eq!(skipped(&list, "tools", "runsc", &listed).unwrap(), [] as [String; 0]);
        assert!(skipped(&[excluded("runsc", "gone")], "run", "runc", &listed).is_err());
        assert!(
            skipped(&[excluded("any", "a::"), excluded("any", "a::b")], "run", "runc", &listed)
                .is_err()
        );
    }
}
