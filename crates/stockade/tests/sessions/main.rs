//! Sessions, end to end: `stockade create` and everything that uses a session.

mod copies;
mod deaths;
mod examples;
mod large;
mod limits;
mod many;
mod mistakes;
mod output;
mod programs;
mod shell;
mod state;
mod support;
mod users;
mod verbs;
mod watch;
