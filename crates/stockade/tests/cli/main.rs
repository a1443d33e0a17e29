//! The command line, end to end: every test starts the built binary.

mod commands;
mod init;
mod run;
mod support;
mod why;
