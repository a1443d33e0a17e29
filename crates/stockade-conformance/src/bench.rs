//! The test bench: executables, folders, canaries, and the names that probes refer to them by.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::canaries::{Canaries, PLANTED};
use crate::invariants::Host;
use crate::judge::NOBODY;
use crate::seen::{Output, Seen, finish};
use crate::wall::{WEAKEN, Wall, after};

/// The inputs of the harness.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The `stockade` binary under test.
    pub stockade: PathBuf,
    /// The same, built with the feature `weaken`, which can leave one layer out.
    pub weakened: PathBuf,
    /// The static executable that performs the acts.
    pub probe: PathBuf,
    /// An empty folder that every user may enter.
    pub place: PathBuf,
    /// The provider to test, if not the default.
    pub provider: Option<String>,
    /// The runtime of containers to test, instead of a wall of this machine.
    pub runtime: Option<String>,
}

/// State that all probes share.
pub(crate) struct Bench {
    pub(crate) inputs: Inputs,
    pub(crate) probe: PathBuf,
    /// The replacements for `{name}` in the words of an act.
    pub(crate) names: BTreeMap<&'static str, String>,
    pub(crate) canaries: Canaries,
    /// The state of the host before the first probe.
    pub(crate) host: Host,
}

impl Bench {
    /// Copies the executables to where every user can read them, and plants the canaries.
    pub(crate) fn new(inputs: &Inputs) -> io::Result<Bench> {
        let place = inputs.place.clone();
        let copy = |from: &Path, name: &str, mode: u32| -> io::Result<PathBuf> {
            let to = place.join(name);
            fs::copy(from, &to)?;
            fs::set_permissions(&to, Permissions::from_mode(mode))?;
            Ok(to)
        };
        for (binary, listens) in [(&inputs.stockade, false), (&inputs.weakened, true)] {
            let bytes = fs::read(binary)?;
            let found = bytes.windows(WEAKEN.len()).any(|window| window == WEAKEN.as_bytes());
            if found != listens {
                let what = if listens { "no layer can be" } else { "a layer can be" };
                let why = format!("{what} left out of {}", binary.display());
                return Err(io::Error::other(why));
            }
        }
        let probe = copy(&inputs.probe, "stockade-probe", 0o755)?;
        let stockade = copy(&inputs.stockade, "stockade", 0o755)?;
        let weakened = copy(&inputs.weakened, "stockade-weakened", 0o755)?;
        let shown = folder(&place.join("shown"), None)?;
        copy(&inputs.probe, "shown/as-owner", 0o4755)?;
        copy(&inputs.probe, "shown/unlisted", 0o755)?;
        fs::write(shown.join("file"), "shown to the sandbox")?;
        let tree = folder(&place.join("tree"), None)?;
        let canaries = Canaries::plant(&place, &probe)?;
        let mut names = canaries.names();
        let text = |path: &Path| path.display().to_string();
        names.insert("probe", text(&probe));
        names.insert("place", text(&place));
        names.insert("shown", text(&shown));
        names.insert("tree", text(&tree));
        let inputs = Inputs { stockade, weakened, probe: probe.clone(), ..inputs.clone() };
        let mut bench = Bench { inputs, probe, names, canaries, host: Host::default() };
        bench.host = Host::look(&bench);
        Ok(bench)
    }

    /// The unmodified wall, started by one user.
    pub(crate) fn wall(&self, user: Option<u32>) -> io::Result<Wall> {
        let name = match user {
            None => "root".to_owned(),
            Some(user) => format!("user {user}"),
        };
        let own = folder(&self.inputs.place.join(name.replace(' ', "-")), user)?;
        let names = crate::policies::write(&own, user, self)?;
        let binary = self.inputs.stockade.clone();
        let flags = self.inputs.provider.iter().flat_map(|name| ["--provider", name]);
        let flags = flags.map(str::to_owned).collect();
        Ok(Wall { name, binary, user, flags, without: None, names })
    }

    /// The container wall with a runtime, started by an unprivileged user: root's writable mounts
    /// are refused there.
    pub(crate) fn container_wall(&self, runtime: &str) -> io::Result<Wall> {
        let flags = ["--provider", "docker", "--runtime", runtime].map(str::to_owned).to_vec();
        Ok(Wall { name: format!("docker {runtime}"), flags, ..self.wall(Some(NOBODY))? })
    }

    /// A wall of this machine without one layer.
    pub(crate) fn weakened(&self, wall: &Wall, layer: &'static str) -> Wall {
        let name = format!("{} without {layer}", wall.name);
        let binary = self.inputs.weakened.clone();
        Wall { name, binary, without: Some(layer), ..wall.clone() }
    }

    /// Runs an act on the host as the user of the harness.
    pub(crate) fn on_host(&self, words: &[&str]) -> Result<Seen, String> {
        finish(self.host_command(words), Output::Plain)
    }

    /// The command that runs an act on the host.
    pub(crate) fn host_command(&self, words: &[&str]) -> Command {
        self.host_command_after("", words)
    }

    /// The same command, run after a line of shell.
    pub(crate) fn host_command_after(&self, line: &str, words: &[&str]) -> Command {
        let mut command = after(&filled(line, &self.names), &self.probe);
        command.args(words.iter().map(|word| filled(word, &self.names)));
        command.current_dir(&self.names["tree"]).env(PLANTED, &self.canaries.token);
        command
    }

    /// Recreates the file that controls change on the host.
    pub(crate) fn renew_tree(&self) -> io::Result<()> {
        let tree = Path::new(&self.names["tree"]);
        fs::remove_dir_all(tree)?;
        folder(tree, None)?;
        fs::create_dir(tree.join("directory"))?;
        fs::write(tree.join("file"), "something to change")
    }
}

/// Creates a folder that every user may enter and `user` may change.
pub(crate) fn folder(path: &Path, user: Option<u32>) -> io::Result<PathBuf> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    if user.is_some() {
        chown(path, user, user)?;
    }
    Ok(path.to_owned())
}

/// Replaces every known `{name}` in a text.
pub(crate) fn filled(text: &str, names: &BTreeMap<&'static str, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in names {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}
