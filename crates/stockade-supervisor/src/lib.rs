//! A session that outlives one command: the process that holds it, its state on disk, and the
//! clients that use it. There is no central daemon.
//!
//! ```text
//! stockade create ── starts ──▶ supervisor: holds the Session, serves a Unix socket
//! stockade exec   ── connects to STATE/sessions/NAME/socket ──▶ one request per connection
//! ```

mod activity;
mod client;
mod connection;
mod contexts;
mod executions;
mod files;
mod hub;
mod keep;
mod ports;
mod remote_files;
mod settings;
mod state;
mod supervisor;
mod watch;

pub use activity::Activity;
pub use client::{ClientError, connect};
pub use keep::{Origin, view as checkpoint_view};
pub use remote_files::RemoteFiles;
pub use settings::Settings;
pub use state::{Claimed, Listed, SessionName, State, StateError, state_directory};
pub use supervisor::Supervisor;
