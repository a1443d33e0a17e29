//! The steps that build the native wall, and the loop that carries them out.
//!
//! ```text
//! host process ── plan ──▶ launcher ── clone ──▶ first process inside ── exec ──▶ program
//!                             │                        │
//!                             └──── born / refused ────┴──── ready / refused ──▶ host process
//! ```
//! The launcher has one thread and no opinions: a plan is data, each step is one act, and the
//! first one that fails is reported with its number and errno. Nothing is executed after that.

mod inside;
mod outside;
mod plan;
mod report;

pub use outside::launch;
pub use plan::{
    Attributes, Birth, FileMode, IdMap, LandlockRule, Memory, OutsideStep, Plan, Resource, Step,
    TreeKind,
};
pub use report::{Phase, Refusal, Report};
