//! Running other programs and capturing their output.

use std::env;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

/// The result of a program.
pub(crate) struct Finished {
    pub(crate) success: bool,
    /// Standard output and standard error, interleaved.
    pub(crate) output: String,
}

/// The cargo that runs this xtask, in `folder`.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}

/// Runs a program to its end, without input.
pub(crate) fn finish(mut command: Command) -> Result<Finished> {
    let name = command.get_program().to_owned();
    let (mut reader, writer) = io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", name.display()))?;
    // The command holds the writing end; the reader sees the end of file only once the command is
    // dropped.
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).with_context(|| format!("cannot read {}", name.display()))?;
    let status = child.wait()?;
    let output = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Finished { success: status.success(), output })
}

/// The executable of a target, from cargo's JSON messages.
pub(crate) fn executable(messages: &str, target: &str) -> Result<PathBuf> {
    let found = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        // The unit tests of a library have its name too.
        let is_library = message["target"]["kind"][0] == "lib";
        let is_wanted = message["target"]["name"] == target && !is_library;
        let path = message["executable"].as_str().filter(|_| is_wanted)?;
        Some(PathBuf::from(path))
    });
    found.with_context(|| format!("cargo names no executable of {target}"))
}

/// The executable of a target of one package, from cargo's JSON messages: several packages have a
/// test target `wall`. The unit tests of a library count if nothing else has the name.
pub(crate) fn executable_of(messages: &str, package: &str, target: &str) -> Result<PathBuf> {
    let found = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        // Each package has the name of its folder.
        let is_package = manifest.parent()?.file_name()? == package;
        let is_wanted = is_package && message["target"]["name"] == target;
        let path = message["executable"].as_str().filter(|_| is_wanted)?;
        let is_library = message["target"]["kind"][0] == "lib";
        Some((is_library, PathBuf::from(path)))
    });
    let found = found.min_by_key(|(is_library, _)| *is_library);
    let (_, path) =
        found.with_context(|| format!("cargo names no executable of {target} in {package}"))?;
    Ok(path)
}

/// The first of these programs on `PATH`.
pub(crate) fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    names.iter().find_map(|name| {
        env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_and_the_exit_are_kept() {
        let mut shell = Command::new("bash");
        shell.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = finish(shell).unwrap();
        assert_eq!((finished.success, finished.output.as_str()), (false, "out\nerr\n"));
    }

    #[test]
    fn missing_program_is_an_error_that_names_it() {
        let error = finish(Command::new("no-such-program")).err().unwrap();
        assert_eq!(error.to_string(), "cannot start no-such-program");
    }

    #[test]
    fn first_program_that_exists_is_found() {
        let found = on_path(&["no-such-program", "bash"]).unwrap();
        assert_eq!(found.file_name().unwrap(), "bash");
        assert_eq!(on_path(&["no-such-program"]), None);
    }

    #[test]
    fn executable_of_the_target_is_found() {
        let messages = "\
warning: something
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"run\"},\"executable\":null}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"stockade\"},\"executable\":\"/t/stockade\"}
{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"run\"},\"executable\":\"/t/run-1\"}";
        assert_eq!(executable(messages, "run").unwrap(), Path::new("/t/run-1"));
        assert_eq!(executable(messages, "stockade").unwrap(), Path::new("/t/stockade"));
        assert!(executable(messages, "other").is_err());
    }

    #[test]
    fn executable_is_that_of_the_named_package_and_a_library_is_the_last_choice() {
        let line = |package: &str, name: &str, kind: &str, path: &str| {
            format!(
                "{{\"manifest_path\":\"/w/crates/{package}/Cargo.toml\",\"executable\":\"{path}\",\
                 \"target\":{{\"name\":\"{name}\",\"kind\":[\"{kind}\"]}}}}\n"
            )
        };
        let messages = [
            line("stockade-aca", "wall", "test", "/t/wall-1"),
            line("stockade-launcher", "wall", "test", "/t/wall-2"),
            line("stockade", "stockade", "lib", "/t/unit-tests"),
            line("stockade", "stockade", "bin", "/t/stockade"),
            line("stockade-cgroup", "stockade_cgroup", "lib", "/t/cgroup-1"),
        ];
        let of = |package, target| executable_of(&messages.concat(), package, target);
        assert_eq!(of("stockade-launcher", "wall").unwrap(), Path::new("/t/wall-2"));
        assert_eq!(of("stockade", "stockade").unwrap(), Path::new("/t/stockade"));
        let library = of("stockade-cgroup", "stockade_cgroup").unwrap();
        assert_eq!(library, Path::new("/t/cgroup-1"));
        assert!(of("stockade", "wall").is_err());
    }
}
