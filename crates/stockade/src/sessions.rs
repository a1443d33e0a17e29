//! The commands for sessions. Each is a client of the session's supervisor, except `create`, which
//! starts it.

mod client;
mod conversation;
mod cp;
mod create;
mod exec;
mod kill;
mod list;
mod logs;
mod names;
mod remove;
mod summary;
mod supervise;
pub(crate) mod table;
mod terminal;

pub(crate) use cp::cp;
pub(crate) use create::create;
pub(crate) use exec::{attach, code, exec, shell};
pub(crate) use kill::kill;
pub(crate) use list::{inspect, ls, ps, stats};
pub(crate) use logs::logs;
pub(crate) use names::{pause, resume};
pub(crate) use remove::{prune, rm};
pub(crate) use supervise::supervise;
