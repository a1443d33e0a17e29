//! Limits where no cgroup can hold them: a sandbox is measured from outside, again and again.
//!
//! ```text
//!          every few milliseconds
//!   Meter ────────────────────────▶ Watchdog ── a limit is passed ──▶ the caller ends the sandbox
//!   in a thread of its own             └─────── run or pause ──────▶ the caller resumes or stops it
//! ```
//!
//! A wall implements [`Meter`] by what it can read of its sandbox. The watchdog only decides; it
//! reads nothing and stops nothing. It is approximate, and a report has to say so: a sandbox can
//! exceed a limit between two looks.

mod aside;
mod meter;
mod ration;
mod watchdog;

pub use aside::Aside;
pub use meter::{Look, Measurement, Meter};
pub use ration::Action;
pub use watchdog::{Bounds, Order, Watchdog};
