//! The policy language of Stockade.

mod address;
mod host;
mod pattern;
mod request;

pub use address::{AddressKind, Network, NetworkError, classify, embedded_v4, is_metadata_name};
pub use host::{Host, HostError, HostName, parse_host_port, split_port};
pub use pattern::{BlockPattern, HostPattern, PatternError};
pub use request::{Method, MethodError, PathError, PathPattern, UrlPath};
