//! The gate: reads, judges and dials connections out of a sandbox, on the host.
//!
//! ```text
//! guest ── names ──────▶ name server: a name that some port allows gets an address of its own
//!       ── connection ─▶ address → name ──┐
//!       ── proxy ──────▶ HTTP or SOCKS ───┴▶ judge the host ─▶ read the first bytes
//!                                            ─▶ resolve once ─▶ judge each address ─▶ dial it
//!                                            ─▶ pass bytes on, or judge request by request
//! ```
//! Everything from inside the sandbox is untrusted: it is bounded before it is kept, parsed once by
//! a strict parser, and refused if two parsers could disagree. `stockade-policy` gives every
//! verdict; if the record cannot be written, the gate closes.

mod budget;
mod connection;
mod converse;
mod denials;
mod dial;
mod egress_record;
mod gate;
mod http;
mod http2;
mod learned;
mod meter;
mod names;
mod opening;
mod proxy;
mod relay;
mod resolve;
mod rules;
mod secrets;
mod settings;
mod shared;
mod side;
mod splice;
mod tls;
mod words;

pub use denials::Observed;
pub use dial::{Dial, SystemDial};
pub use gate::Gate;
pub use learned::Learned;
pub use resolve::{FixedNames, Resolve, ResolveError, Resolved, SystemResolver};
pub use rules::Learns;
pub use secrets::{SecretError, Secrets};
pub use settings::{GateError, Settings, Times};
pub use tls::{AuthorityError, Trust, TrustError};

#[doc(hidden)]
pub mod fuzzing;
