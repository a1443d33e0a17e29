//! Why tools cannot be offered, reported before anything runs.

use std::io;

/// Why a tool, or a set of tools, cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The name is not valid.
    #[error(
        "`{name}` is not the name of a tool; use 1 to 128 letters, digits and `_ . : / -`, a letter, digit or `_` first"
    )]
    Name {
        /// The given name, shortened.
        name: String,
    },
    /// Two tools have the same name.
    #[error(
        "two tools are called `{name}`; give one of them another name, for a server's tool with `as`"
    )]
    Twice {
        /// The name.
        name: String,
    },
    /// A schema cannot be used.
    #[error("the {which} of the tool `{tool}` {why}")]
    Schema {
        /// The tool.
        tool: String,
        /// `input_schema` or `output_schema`.
        which: &'static str,
        /// What is wrong with it and how to fix it.
        why: String,
    },
    /// A variable that a tool needs is not set.
    #[error(
        "`{owner}` needs the variable `{variable}`, which is not set; set it, or remove it from the file"
    )]
    Unset {
        /// The tool or server.
        owner: String,
        /// The variable.
        variable: String,
    },
    /// The program of a tool is not installed.
    #[error("the tool `{tool}` runs `{program}`, {why}")]
    Absent {
        /// The tool.
        tool: String,
        /// Its path, or its name.
        program: String,
        /// Where Stockade searched.
        why: &'static str,
    },
    /// The program of a tool exists but cannot be executed.
    #[error("the tool `{tool}` runs `{program}`, which cannot be executed")]
    NotExecutable {
        /// The tool.
        tool: String,
        /// Its path, or its name.
        program: String,
    },
    /// A file with a header's value cannot be read.
    #[error("cannot read {file}, which holds a header of the tool `{tool}`")]
    HeaderFile {
        /// The tool.
        tool: String,
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A header's value has characters that are not allowed in headers.
    #[error(
        "the value of the header `{header}` of the tool `{tool}` cannot be sent; it must be one line of text"
    )]
    Header {
        /// The tool.
        tool: String,
        /// The header.
        header: String,
    },
    /// TLS cannot be set up on this machine.
    #[error("cannot check servers of https tools: {why}")]
    Roots {
        /// Why.
        why: String,
    },
    /// A tool server cannot be started.
    #[error("cannot start the tool server `{server}`")]
    Start {
        /// The server.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A tool server violates the protocol.
    #[error("the tool server `{server}` {why}")]
    Server {
        /// The server.
        server: String,
        /// What it did.
        why: String,
    },
    /// A server does not offer a tool that the file names.
    #[error("the tool server `{server}` has no tool `{tool}`; it has: {has}")]
    Missing {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The tools it offers.
        has: String,
    },
}
