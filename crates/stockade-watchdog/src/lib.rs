//! Enforces limits where no cgroup can: measures a sandbox from outside at short intervals.
//!
//! ```text
//!          every few milliseconds
//!   Meter ────────────────────────▶ Watchdog ── a limit is passed ──▶ the caller ends the sandbox
//!   in a thread of its own             └─────── run or pause ──────▶ the caller resumes or stops it
//! ```
//!
//! A wall implements [`Meter`] with what it can read about its sandbox. The watchdog only decides;
//! it reads nothing and stops nothing. It is approximate, because a sandbox can exceed a limit
//! between two measurements, and reports must call it so.

mod aside;
mod meter;
mod ration;
mod watchdog;

pub use aside::Aside;
pub use meter::{Look, Measurement, Meter};
pub use ration::Action;
pub use watchdog::{Bounds, Order, Watchdog};
