//! The directory where programs find the tools of their host, and what the guest needs for it.

use std::path::{Path, PathBuf};

use stockade_launcher::{Step, ToolFile, ToolSocket};
use stockade_policy::Limit;
use stockade_provider::ToolAccess;

use super::{Inputs, WayOut, limit};

/// The command's name in the directory of commands.
const COMMAND: &str = "stockade-tool";
/// What the guest may have open beside connections, and what comes through one door; the guest
/// itself counts these.
const OTHER_DESCRIPTORS: u64 = 64;
const CONNECTIONS: u64 = 1024;

/// The command by which programs call tools, a path inside.
pub(crate) fn command() -> PathBuf {
    Path::new(ToolAccess::COMMANDS).join(COMMAND)
}

/// The directory, with everything that is in it.
pub(super) fn step(files: &[ToolFile]) -> Step {
    let below = |path: &Path| match path.strip_prefix(ToolAccess::DIRECTORY) {
        Ok(below) => below.to_owned(),
        Err(_) => path.to_owned(),
    };
    Step::ToolSocket(ToolSocket {
        directory: PathBuf::from(ToolAccess::DIRECTORY),
        files: files.to_vec(),
        command: below(&command()),
        socket: below(Path::new(ToolAccess::SOCKET)),
        #[cfg(feature = "weaken")]
        writable: false,
    })
}

/// How many descriptors the guest may have: one for each connection that it carries, as far as this
/// machine gives them. Programs have what the policy says.
pub(super) fn guest_files(inputs: &Inputs<'_>) -> u64 {
    let doors = match inputs.way_out {
        WayOut::None => 1,
        WayOut::Gateway => 2,
    };
    let asked = limit(inputs.policy, Limit::OpenFiles);
    let needed = OTHER_DESCRIPTORS + doors * CONNECTIONS;
    needed.min(inputs.machine.open_files).max(asked)
}
