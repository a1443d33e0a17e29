//! What a sandbox contains so that its programs can call tools of the host.

/// The files and variables through which programs in a sandbox call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolAccess {
    /// Files below [`ToolAccess::DIRECTORY`], by relative path, with their contents. No process
    /// inside can change them.
    pub files: Vec<(String, Vec<u8>)>,
    /// Variables that every program gets in addition to those that the wall sets.
    pub environment: Vec<(String, String)>,
}

impl ToolAccess {
    /// The directory of the files and the socket.
    pub const DIRECTORY: &str = "/run/stockade";
    /// The tool socket: programs call tools through it.
    pub const SOCKET: &str = "/run/stockade/tools.sock";
    /// The directory of the command `stockade-tool`. The wall puts this directory last in `PATH`.
    pub const COMMANDS: &str = "/run/stockade/bin";
}
