//! The directory of the host's tools and of the reports of stubs, and the descriptors that the guest
//! needs for it.

use std::path::{Path, PathBuf};

use stockade_launcher::{Step, ToolSocket};
use stockade_policy::Limit;
use stockade_provider::ToolAccess;
use stockade_wire::LAUNCHED_DENIAL_SOCKET;

use super::{Egress, Inputs, limit};

/// The name of the command in its directory.
const COMMAND: &str = "stockade-tool";
/// The name under which stubs of the hardened image start the guest.
const GUEST: &str = "guest";
/// The guest's open descriptors other than connections, and its connections per listening socket;
/// the guest enforces both.
const OTHER_DESCRIPTORS: u64 = 64;
const CONNECTIONS: u64 = 1024;

/// The path inside of the command that calls tools.
pub(crate) fn command() -> PathBuf {
    Path::new(ToolAccess::COMMANDS).join(COMMAND)
}

/// Creates the directory with its content, if the sandbox has tools or stubs.
pub(super) fn step(inputs: &Inputs<'_>) -> Option<Step> {
    let below = |path: &Path| match path.strip_prefix(ToolAccess::DIRECTORY) {
        Ok(below) => below.to_owned(),
        Err(_) => path.to_owned(),
    };
    let tools = inputs.tools.as_ref();
    let of_tools = tools.map(|_| below(&command()));
    let of_stubs = inputs.has_stubs.then(|| PathBuf::from(GUEST));
    let socket = ToolSocket {
        directory: PathBuf::from(ToolAccess::DIRECTORY),
        files: tools.cloned().unwrap_or_default(),
        commands: of_tools.into_iter().chain(of_stubs).collect(),
        socket: tools.map(|_| below(Path::new(ToolAccess::SOCKET))),
        denials: inputs.has_stubs.then(|| below(Path::new(LAUNCHED_DENIAL_SOCKET))),
        #[cfg(feature = "weaken")]
        writable: false,
    };
    is_there(inputs).then_some(Step::ToolSocket(socket))
}

/// Whether the sandbox has the directory.
pub(super) fn is_there(inputs: &Inputs<'_>) -> bool {
    inputs.tools.is_some() || inputs.has_stubs
}

/// The descriptor limit of the guest: one for each connection, up to this machine's hard limit.
/// Programs get the limit of the policy.
pub(super) fn guest_files(inputs: &Inputs<'_>) -> u64 {
    let listeners = [inputs.egress == Egress::Gateway, inputs.tools.is_some(), inputs.has_stubs];
    let listeners: u64 = listeners.into_iter().map(u64::from).sum();
    let asked = limit(inputs.policy, Limit::OpenFiles);
    let needed = OTHER_DESCRIPTORS + listeners * CONNECTIONS;
    needed.min(inputs.machine.open_files).max(asked)
}
