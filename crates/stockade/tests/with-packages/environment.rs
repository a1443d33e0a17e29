//! A virtual environment with the real packages that people use in contexts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the virtual environment has, from the package index of this host.
const PACKAGES: [&str; 2] = ["matplotlib", "pandas"];

/// The name of its directory.
const NAME: &str = "packages-1";

/// A virtual environment with the packages, made once per host; the error says why it cannot be made.
pub(crate) fn environment() -> &'static Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(home.clone()?.join(".cache")));
        let cache = cache.ok_or("there is no cache: neither XDG_CACHE_HOME nor HOME is set")?;
        let folder = cache.join("stockade").join(NAME);
        if !folder.join("complete").is_file() {
            return make(&folder, install);
        }
        if folder.join("bin/python3").exists() {
            return Ok(folder);
        }
        // Another user made it, with an interpreter that this user cannot reach.
        let own = home.ok_or("HOME is not set")?.join(NAME);
        match own.join("complete").is_file() {
            true => Ok(own),
            false => make(&own, |making| take_over(&folder, making)),
        }
    })
}

/// Makes the directory complete or not at all.
fn make(folder: &Path, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    // Moving a virtual environment breaks its scripts and not its interpreter.
    let making = folder.with_extension(format!("{}.making", std::process::id()));
    if let Err(why) = fill(&making) {
        // Removes an incomplete directory, so that no run uses it.
        let _ = std::fs::remove_dir_all(&making);
        return Err(why);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::write(making.join("complete"), "").map_err(failed)?;
    // A concurrent run may have created the directory first; it is equivalent.
    if std::fs::rename(&making, folder).is_err() {
        std::fs::remove_dir_all(&making).map_err(failed)?;
    }
    Ok(folder.to_owned())
}

/// Installs the packages from the package index.
fn install(making: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(making))?;
    let mut pip = Command::new(making.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]);
    run(pip.args(PACKAGES)).map_err(|why| format!("pip could not install {PACKAGES:?}: {why}"))
}

/// Copies the packages of another environment into one of this user's interpreter.
fn take_over(folder: &Path, making: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv", "--without-pip", "--clear"]).arg(making))?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for library in std::fs::read_dir(folder.join("lib")).map_err(failed)? {
        let library = library.map_err(failed)?.file_name();
        let own = making.join("lib").join(&library);
        if !own.is_dir() {
            return Err(format!("the packages are for {}", library.to_string_lossy()));
        }
        let packages = folder.join("lib").join(&library).join("site-packages");
        run(Command::new("cp").arg("--recursive").arg(packages).arg(own))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
