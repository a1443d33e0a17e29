//! The tests of real walls as an unprivileged user.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cargo::{count_tests, failed_tests};
use crate::cache;
use crate::program::{cargo, executable, finish};
use crate::scratch::Scratch;
use crate::suite::Outcome;

/// The user and group `nobody`, which own no files.
const NOBODY: u32 = 65_534;

/// The test targets that build walls: those of the command line, and four of the native wall.
const TARGETS: [&str; 15] = [
    "run",
    "commands",
    "doctor",
    "executions",
    "faults",
    "files",
    "images",
    "leaks",
    "leaves",
    "network",
    "record",
    "sessions",
    "tool_socket",
    "tools",
    "egress",
];

/// The name prefixes of folders that tests install into the cache: the Python clients of the
/// network gate, and the MCP server of an example.
const INSTALLED: [&str; 2] = ["clients-", "mcp-server-"];

/// The prefix of the line with which the tests report why none of them ran.
const NO_WALLS: &str = "run tests: skipped for want of namespaces: ";

/// Copies everything that the tests need to where every user can read it, and runs them there.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let is_root = fs::metadata("/proc/self").context("cannot tell who runs this")?.uid() == 0;
    if !is_root {
        return Ok(Outcome::passed("the suite tests ran them as an ordinary user"));
    }
    let mut build = cargo(root);
    build.args(["test", "--quiet", "--locked"]);
    build.args(["--package", "stockade", "--package", "stockade-native"]);
    build.args(TARGETS.iter().flat_map(|target| ["--test", target]));
    build.args(["--no-run", "--message-format=json"]);
    let built = finish(build)?;
    ensure!(built.success, "the tests do not build\n{}", built.output);
    let scratch = Scratch::new("native")?;
    let place = scratch.path();
    let stockade = copy(&executable(&built.output, "stockade")?, &place.join("stockade"))?;
    let examples = place.join("examples");
    copy_folder(&root.join("examples"), &examples)?;
    let cache = place.join("cache");
    copy_installed(&cache)?;
    let home = place.join("home");
    fs::create_dir(&home)?;
    chown(&home, Some(NOBODY), Some(NOBODY))?;
    fs::set_permissions(place, Permissions::from_mode(0o755))?;

    let (mut success, mut output) = (true, String::new());
    for target in TARGETS {
        let tests = copy(&executable(&built.output, target)?, &place.join(target))?;
        let mut command = Command::new(tests);
        command.current_dir(&home).env_clear().uid(NOBODY).gid(NOBODY);
        command.env("HOME", &home).env("XDG_CACHE_HOME", &cache);
        command.env("STOCKADE_UNDER_TEST", &stockade).env("STOCKADE_EXAMPLES", &examples);
        for name in ["PATH", "STOCKADE_REQUIRE"] {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        let finished = finish(command)?;
        success &= finished.success;
        output.push_str(&finished.output);
    }
    Ok(judge(success, &output))
}

fn judge(success: bool, output: &str) -> Outcome {
    if !success {
        return Outcome::failed(format!("{}\n{output}", failed_tests(output)));
    }
    if let Some(reason) = output.lines().find_map(|line| line.split_once(NO_WALLS)) {
        return Outcome::skipped(reason.1);
    }
    match count_tests(output).passed {
        0 => Outcome::failed("no test ran at all"),
        passed => Outcome::passed(format!("{passed} tests as user {NOBODY}")),
    }
}

/// Copies what the tests have installed, if anything, so that it is not downloaded again.
fn copy_installed(cache: &Path) -> Result<()> {
    let (from, to) = (cache::folder()?, cache.join("stockade"));
    fs::create_dir_all(&to)?;
    for folder in [cache, &to] {
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    let entries = fs::read_dir(&from).into_iter().flatten().flatten();
    let is_whole = |name: &str| {
        // Skips a folder that another run is still filling.
        INSTALLED.iter().any(|begin| name.starts_with(begin)) && !name.ends_with(".making")
    };
    for entry in entries.filter(|entry| is_whole(&entry.file_name().to_string_lossy())) {
        copy_folder(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    Ok(to.to_path_buf())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copied) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy_folder(&source, &copied)?,
            false => _ = copy(&source, &copied)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_without_walls_are_skipped_with_their_reason() {
        let result = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured";
        let passed = Outcome::passed("7 tests as user 65534");
        assert_eq!(judge(true, result), passed);
        let skipped = format!("{NO_WALLS}error: no namespaces\n{result}");
        assert_eq!(judge(true, &skipped), Outcome::skipped("error: no namespaces"));
        assert!(matches!(judge(false, &skipped), Outcome::Failed { .. }));
        assert_eq!(judge(true, ""), Outcome::failed("no test ran at all"));
    }
}
