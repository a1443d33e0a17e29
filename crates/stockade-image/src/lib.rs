//! Images as the root of a wall, without an engine.
//!
//! ```text
//! FILE.tar ── Parcel ── select ──▶ config, layers
//!                        layer: digest, names, limits checked ──▶ whiteouts, then entries
//!                        store: temporary directory ── rename ──▶ images/DIGEST/root
//! ```
//! An image is hostile: nothing of it is trusted before its digest is checked, no entry leaves the
//! directory that it is unpacked into, and nothing in it changes how a sandbox is built.

mod above;
mod config;
mod denials;
mod digest;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod layer;
mod model;
mod parcel;
mod pull;
mod recipe;
mod reference;
mod select;
mod store;
mod stream;
mod tree;
mod users;

pub use config::{Dropped, ImageConfig, OwnProgram, Variables};
pub use denials::{Denials, Listening, reported};
pub use digest::Digest;
pub use error::{ImageError, Refusal};
pub use import::{Imported, Limits};
pub use pull::{Pull, UnknownPull};
pub use recipe::{ALWAYS_ALLOWED, HARDENED_PATH, HARDENED_RECIPE, default_names, denied_names};
pub use reference::Reference;
pub use store::{Found, Held, Listed, Store, Taken, store_directory};
pub use users::{ImageUser, UserError, UserWanted, own_user_in, user_in};
