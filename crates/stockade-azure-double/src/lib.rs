//! A local double of Azure Container Apps sandboxes: the data plane, Azure Resource Manager, the
//! token services, and the egress proxy in front of each sandbox.
//!
//! ```text
//! client ── TLS ──▶ server ── route ──▶ world: groups, sandboxes ── machine: namespaces, a shell
//!                     └── log, faults                              └── egress proxy ── decisions
//! ```
//! It is written from the description of the interface and from recorded traffic of Azure's own
//! Python library. It shares no type with Stockade's client, and refuses every field, query and
//! path that it does not know. Only tests use it; see docs/testing.md.

mod check;
mod double;
mod egress;
mod fault;
mod identity;
mod log;
mod machine;
mod paths;
mod routes;
mod sandbox_routes;
mod server;
mod world;

pub use double::{Double, GROUP, RESOURCE_GROUP, SUBSCRIPTION};
pub use fault::{Fault, Injection, Operation};
pub use log::Logged;
pub use machine::why_not;
