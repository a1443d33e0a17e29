//! The rows about the container wall, next to the engine's own command with the same image.

use std::ffi::OsString;
use std::path::PathBuf;

use super::peers;
use super::programs::{Timed, output};
use super::report::{Bound, Row};
use super::rows::{Ours, passes};
use super::samples::Side;
use super::session_rows::{once_more, removals};
use super::sessions::Sessions;
use crate::args::BenchArgs;

/// The runtime on both sides: ours would otherwise be the strongest of the engine.
const RUNTIME: &str = "runc";
/// What every container of the engine's own command gets.
const ENGINE: [&str; 4] = ["--runtime", RUNTIME, "--network=none", "--pull=never"];

/// The engine's command, and the image that both sides use.
struct Docker {
    program: PathBuf,
    image: String,
}

impl Docker {
    fn find(args: &BenchArgs) -> anyhow::Result<Docker> {
        let (program, image) = peers::docker(args.image.as_deref())?;
        Ok(Docker { program, image })
    }

    /// `docker run --rm` of `/bin/true`.
    fn run(&self) -> Side<'static> {
        let words = [&["run", "--rm"], &ENGINE[..], &["--", &self.image]].concat();
        Timed::new("docker run", peers::line(self.program.clone(), &words), "").side()
    }

    /// The options that choose the same image and runtime.
    fn options(&self) -> [&str; 6] {
        ["--provider", "docker", "--runtime", RUNTIME, "--image", &self.image]
    }
}

pub(super) fn run(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let docker = Docker::find(args)?;
    let argv = ours.argv(&[&docker.options()[..], &["--", "/bin/true"]].concat());
    let mut sides = vec![Timed::new("stockade", argv, "").side(), docker.run()];
    let what = "a new Docker sandbox to the end of /bin/true in it";
    let bound = Bound::Ratio { against: "docker run", most: 1.1 };
    Ok(Row::new(("docker-run", what), "ms", bound, passes("docker-run", &mut sides, args)?))
}

pub(super) fn exec(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let docker = Docker::find(args)?;
    let sessions = Sessions::new(ours.stockade(), "docker-exec")?;
    let session = sessions.create(&docker.options())?;
    let container = Container::start(&docker)?;
    let mut sides = vec![once_more(&sessions, &session), docker.run(), container.exec()];
    let what = "one more execution of /bin/true in a Docker sandbox";
    let bound = Bound::Ratio { against: "docker run", most: 0.15 };
    let passes = passes("docker-exec", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("docker-exec", what), "ms", bound, passes))
}

pub(super) fn destroy(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let docker = Docker::find(args)?;
    let sessions = Sessions::new(ours.stockade(), "docker-destroy")?;
    let passes = removals("docker-destroy", &sessions, &docker.options(), args)?;
    let what = "removing a Docker sandbox, as its client sees it";
    Ok(Row::new(("docker-destroy", what), "ms", Bound::Median { most: 50.0 }, passes))
}

/// A container that waits for `docker exec`. Dropping it removes it.
struct Container {
    program: PathBuf,
    name: String,
}

impl Container {
    fn start(docker: &Docker) -> anyhow::Result<Container> {
        let name = format!("stockade-bench-{}", std::process::id());
        let container = Container { program: docker.program.clone(), name };
        let rest = ["--name", &container.name, "--", &docker.image, "sleep", "3600"];
        let argv = container.argv(&[&["run", "--detach", "--rm"], &ENGINE[..], &rest].concat());
        let started = output(&argv)?;
        if !started.status.success() {
            let said = String::from_utf8_lossy(&started.stderr);
            anyhow::bail!("the engine cannot start a container: {}", said.trim());
        }
        Ok(container)
    }

    fn exec(&self) -> Side<'static> {
        let argv = self.argv(&["exec", &self.name, "/bin/true"]);
        Timed::new("docker exec", argv, "").side()
    }

    fn argv(&self, words: &[&str]) -> Vec<OsString> {
        let mut argv = vec![self.program.clone().into_os_string()];
        argv.extend(words.iter().map(OsString::from));
        argv
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It removes itself when its program ends.
        let _ = output(&self.argv(&["rm", "--force", &self.name]));
    }
}
