//! Whole sessions with the public client libraries.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::support::{Place, binary, finish, not_run, skipped};

/// The library of PyPI.
const PACKAGE: &str = "mcp==2.3.0";

const PYTHON: &str = include_str!("programs/session.py");
const JAVASCRIPT: &str = include_str!("programs/session.mjs");
const PACKAGES: [(&str, &str); 2] = [
    ("package.json", include_str!("npm/package.json")),
    ("package-lock.json", include_str!("npm/package-lock.json")),
];

/// Where things are installed once per host.
fn cache() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("there is no cache: neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("stockade"))
}

/// A folder of the cache, which `fill` fills unless it exists.
fn filled(name: &str, fill: impl FnOnce(&Path) -> Command) -> Result<PathBuf, String> {
    let folder = cache()?.join(name);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        return Ok(folder);
    }
    let making = folder.with_extension(format!("{}.making", std::process::id()));
    std::fs::create_dir_all(&making).map_err(failed)?;
    let installed = finish(fill(&making));
    if installed.code != 0 {
        // Removes an incomplete directory, so that no run uses it.
        let _ = std::fs::remove_dir_all(&making);
        return Err(format!("cannot install: {}", installed.stderr.trim().replace('\n', " ")));
    }
    // A concurrent run may have created the directory first; it is equivalent.
    if std::fs::rename(&making, &folder).is_err() {
        std::fs::remove_dir_all(&making).map_err(failed)?;
    }
    Ok(folder)
}

/// The library of PyPI, for the interpreter that `python3` names.
fn python_library() -> Result<PathBuf, String> {
    let version = finish(
        Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2], sep='.')"]),
    );
    let version = version.stdout.trim().to_owned();
    filled(&format!("mcp-client-{version}-{PACKAGE}"), |making| {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target"]);
        install.arg(making).arg(PACKAGE);
        install
    })
}

/// The packages of npm; `None` where they are not wanted or not there, which is reported.
pub(crate) fn packages() -> Option<&'static Path> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if std::env::var_os("STOCKADE_LONG").is_none() {
        not_run("packages of npm are installed by the suite `mcp` only");
        return None;
    }
    if Command::new("npm").arg("--version").output().is_err() {
        skipped("node", "npm is not installed");
        return None;
    }
    let packages = INSTALLED.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        PACKAGES.hash(&mut hasher);
        filled(&format!("mcp-packages-{:016x}", hasher.finish()), |making| {
            for (name, text) in PACKAGES {
                std::fs::write(making.join(name), text).expect("it can be written");
            }
            let mut install = Command::new("npm");
            install.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(making);
            install
        })
    });
    match packages {
        Ok(packages) => Some(packages),
        Err(reason) => {
            skipped("node", reason);
            None
        }
    }
}

/// The Node that the conformance suite needs.
pub(crate) fn node(packages: &Path) -> Command {
    Command::new(packages.join("node_modules/node/bin/node"))
}

#[test]
fn public_python_client_drives_a_whole_session_in_both_revisions() {
    let Some(place) = Place::new() else { return };
    let library = match python_library() {
        Ok(library) => library,
        Err(reason) => return skipped("clients", &reason),
    };
    for (mode, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let mut client = Command::new("python3");
        client.arg(place.scratch.file("session.py", PYTHON)).arg(mode).arg(binary()).arg("mcp");
        client.env("PYTHONPATH", &library);
        place.prepare(&mut client);
        let found: Value = finish(client).json();
        assert_eq!(found["version"], version, "{found}");
        assert_eq!(found["tools"].as_array().unwrap().len(), 12);
        assert_eq!(found["stdout"], "45\n");
        assert_eq!(found["content"], json!(["text", "image"]));
        assert_eq!(found["picture"], "image/png");
        assert_eq!(found["command"], json!(["out\n", "err\n", 7]));
        assert_eq!((&found["read"], &found["listed"]), (&json!("text\n"), &json!(["b"])));
        assert_eq!(found["diff"], json!([["a/b", "-text\n+changed\n"]]));
        assert_eq!((&found["restored"], &found["again"]), (&json!("first"), &json!("text\n")));
        assert!(found["why"].as_str().unwrap().contains("network_allowlist"), "{found}");
        assert_eq!(found["wrong"][0], true);
        assert!(found["wrong"][1].as_str().unwrap().contains("remedy"), "{found}");
        assert_eq!((&found["closed"], &found["sandboxes"]), (&json!(true), &json!([])));
        place.wait_for_no_session();
    }
}

#[test]
fn public_javascript_client_drives_a_session() {
    let Some(place) = Place::new() else { return };
    let Some(packages) = packages() else { return };
    // Modules are found next to the program.
    let program = packages.join("session.mjs");
    std::fs::write(&program, JAVASCRIPT).expect("it can be written");
    let mut client = node(packages);
    place.prepare(client.arg(&program).arg(binary()).arg("mcp"));
    let found = finish(client).json();
    let expected = json!({
        "tools": 12, "stdout": "from npm\n", "read": "text", "listed": ["a"], "why": "deny",
        "wrong": true, "closed": true,
    });
    assert_eq!(found, expected);
    place.wait_for_no_session();
}
