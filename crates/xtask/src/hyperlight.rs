//! Builds the worker of the micro-VM wall: a workspace of its own, with a compiler of its own.
//!
//! It takes about ten minutes, so the cache keeps the build folder and the executable, and a build
//! of the same sources is used by every clone.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::component::{self, ComponentOptions};
use crate::program::{finish, on_path};
use crate::progress;

/// The folder of the workspace.
const WORKSPACE: &str = "hyperlight";
/// What the executable is made of, besides the component.
const SOURCES: [&str; 8] = [
    "hyperlight/Cargo.lock",
    "hyperlight/Cargo.toml",
    "hyperlight/rust-toolchain.toml",
    "hyperlight/worker/Cargo.toml",
    "hyperlight/world/Cargo.toml",
    "hyperlight/world/src",
    "hyperlight/worker/src",
    "crates/stockade-hyperlight/src/protocol.rs",
];
/// What builds the runtime inside the machine.
const PROGRAMS: [(&str, &str); 4] = [
    ("rustup", "install rustup: the worker needs another compiler"),
    ("clang", "apt install clang"),
    ("ld.lld", "apt install lld"),
    ("llvm-config", "apt install llvm"),
];

/// Why the worker cannot be built here, if it cannot.
pub(crate) fn missing() -> Option<String> {
    if std::env::consts::ARCH != "x86_64" {
        return Some("the micro-VM wall is for x86_64 only".to_owned());
    }
    let (name, remedy) = PROGRAMS.iter().find(|(name, _)| on_path(&[name]).is_none())?;
    Some(format!("no {name}; {remedy}"))
}

/// Builds the worker, unless the cache has it, and returns its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    if let Some(missing) = missing() {
        anyhow::bail!(missing);
    }
    let component = component::build(root, &ComponentOptions::python())?;
    let folder = cache::folder()?.join("hyperlight");
    let (worker, stamp) = (folder.join("worker"), folder.join("worker.sources"));
    let sources = sources(root, &component)?;
    if worker.is_file() && fs::read_to_string(&stamp).is_ok_and(|kept| kept == sources) {
        return Ok(worker);
    }
    progress::note("building the micro-VM wall's worker; the first time takes about ten minutes");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    let target = folder.join("build");
    let world = folder.join("world.wasm");
    cargo(root, &target, &world, &["build", "-p", "stockade-hyperlight-world"])?;
    let mut derive = Command::new(target.join("release/stockade-hyperlight-world"));
    // The build below looks at the file's time.
    let fresh = world.with_extension("new");
    derive.arg(&component).arg(&fresh);
    succeed(derive, "derive the world of the component")?;
    if fs::read(&fresh).ok() != fs::read(&world).ok() {
        fs::rename(&fresh, &world)?;
    }
    cargo(root, &target, &world, &["build", "-p", "stockade-hyperlight-worker"])?;
    let aside = folder.join(format!("worker.{}", std::process::id()));
    fs::copy(target.join("release/stockade-hyperlight-worker"), &aside)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o755))?;
    fs::rename(&aside, &worker).context("cannot place the worker")?;
    fs::write(&stamp, sources)?;
    Ok(worker)
}

/// Runs cargo in the workspace, with the compiler that it pins.
pub(crate) fn cargo(root: &Path, target: &Path, world: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new(on_path(&["cargo"]).context("no cargo on PATH")?);
    command.current_dir(root.join(WORKSPACE)).args(words).args(["--release", "--locked"]);
    // What the cargo of this program says about itself is not for another version.
    let own = |name: &str| {
        (name.starts_with("CARGO") && name != "CARGO_HOME") || name.starts_with("RUST")
    };
    for (name, _) in std::env::vars().filter(|(name, _)| own(name) && name != "RUSTUP_HOME") {
        command.env_remove(name);
    }
    command.env("CARGO_TARGET_DIR", target).env("WIT_WORLD", world);
    succeed(command, "build the worker")
}

fn succeed(command: Command, what: &str) -> Result<()> {
    let finished = finish(command)?;
    ensure!(finished.success, "cannot {what}: {}", finished.output);
    Ok(())
}

/// The digests of everything that the executable is made of.
fn sources(root: &Path, component: &Path) -> Result<String> {
    let mut files = vec![component.to_owned()];
    for name in SOURCES {
        let path = root.join(name);
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                files.push(entry?.path());
            }
        } else {
            files.push(path);
        }
    }
    files.sort();
    let mut digests = String::new();
    for file in files {
        let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        digests.push_str(&format!("{} {name}\n", component::digest(&file)?));
    }
    Ok(digests)
}
