//! Sessions, end to end: `stockade create` and everything that uses a session.

mod changes;
mod checkpoints;
mod contexts;
mod copies;
mod credentials;
mod deaths;
mod examples;
mod forks;
mod killed;
mod large;
mod limits;
mod many;
mod mistakes;
mod output;
mod packages;
mod ports;
mod programs;
mod secrets;
mod shell;
mod state;
mod support;
mod terminal;
mod top;
mod users;
mod verbs;
mod watch;
