//! The directory of the host's tools, and the descriptors that the guest needs for it.

use std::path::{Path, PathBuf};

use stockade_launcher::{Step, ToolFile, ToolSocket};
use stockade_policy::Limit;
use stockade_provider::ToolAccess;

use super::{Egress, Inputs, limit};

/// The name of the command in its directory.
const COMMAND: &str = "stockade-tool";
/// The guest's open descriptors other than connections, and its connections per listening socket;
/// the guest enforces both.
const OTHER_DESCRIPTORS: u64 = 64;
const CONNECTIONS: u64 = 1024;

/// The path inside of the command that calls tools.
pub(crate) fn command() -> PathBuf {
    Path::new(ToolAccess::COMMANDS).join(COMMAND)
}

/// Creates the directory with its content.
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

/// The descriptor limit of the guest: one for each connection, up to this machine's hard limit.
/// Programs get the limit of the policy.
pub(super) fn guest_files(inputs: &Inputs<'_>) -> u64 {
    let doors = match inputs.egress {
        Egress::None => 1,
        Egress::Gateway => 2,
    };
    let asked = limit(inputs.policy, Limit::OpenFiles);
    let needed = OTHER_DESCRIPTORS + doors * CONNECTIONS;
    needed.min(inputs.machine.open_files).max(asked)
}
