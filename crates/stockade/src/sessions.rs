//! The commands for sessions. Each is a client of the session's supervisor, except `create`, which
//! starts it.

pub(crate) mod client;
mod contexts;
mod conversation;
mod cp;
pub(crate) mod create;
mod exec;
mod kill;
mod list;
mod logs;
mod names;
mod ports;
mod remove;
mod results;
mod secret;
pub(crate) mod summary;
mod supervise;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod terms;

pub(crate) use contexts::context;
pub(crate) use cp::cp;
pub(crate) use create::{create, started};
pub(crate) use exec::{attach, code, exec, shell};
pub(crate) use kill::kill;
pub(crate) use list::{inspect, ls, ps, stats};
pub(crate) use logs::logs;
pub(crate) use names::{pause, resume};
pub(crate) use ports::port;
pub(crate) use remove::{prune, rm};
pub(crate) use secret::secret;
pub(crate) use supervise::supervise;
