//! The policy language of Stockade: text, checking, decisions, combining, controls.
//!
//! Everything here is pure. The same text gives the same policy, and the same question the same
//! answer, on every machine; the caller reads files, the environment and the clock.
//!
//! ```
//! use std::path::Path;
//! use stockade_policy::{Host, Policy};
//!
//! let text = "network_allowlist: [api.openai.com]";
//! let policy = Policy::parse_str("example", text, Path::new("/srv"))?;
//! assert!(policy.judge_host(&Host::parse("API.openai.com.")?, 443).allows());
//! assert!(!policy.judge_host(&Host::parse("openai.com")?, 443).allows());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod combine;
mod commands;
mod context;
mod control;
mod decode;
mod diff;
mod host;
mod judge;
mod limits;
mod moment;
mod paths;
mod pattern;
mod places;
mod policy;
mod preset;
mod request;
mod rules;
mod schema;
mod show;
mod source;
mod suggest;
mod tighten;
mod variables;
mod verdict;

pub use address::{AddressKind, Network, NetworkError, classify, embedded_v4, is_metadata_name};
pub use combine::CombineError;
pub use commands::{CommandNameError, SEARCH_PATH};
pub use context::{ARGUMENT, Act, Context, OWN_FIELDS, ReservedField};
pub use control::{Control, Requirement};
pub use diff::Widening;
pub use host::{Host, HostError, HostName, parse_host_port, split_port};
pub use limits::{LIMITS, Limit, LimitSpec, Limits, Unit};
pub use moment::{ClockError, Moment, TimeCondition, TimeOfDay, Zone};
pub use paths::{Access, FilePathError, GuestPath, WORKSPACE};
pub use pattern::{BlockPattern, HostPattern, PatternError};
pub use places::{DEVICES, SCRATCH, SETTINGS, SYSTEM};
pub use policy::{
    Inspect, Isolation, MAX_GATES, Mount, NetworkDefault, NetworkEntry, NetworkGate, Policy,
    PolicyGate, Protocol, Secret, SecretPlace, SecretSource, ToolArguments, Variable, Workspace,
    WorkspaceMode,
};
pub use preset::Preset;
pub use request::{Method, MethodError, PathError, PathPattern, UrlPath};
pub use rules::{Action, CodeGate, CompareError, Condition, ConditionError, Operator, Rule};
pub use schema::schema;
pub use source::{Basis, PolicyText, Sourced};
pub use stockade_text::{
    Diagnostic, MAX_TEXT_BYTES, Origin, Printable, TextErrors as PolicyErrors, is_harmless,
};
pub use suggest::{Line, Suggestion};
pub use tighten::TightenError;
pub use variables::{
    LOADER_VARIABLES, VariableError, check_name, check_secret_name, check_variable,
};
pub use verdict::{Denial, Effect, Verdict};
