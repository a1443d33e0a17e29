//! The steps that build the native wall, and the loop that carries them out.
//!
//! ```text
//! host process ── plan ──▶ launcher ── clone ──▶ first process inside ── steps ──▶ guest
//!                             │                        │
//!                             ├──── born / refused ────┴──── ready / refused ──▶ host process
//!                             └──── ended, and everything taken down ──────────▶ host process
//! ```
//! The launcher has one thread and makes no decisions: a plan is data, each step is one act, and it
//! reports the first failed step with its index and errno. Nothing is executed after a failure. The
//! launcher outlives the host process until it has ended every process inside and cleaned up.

mod descendants;
mod inside;
mod lend;
mod message;
mod outside;
mod owners;
mod plan;
mod remove;
mod report;
mod supervise;

pub use inside::{become_user, seal};
pub use lend::{Lending, LentTree, lend};
pub use message::{Receiver, encode, receive, send, send_some};
pub use outside::{Launched, Listeners, Provisions, launch, refuse};
#[cfg(feature = "weaken")]
pub use plan::SharedNamespace;
pub use plan::{
    AfterStep, Attributes, Birth, Family, FileMode, IdMap, LandlockRule, MOST_COPIED, Mapper,
    Memory, NEWGIDMAP, NEWUIDMAP, OutsideStep, Plan, Reach, Redirected, Resource, SocketUse, Step,
    ToolFile, ToolSocket, Transport, TreeKind,
};
pub use remove::remove_tree;
pub use report::{Ending, Phase, Refusal, Report};
