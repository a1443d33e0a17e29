//! The examples of tools, run as their documentation describes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{
    Run, binary, examples, finish, has_node, is_alive, skipped, walls_can_be_built,
};

/// Runs an example in its own directory.
#[track_caller]
fn example(folder: &Path, words: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command.args(["run", "--no-record", "--tools", "tools.yaml"]).args(words);
    finish(command.current_dir(folder))
}

const FOUND: &str = "2 notes on walls\n- gates: A gate is the one opening of a wall.\n- walls: A wall keeps what is inside from what is outside.\n";

#[test]
fn notes_are_searched_from_python_shell_and_javascript() {
    if !walls_can_be_built() {
        return;
    }
    let folder = examples().join("tools");
    for flags in [&[][..], &["--policy", "policy.yaml"]] {
        let run = |script| example(&folder, &[flags, &[script]].concat());
        assert_eq!(run("agent.py").text(), FOUND);
        assert_eq!(run("agent.sh").text(), FOUND);
        if has_node() {
            assert_eq!(run("agent.js").text(), FOUND);
        }
    }
}

#[test]
fn example_policy_of_the_notes_denies_as_documented() {
    if !walls_can_be_built() {
        return;
    }
    let folder = examples().join("tools");
    let words = ["--policy", "policy.yaml", "--", "stockade-tool", "search_notes"];
    let private = example(&folder, &[&words[..], &[r#"{"word":"password"}"#]].concat());
    assert_eq!(private.code, 126, "{private:?}");
    assert!(private.stderr.contains("passwords are not for agents"), "{private:?}");
    let other = example(&folder, &["--policy", "policy.yaml", "--", "stockade-tool", "add_note"]);
    assert_eq!(other.code, 126, "{other:?}");
}

#[test]
fn tool_of_a_third_party_server_is_a_function_inside() {
    if !walls_can_be_built() || !has_node() {
        return;
    }
    let server = match server() {
        Ok(server) => server,
        Err(reason) => return skipped("node", reason),
    };
    // The example after `npm ci`, in a writable directory.
    let folder = tempfile::tempdir().expect("there is room for an example");
    for name in ["tools.yaml", "agent.py"] {
        std::fs::copy(examples().join("tools/mcp").join(name), folder.path().join(name))
            .expect("the example can be copied");
    }
    std::os::unix::fs::symlink(server.join("node_modules"), folder.path().join("node_modules"))
        .expect("a link can be made");
    let run = example(folder.path(), &["agent.py"]);
    assert_eq!(
        run.text(),
        "The sum of 2 and 3 is 5.\nrefused: `arguments.b` must be a number, not a string\nChicago: Light rain / drizzle\n"
    );
    let left = processes_with(folder.path());
    assert!(left.is_empty(), "left: {left:?}");
}

/// Processes whose working directory is this one.
fn processes_with(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("processes can be listed").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_there = |process: &u32| {
        let place = std::fs::read_link(format!("/proc/{process}/cwd"));
        is_alive(*process) && place.is_ok_and(|place| place == folder)
    };
    numbers.filter(is_there).collect()
}

/// The directory with the server, which npm fills once for each lock file.
fn server() -> Result<&'static Path, &'static str> {
    static SERVER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let server = SERVER.get_or_init(install_server);
    server.as_ref().map(PathBuf::as_path).map_err(String::as_str)
}

fn install_server() -> Result<PathBuf, String> {
    let example = examples().join("tools/mcp");
    let lock =
        std::fs::read(example.join("package-lock.json")).map_err(|error| error.to_string())?;
    let mut hasher = DefaultHasher::new();
    lock.hash(&mut hasher);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no cache: neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("stockade/mcp-server-{:016x}", hasher.finish()));
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        return folder.canonicalize().map_err(failed);
    }
    let making = folder.with_extension(format!("{}.making", std::process::id()));
    std::fs::create_dir_all(&making).map_err(failed)?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(example.join(name), making.join(name)).map_err(failed)?;
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    let installed = finish(install.current_dir(&making));
    if installed.code != 0 {
        // Removes an incomplete directory, so that no run uses it.
        let _ = std::fs::remove_dir_all(&making);
        let errors = installed.stderr.trim().replace('\n', " ");
        return Err(format!("npm could not install the server: {errors}"));
    }
    // A concurrent run may have created the directory first; it is equivalent.
    if std::fs::rename(&making, &folder).is_err() {
        std::fs::remove_dir_all(&making).map_err(failed)?;
    }
    folder.canonicalize().map_err(failed)
}
