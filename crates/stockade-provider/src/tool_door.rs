//! What a sandbox shows of the tools of its host.

/// What programs in a sandbox find of the tools that they may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolDoor {
    /// Files that programs find below [`ToolDoor::DIRECTORY`], by their path below it, with their
    /// bytes. Nothing inside can change them.
    pub files: Vec<(String, Vec<u8>)>,
    /// Variables that every program has, beside those that the wall sets.
    pub environment: Vec<(String, String)>,
}

impl ToolDoor {
    /// Where all of it is.
    pub const DIRECTORY: &str = "/run/stockade";
    /// The socket where programs call tools.
    pub const SOCKET: &str = "/run/stockade/tools.sock";
    /// Where the command `stockade-tool` is. The wall puts this directory last in `PATH`.
    pub const COMMANDS: &str = "/run/stockade/bin";
}
