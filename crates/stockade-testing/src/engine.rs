//! A Docker engine of the tests' own, with an image made from Debian packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{finish, is_root, set_mode, within};

/// The variable with the directory of the running engine.
pub const DIRECTORY: &str = "STOCKADE_DOCKER_DIRECTORY";

/// The image that the container wall starts from by default.
pub const IMAGE: &str = "python:3.11-slim";

/// The file of that image in [`cache`]; the number changes with its content.
pub const IMAGE_FILE: &str = "python-bookworm-2.tar";

/// Installed in the image.
const PACKAGES: &str = "python3,ca-certificates,curl,python3-requests,python3-pip,passwd";

/// gVisor as the engine must start it on hosts without hardware virtualisation.
pub const GVISOR: &str =
    r#"{"path": "/usr/bin/runsc", "runtimeArgs": ["--network=none", "--platform=ptrace"]}"#;

const READY: Duration = Duration::from_secs(60);

/// A running engine. Dropping it stops the engine and removes its files.
#[derive(Debug)]
pub struct Engine {
    directory: tempfile::TempDir,
}

impl Engine {
    /// Starts an engine that every user of the host may use, and imports the image. Fails with the
    /// missing part of the host and the reason.
    pub fn start() -> Result<Engine, (&'static str, String)> {
        let docker = |reason: String| ("docker", reason);
        if !is_root() {
            return Err(docker("only root can start an engine".to_owned()));
        }
        for program in ["dockerd", "docker", "containerd", "runc", "mmdebstrap"] {
            if !has(program) {
                return Err(docker(format!("{program} is not installed")));
            }
        }
        let image = image().map_err(docker)?;
        let directory = tempfile::Builder::new().prefix("stockade-docker-").tempdir();
        let directory = directory.map_err(|error| docker(format!("no directory: {error}")))?;
        set_mode(directory.path(), 0o711);
        let engine = Engine { directory };
        start(engine.directory(), GVISOR, &[]).map_err(docker)?;
        let imported = finish(client(engine.directory()).arg("import").arg(image).arg(IMAGE));
        match imported.code {
            0 => Ok(engine),
            _ => Err(docker(imported.stderr)),
        }
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        stop(self.directory());
    }
}

/// The address of the engine in a directory.
pub fn address(directory: &Path) -> String {
    format!("unix://{}", directory.join("docker.sock").display())
}

/// A `docker` command for the engine in a directory.
pub fn client(directory: &Path) -> Command {
    let mut command = Command::new("docker");
    command.env("DOCKER_HOST", address(directory)).env("HOME", directory);
    command
}

/// Starts the process of the engine in a directory, with a runtime `runsc` and more arguments, and
/// waits until it answers. Its runtime `kata-runtime` cannot start.
pub fn start(directory: &Path, runsc: &str, arguments: &[&str]) -> Result<(), String> {
    let place = |name: &str| directory.join(name);
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
    daemon.args(["--iptables=false", "--ip-forward=false", "--bridge=none"]).args(arguments);
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut child = daemon.spawn().map_err(|error| format!("cannot start dockerd: {error}"))?;
    let answers = || finish(client(directory).arg("version")).code == 0;
    if within(READY, answers) {
        set_mode(&place("docker.sock"), 0o666);
        return Ok(());
    }
    let _ = child.kill();
    let log = fs::read_to_string(place("log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().rev().take(3).collect();
    Err(format!("the engine does not answer: {}", last.join(" | ")))
}

/// Stops the process of the engine in a directory and waits for its end.
pub fn stop(directory: &Path) {
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

/// Writes a program that passes its arguments to `stockade` and selects a runtime of the engine
/// wherever a wall is built. As `STOCKADE_UNDER_TEST` it runs the tests of the command line, which
/// know nothing of containers, behind the container wall.
pub fn write_wrapper(
    file: &Path,
    stockade: &Path,
    directory: &Path,
    runtime: &str,
) -> std::io::Result<()> {
    let (stockade, address) = (stockade.display(), address(directory));
    let text = format!(
        "#!/bin/sh\nexport DOCKER_HOST='{address}'\nfor word; do\n  shift\n  \
         set -- \"$@\" \"$word\"\n  case \"$seen$word\" in\n    -*) ;;\n    \
         run|create) set -- \"$@\" --provider docker --runtime {runtime}; seen=x ;;\n    \
         *) seen=x ;;\n  esac\ndone\nexec '{stockade}' \"$@\"\n"
    );
    fs::write(file, text)?;
    set_mode(file, 0o755);
    Ok(())
}

/// Lets programs in containers of the image trust an authority, on the engine of `DOCKER_HOST`.
pub fn trust(authority: &Path) -> Result<(), String> {
    let name = format!("trust-{}", std::process::id());
    let inside = format!("{name}:/usr/local/share/ca-certificates/authority.crt");
    let file = authority.to_string_lossy();
    for words in [
        &["create", "--network", "none", "--name", &name, IMAGE, "update-ca-certificates"][..],
        &["cp", &file, &inside],
        &["start", "--attach", &name],
        &["commit", &name, IMAGE],
        &["rm", &name],
    ] {
        let done = finish(Command::new("docker").args(words));
        if done.code != 0 {
            return Err(format!("docker {}: {}", words[0], done.stderr));
        }
    }
    Ok(())
}

/// Whether a program is on `PATH`.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The directory for what the tests download or make once.
pub fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    Some(cache?.join("stockade").join("docker"))
}

/// The image as an archive, made once and kept in the user's cache.
fn image() -> Result<PathBuf, String> {
    let folder = cache().ok_or("there is no directory for an image")?;
    let file = folder.join(IMAGE_FILE);
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&folder).map_err(|error| format!("cannot keep an image: {error}"))?;
    let new = folder.join(format!("{}.new", std::process::id()));
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=essential", "--format=tar"]);
    command.arg(format!("--include={PACKAGES}"));
    command.arg("--customize-hook=ln -sf python3 \"$1/usr/bin/python\"");
    // Debian's pip refuses to install; the image that this one represents has another.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapper_adds_the_runtime_only_where_a_wall_is_built() {
        let folder = crate::Scratch::new();
        let file = folder.path().join("wrapper");
        write_wrapper(&file, Path::new("/bin/echo"), Path::new("/engine"), "runsc").unwrap();
        let flags = "--provider docker --runtime runsc";
        for (words, expected) in [
            (
                &["run", "--json", "--", "a  b", "run"][..],
                format!("run {flags} --json -- a  b run"),
            ),
            (&["--json", "create", "--name", "x"], format!("--json create {flags} --name x")),
            (&["exec", "run", "--", "create"], "exec run -- create".to_owned()),
            (&[], String::new()),
        ] {
            assert_eq!(finish(Command::new(&file).args(words)).text(), format!("{expected}\n"));
        }
    }
}
