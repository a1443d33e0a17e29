//! Walls, seen from outside: what one can enforce on this host, and the plan for a policy.
//!
//! Planning is pure. Facts come from probing a host; a plan says for every control of a policy
//! which mechanism holds it, or the policy is refused.

mod facts;
mod plan;

pub use facts::{Ability, HostFacts, Obstacle, Precision, ProviderName, WallFacts};
pub use plan::{Finding, HeldControl, Plan, PlanReport, RefusedControl, WallReport, plan, report};
