//! The policy language of Stockade.

mod host;

pub use host::{Host, HostError, HostName, parse_host_port, split_port};
