//! Why tools cannot be offered, said before anything runs.

use std::io;

/// Why a tool, or a set of them, cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// The name is none.
    #[error(
        "`{name}` is not the name of a tool; use 1 to 128 letters, digits and `_ . : / -`, a letter, digit or `_` first"
    )]
    Name {
        /// As it was given, shortened.
        name: String,
    },
    /// Two tools have one name.
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
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A variable that a tool is to have is not set here.
    #[error(
        "`{owner}` is to have the variable `{variable}`, which is not set; set it, or remove it from the file"
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
        /// Where it was looked for.
        why: &'static str,
    },
    /// The program of a tool is there and cannot be executed.
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
    /// A header's value has characters that no header can have.
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
    /// A server of tools cannot be started.
    #[error("cannot start the server of tools `{server}`")]
    Start {
        /// The server.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A server of tools does not speak as it should.
    #[error("the server of tools `{server}` {why}")]
    Server {
        /// The server.
        server: String,
        /// What it did.
        why: String,
    },
    /// A server does not have a tool that the file names.
    #[error("the server of tools `{server}` has no tool `{tool}`; it has: {has}")]
    Missing {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What it has.
        has: String,
    },
}
