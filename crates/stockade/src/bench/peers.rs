//! Other programs on this machine that isolate a program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;

use super::programs::{Timed, output};
use super::report::Missing;
use super::server::PROXIES;

/// Every known peer: sandbox programs and forward proxies.
pub(crate) const PEERS: [&str; 6] =
    ["bwrap", "bwrap-lean", "firejail", "docker", "tinyproxy", "squid"];

/// A peer that could not be measured.
#[derive(Debug, Serialize)]
pub(super) struct Absent {
    pub(super) peer: &'static str,
    pub(super) reason: String,
    pub(super) remedy: String,
}

/// The peers that run `/bin/true`, and those that are missing here.
pub(super) fn around_true(
    asked: &[String],
    image: Option<&str>,
    stockade: &Path,
) -> (Vec<Timed>, Vec<Absent>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    for peer in PEERS.into_iter().filter(|peer| !PROXIES.contains(peer)) {
        if !asked.is_empty() && !asked.iter().any(|name| name == peer) {
            continue;
        }
        match words(peer, image, stockade) {
            Ok(argv) => found.push(Timed::new(peer, argv, "")),
            Err((reason, remedy)) => {
                absent.push(Absent { peer, reason: format!("{reason:#}"), remedy });
            }
        }
    }
    (found, absent)
}

/// bwrap around `/bin/true` with the mounts of our own sandbox, unless only other peers are asked
/// for; or why it cannot be measured.
pub(super) fn bwrap(asked: &[String], stockade: &Path) -> (Option<Timed>, Option<Absent>) {
    const BWRAP: &str = "bwrap";
    if !asked.is_empty() && !asked.iter().any(|name| name == BWRAP) {
        return (None, None);
    }
    let (mut found, mut missing) = around_true(&[BWRAP.to_owned()], None, stockade);
    (found.pop(), missing.pop())
}

/// The engine's command and a local image: the requested one, or the first found.
pub(super) fn docker(image: Option<&str>) -> Result<(PathBuf, String), Missing> {
    let program = on_path("docker").ok_or_else(|| Missing {
        reason: "docker is not installed".to_owned(),
        remedy: "install the package docker.io",
    })?;
    let engine = |error: anyhow::Error| Missing {
        reason: format!("{error:#}"),
        remedy: "start the engine, and name a local image with --image",
    };
    // Also shows that the engine answers.
    let first = first_image(&program).map_err(engine)?;
    Ok((program, image.map_or(first, str::to_owned)))
}

type Refused = (anyhow::Error, String);

fn words(peer: &str, image: Option<&str>, stockade: &Path) -> Result<Vec<OsString>, Refused> {
    let program = |name: &str, package: &str| {
        on_path(name).ok_or_else(|| {
            (anyhow::anyhow!("{name} is not installed"), format!("install the package {package}"))
        })
    };
    match peer {
        "bwrap" => {
            let bwrap = program("bwrap", "bubblewrap")?;
            let mounts = mounts_inside(stockade)
                .map_err(|error| (error, "see that `stockade run -- true` works".to_owned()))?;
            Ok(bubblewrap(bwrap, &mounts))
        }
        "bwrap-lean" => Ok(lean(program("bwrap", "bubblewrap")?)),
        "firejail" => {
            let words = ["--quiet", "--noprofile", "--net=none", "--private", "--seccomp"];
            Ok(line(program("firejail", "firejail")?, &words))
        }
        _ => {
            let (docker, image) = docker(image).map_err(|missing| {
                let remedy = missing.remedy.to_owned();
                (missing.into(), remedy)
            })?;
            let words = ["run", "--rm", "--network=none", "--pull=never", "--", &image];
            Ok(line(docker, &words))
        }
    }
}

pub(super) fn line(program: PathBuf, words: &[&str]) -> Vec<OsString> {
    let mut line = vec![program.into_os_string()];
    line.extend(words.iter().map(OsString::from));
    line.push("/bin/true".into());
    line
}

/// The path of a program, also searched in directories that only root has in PATH.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

fn first_image(docker: &Path) -> anyhow::Result<String> {
    let words = ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"];
    let mut argv = vec![docker.as_os_str().to_owned()];
    argv.extend(words.map(OsString::from));
    let output = output(&argv)?;
    if !output.status.success() {
        bail!("the engine does not answer: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let images = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = images.lines().find(|line| !line.contains("<none>"));
    Ok(first.context("the engine has no image")?.to_owned())
}

/// A mount of our own sandbox: its path and the type of its file system.
struct Mount {
    place: String,
    kind: String,
    directory: bool,
}

/// The mounts inside one of our sandboxes.
fn mounts_inside(stockade: &Path) -> anyhow::Result<Vec<Mount>> {
    let script = "while read -r _ _ _ _ place rest; do
  if [ -d \"$place\" ]; then kind=d; else kind=f; fi
  echo \"$kind $place ${rest##* - }\"
done < /proc/self/mountinfo";
    let words = ["run", "--quiet", "--no-record", "--", "sh", "-c", script];
    let mut argv = vec![stockade.as_os_str().to_owned()];
    argv.extend(words.map(OsString::from));
    let output = output(&argv)?;
    if !output.status.success() {
        bail!("no sandbox could be started: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout)?;
    let mount = |line: &str| {
        let mut words = line.split(' ');
        let directory = words.next()? == "d";
        Some(Mount { place: words.next()?.to_owned(), kind: words.next()?.to_owned(), directory })
    };
    Ok(text.lines().filter_map(mount).collect())
}

/// bubblewrap with as many mounts, at the same paths.
fn bubblewrap(bwrap: PathBuf, mounts: &[Mount]) -> Vec<OsString> {
    let mut words: Vec<String> =
        ["--unshare-all", "--die-with-parent", "--clearenv"].map(str::to_owned).to_vec();
    let mut seen = BTreeSet::new();
    let mut late = Vec::new();
    let mount = |words: &mut Vec<String>, parts: &[&str]| {
        words.extend(parts.iter().map(|part| (*part).to_owned()));
    };
    for Mount { place, kind, directory } in mounts {
        let place = place.as_str();
        if !seen.insert(place) {
            continue;
        }
        match (place, kind.as_str()) {
            // bubblewrap's root is a tmpfs too.
            ("/", _) => {}
            ("/proc", _) => mount(&mut words, &["--proc", "/proc"]),
            // bubblewrap's `--dev` creates these nodes and the terminals.
            ("/dev/pts", _) => mount(&mut words, &["--dev", "/dev"]),
            (_, _) if place.starts_with("/dev/") && place != "/dev/shm" => {}
            (_, "tmpfs") if place.starts_with("/proc/") => match directory {
                true => mount(&mut late, &["--tmpfs", place]),
                false => mount(&mut late, &["--ro-bind", "/dev/null", place]),
            },
            (_, "proc") => mount(&mut late, &["--ro-bind", place, place]),
            (_, "tmpfs") => mount(&mut late, &["--tmpfs", place]),
            _ => mount(&mut words, &["--ro-bind", place, place]),
        }
    }
    words.extend(late);
    words.extend(links());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    line(bwrap, &words)
}

/// bubblewrap with the fewest mounts that allow a program to start.
fn lean(bwrap: PathBuf) -> Vec<OsString> {
    let words = ["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"];
    let mut words = words.map(str::to_owned).to_vec();
    words.extend(links());
    words.extend(["--proc", "/proc", "--dev", "/dev"].map(str::to_owned));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    line(bwrap, &words)
}

/// The symbolic links in `/` that point into `/usr` on this host.
fn links() -> Vec<String> {
    let mut words = Vec::new();
    for place in ["/bin", "/sbin", "/lib", "/lib64"] {
        match std::fs::read_link(place) {
            Ok(target) => {
                let target = target.display().to_string();
                words.extend(["--symlink".to_owned(), target, place.to_owned()]);
            }
            Err(_) if Path::new(place).is_dir() => {
                words.extend(["--ro-bind", place, place].map(str::to_owned));
            }
            Err(_) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(place: &str, kind: &str, directory: bool) -> Mount {
        Mount { place: place.to_owned(), kind: kind.to_owned(), directory }
    }

    #[test]
    fn bubblewrap_gets_a_mount_for_each_of_ours() {
        let mounts = [
            mount("/usr", "ext4", true),
            mount("/dev/null", "devtmpfs", false),
            mount("/", "tmpfs", true),
            mount("/usr", "overlay", true),
            mount("/tmp", "tmpfs", true),
            mount("/proc", "proc", true),
            mount("/dev/pts", "devpts", true),
            mount("/proc/meminfo", "tmpfs", false),
            mount("/proc/irq", "tmpfs", true),
            mount("/proc/sys", "proc", true),
        ];
        let words = bubblewrap(PathBuf::from("bwrap"), &mounts);
        let text = super::super::programs::shown(&words);
        assert!(text.starts_with("bwrap --unshare-all --die-with-parent --clearenv --ro-bind /usr /usr --proc /proc --dev /dev --tmpfs /tmp --ro-bind /dev/null /proc/meminfo --tmpfs /proc/irq --ro-bind /proc/sys /proc/sys"), "{text}");
        assert!(text.ends_with(" /bin/true"), "{text}");
    }
}
