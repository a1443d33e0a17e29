//! A small internet in namespaces, for the tests of the network gate.
//!
//! A process that calls [`enter`] becomes a machine with one link, to a second network namespace.
//! There name servers, web servers and others answer for every address, public or private, and log
//! everything that reaches them. See docs/testing.md.

mod authority;
mod enter;
mod error;
mod internet;
mod key;
mod links;
mod log;
mod machine;
mod servers;
mod web_server;
mod world;

pub use authority::{Authority, AuthorityError};
pub use enter::{enter, set_environment};
pub use error::EnterError;
pub use internet::{Internet, LOG_VARIABLE, Mark};
pub use log::LogEntry;
pub use web_server::{WebServer, WebServerError};
pub use world::{
    BANNER_PORTS, DATAGRAM_PORTS, HTTP_PORTS, HTTPS_PORTS, MACHINE, MACHINE_PUBLIC, MACHINE_SIX,
    METADATA, PRIVATE, PUBLIC, PUBLIC_SIX, RAW_PORTS, RESOLVER, ROUTER, ROUTER_SIX,
};
