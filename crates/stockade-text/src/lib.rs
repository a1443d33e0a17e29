//! Parses the YAML texts that people write: policies and tool files.
//!
//! ```text
//! bytes ── readable ──▶ text ── tree ──▶ nodes with places ── fields ──▶ typed values
//!                                  mistakes with places, remedies and source lines
//! ```
//! Everything here is pure. What differs between the languages is in a [`Dialect`].

mod diagnostic;
mod dialect;
mod fields;
mod hidden;
mod origin;
mod parse;
mod tree;

pub use diagnostic::{Diagnostic, Report, TextErrors, TextSpan};
pub use dialect::{Aliases, Dialect};
pub use fields::{Table, closest, describe, is_nearly};
pub use origin::{Origin, Printable, is_harmless};
pub use parse::{MAX_TEXT_BYTES, parse};
pub use tree::{KeyValue, Kind, Node};
