//! Probes that attack a wall from inside, and the harness outside that judges them.
//!
//! ```text
//! harness (outside, root)                          the wall
//!   plants canaries, inspects the host
//!   for each probe:
//!     control: the act without the wall ──▶ must work, or the probe proves nothing
//!     act: stockade run … stockade-probe ACT ──────────▶ tries one thing, prints one line
//!     judge: the line, the report, the canaries, the host
//!   inspects the host again
//! ```

mod answer;
mod bench;
mod canaries;
mod catalogue;
mod checks;
mod gaps;
mod invariants;
mod judge;
mod layers;
mod policies;
mod probe;
mod report;
mod run;
mod scenes;
mod seen;
mod wall;

pub use answer::{Answer, Tried};
pub use bench::Inputs;
pub use catalogue::catalogue;
pub use gaps::Unprobed;
pub use layers::{LAYERS, Matrix, Scope, layers};
pub use probe::{Class, Probe};
pub use report::{Line, Report, Status};
pub use run::run;
