//! A Docker engine of the tests' own, with an image made from Debian packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use stockade_testing::{finish, is_root, within};

/// The variable with the directory of the running engine.
pub(crate) const DIRECTORY: &str = "STOCKADE_DOCKER_DIRECTORY";

/// The image that the container wall starts from by default.
const IMAGE: &str = "python:3.11-slim";

/// Installed in the image.
const PACKAGES: &str = "python3,ca-certificates,curl,python3-requests,python3-pip,passwd";

const READY: Duration = Duration::from_secs(60);

/// A running engine. Dropping it stops the engine and removes its files.
pub(crate) struct Engine {
    directory: tempfile::TempDir,
}

impl Engine {
    /// Starts an engine and imports the image. Fails with the missing part of the host and the
    /// reason.
    pub(crate) fn start() -> Result<Engine, (&'static str, String)> {
        if !is_root() {
            return Err(("docker", "only root can start an engine".to_owned()));
        }
        for program in ["dockerd", "docker", "containerd", "runc", "mmdebstrap"] {
            if !has(program) {
                return Err(("docker", format!("{program} is not installed")));
            }
        }
        let image = image().map_err(|reason| ("docker", reason))?;
        crate::images::download().map_err(|reason| ("docker", reason))?;
        let directory = tempfile::Builder::new().prefix("stockade-docker-").tempdir();
        let engine = Engine { directory: directory.expect("there is room for an engine") };
        start(engine.directory()).map_err(|reason| ("docker", reason))?;
        let imported = finish(docker(engine.directory()).arg("import").arg(image).arg(IMAGE));
        match imported.code {
            0 => Ok(engine),
            _ => Err(("docker", imported.stderr)),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        stop(self.directory());
    }
}

/// The directory of the running engine.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os(DIRECTORY).map(PathBuf::from).expect("main has started an engine")
}

/// The engine's address.
pub(crate) fn address(directory: &Path) -> String {
    format!("unix://{}", directory.join("docker.sock").display())
}

/// A `docker` command for the engine.
pub(crate) fn docker(directory: &Path) -> Command {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", address(directory)).env("HOME", directory);
    command
}

/// Starts the engine's process and waits until it answers.
pub(crate) fn start(directory: &Path) -> Result<(), String> {
    let place = |name: &str| directory.join(name);
    // kata-runtime cannot start.
    let runsc =
        r#"{"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none", "--platform=ptrace"]}"#;
    let configuration = format!(
        r#"{{"runtimes": {{"runsc": {runsc}, "kata-runtime": {{"path": "/bin/false"}}}}}}"#
    );
    let wrote = fs::write(place("daemon.json"), configuration);
    wrote.map_err(|error| format!("cannot configure an engine: {error}"))?;
    let log = File::create(place("log")).map_err(|error| format!("cannot keep a log: {error}"))?;
    let mut daemon = Command::new("dockerd");
    daemon.arg("--config-file").arg(place("daemon.json"));
    daemon.arg("--data-root").arg(place("data")).arg("--exec-root").arg(place("exec"));
    daemon.arg("--pidfile").arg(place("pid")).arg("--host").arg(address(directory));
    daemon.args(["--iptables=false", "--ip-forward=false", "--bridge=none"]);
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = daemon.spawn().map_err(|error| format!("cannot start dockerd: {error}"))?;
    let answers = || finish(docker(directory).arg("version")).code == 0;
    if within(READY, answers) {
        return Ok(());
    }
    let _ = child.kill();
    let log = fs::read_to_string(place("log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(3).collect();
    Err(format!("the engine does not answer: {}", last.join(" | ")))
}

/// Stops the engine's process and waits for its end.
pub(crate) fn stop(directory: &Path) {
    let Ok(text) = fs::read_to_string(directory.join("pid")) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw) else {
        return;
    };
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    // The engine removes the file when it ends; its process may stay as a zombie of another test.
    let gone = || !directory.join("pid").exists();
    if !within(READY, gone) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The directory for what the tests download or make once.
pub(crate) fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Some(cache?.join("stockade").join("docker"))
}

/// The image as an archive, made once and kept in the user's cache.
fn image() -> Result<PathBuf, String> {
    let folder = cache().ok_or("there is no directory for an image")?;
    let file = folder.join("python-bookworm-2.tar");
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("cannot keep an image: {error}"))?;
    let new = folder.join(format!("{}.new", std::process::id()));
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=essential", "--format=tar"]);
    command.arg(format!("--include={PACKAGES}"));
    command.arg("--customize-hook=ln -sf python3 \"$1/usr/bin/python\"");
    // Debian's pip refuses to install; the image that this one stands for has another.
    command.arg("--customize-hook=rm \"$1\"/usr/lib/python3.11/EXTERNALLY-MANAGED");
    command.arg("bookworm").arg(&new);
    let made = finish(command);
    if made.code != 0 {
        let _ = fs::remove_file(&new);
        return Err(format!("mmdebstrap cannot make an image: {}", made.stderr));
    }
    fs::rename(&new, &file).map_err(|error| format!("cannot keep an image: {error}"))?;
    Ok(file)
}

pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}
