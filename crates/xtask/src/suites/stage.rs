//! Test targets where every user can read them, to run as an unprivileged user.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cargo::test_command;
use crate::cache;
use crate::program::{executable_of, finish};
use crate::scratch::Scratch;

/// The user and group `nobody`, which own no files.
pub(super) const NOBODY: u32 = 65_534;

/// The name prefixes of folders that tests install into the cache: the Python clients of the
/// network gate, the MCP server of an example, the MCP client of PyPI, and packages for contexts.
const INSTALLED: [&str; 4] = ["clients-", "mcp-server-", "mcp-client-", "packages-"];

/// The `stockade` binary, test targets and examples; dropping it removes them.
pub(super) struct Stage {
    scratch: Scratch,
    pub(super) stockade: PathBuf,
}

impl Stage {
    /// Builds test targets and copies everything. The first of the packages with a target has it.
    pub(super) fn new(
        root: &Path,
        name: &str,
        packages: &[&str],
        targets: &[&str],
    ) -> Result<Stage> {
        let mut build = test_command(root);
        build.args(["--quiet", "--no-run", "--message-format=json"]);
        build.args(targets.iter().flat_map(|target| ["--test", target]));
        let built = finish(build)?;
        ensure!(built.success, "the tests do not build\n{}", built.output);
        let scratch = Scratch::new(name)?;
        let place = scratch.path();
        let binary = executable_of(&built.output, "stockade", "stockade")?;
        let stockade = copy(&binary, &place.join("stockade"))?;
        copy_folder(&root.join("examples"), &place.join("examples"))?;
        copy(&root.join("README.md"), &place.join("README.md"))?;
        copy_installed(&place.join("cache"))?;
        for target in targets {
            let built =
                packages.iter().find_map(|it| executable_of(&built.output, it, target).ok());
            let built = built.with_context(|| format!("no package has a test target {target}"))?;
            copy(&built, &place.join(target))?;
        }
        let home = place.join("home");
        fs::create_dir(&home)?;
        chown(&home, Some(NOBODY), Some(NOBODY))?;
        fs::set_permissions(place, Permissions::from_mode(0o755))?;
        Ok(Stage { scratch, stockade })
    }

    /// A folder that every user may read.
    pub(super) fn place(&self) -> &Path {
        self.scratch.path()
    }

    /// A test target as user 65534, with an empty home and few variables.
    pub(super) fn command(&self, target: &str) -> Command {
        let place = self.place();
        let home = place.join("home");
        let mut command = Command::new(place.join(target));
        command.current_dir(&home).env_clear().uid(NOBODY).gid(NOBODY);
        command.env("HOME", &home).env("XDG_CACHE_HOME", place.join("cache"));
        command.env("STOCKADE_UNDER_TEST", &self.stockade);
        command.env("STOCKADE_EXAMPLES", place.join("examples"));
        for name in ["PATH", "STOCKADE_REQUIRE"] {
            command.envs(env::var_os(name).map(|value| (name, value)));
        }
        command
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
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&source, &copied)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &copied)?;
        } else {
            copy(&source, &copied)?;
        }
    }
    Ok(())
}
