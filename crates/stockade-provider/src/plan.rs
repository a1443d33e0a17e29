//! Turns a policy and a wall into a plan, or into a refusal that names every unenforceable clause.

use serde::Serialize;
use stockade_policy::{Control, Isolation, Policy, Requirement};

use crate::facts::{Ability, HostFacts, Obstacle, Precision, ProviderName, WallFacts};
use crate::{Sandbox, StartNote};

/// A control that will be enforced.
#[derive(Clone, Debug, Serialize)]
pub struct HeldControl {
    /// What the policy asks for.
    #[serde(flatten)]
    pub requirement: Requirement,
    /// The mechanism that enforces it.
    pub mechanism: String,
    /// How precisely.
    pub precision: Precision,
}

/// A control that cannot be enforced.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedControl {
    /// What the policy asks for.
    #[serde(flatten)]
    pub requirement: Requirement,
    /// The reason and the remedy.
    #[serde(flatten)]
    pub obstacle: Obstacle,
}

/// The result for one control.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Finding {
    /// It will be enforced.
    Enforced(HeldControl),
    /// It cannot be enforced, so the policy does not run behind this wall.
    Refused(RefusedControl),
}

/// Every control of a policy with the mechanism that enforces it. A plan exists only if no control
/// is refused.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The wall.
    pub provider: ProviderName,
    /// Its strength.
    pub isolation: Isolation,
    /// The controls.
    pub controls: Vec<HeldControl>,
    /// How the wall started the sandbox; known only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<StartNote>,
}

impl Plan {
    /// Adds what the wall knows only once the sandbox runs.
    pub fn complete(&mut self, sandbox: &dyn Sandbox) {
        self.start = sandbox.start_note();
        let Some(mechanism) = sandbox.isolation() else { return };
        let is_isolation =
            |held: &&mut HeldControl| matches!(held.requirement.control, Control::Isolation);
        for held in self.controls.iter_mut().filter(is_isolation) {
            held.mechanism.clone_from(&mechanism);
        }
    }
}

/// The result of planning a policy behind one wall, control by control.
#[derive(Clone, Debug, Serialize)]
pub struct WallReport {
    /// The wall.
    pub provider: ProviderName,
    /// Its strength.
    pub isolation: Isolation,
    /// Whether every control can be enforced.
    pub enforceable: bool,
    /// The result for each control.
    pub controls: Vec<Finding>,
}

/// The results of all walls for a policy.
#[derive(Clone, Debug, Serialize)]
pub struct PlanReport {
    /// The first wall that enforces everything.
    pub provider: Option<ProviderName>,
    /// Each wall that was tried.
    pub walls: Vec<WallReport>,
}

/// Plans a policy behind one wall.
pub fn plan(policy: &Policy, wall: &WallFacts) -> Result<Plan, WallReport> {
    let report = ask(policy, wall);
    if !report.enforceable {
        return Err(report);
    }
    let held = report.controls.iter().filter_map(|finding| match finding {
        Finding::Enforced(held) => Some(held.clone()),
        Finding::Refused(_) => None,
    });
    let controls = held.collect();
    Ok(Plan { provider: report.provider, isolation: report.isolation, controls, start: None })
}

/// Plans a policy behind every wall in turn.
pub fn report(policy: &Policy, host: &HostFacts) -> PlanReport {
    let walls: Vec<WallReport> = host.walls.iter().map(|wall| ask(policy, wall)).collect();
    let first = walls.iter().find(|wall| wall.enforceable);
    PlanReport { provider: first.map(|wall| wall.provider.clone()), walls }
}

fn ask(policy: &Policy, wall: &WallFacts) -> WallReport {
    let controls: Vec<Finding> = policy
        .requirements()
        .into_iter()
        .map(|requirement| match hold(policy, wall, &requirement) {
            Ok((mechanism, precision)) => {
                Finding::Enforced(HeldControl { requirement, mechanism, precision })
            }
            Err(obstacle) => Finding::Refused(RefusedControl { requirement, obstacle }),
        })
        .collect();
    let enforceable = controls.iter().all(|finding| matches!(finding, Finding::Enforced(_)));
    let (provider, isolation) = (wall.provider.clone(), wall.isolation);
    WallReport { provider, isolation, enforceable, controls }
}

fn hold(
    policy: &Policy,
    wall: &WallFacts,
    requirement: &Requirement,
) -> Result<(String, Precision), Obstacle> {
    let floor = policy.isolation.value;
    if requirement.control == Control::Isolation
        && wall.unusable.is_none()
        && wall.isolation < floor
    {
        let (has, wants) = (wall.isolation.as_str(), floor.as_str());
        return Err(Obstacle {
            reason: format!(
                "the {} wall gives {has} isolation and the policy wants {wants}",
                wall.provider
            ),
            remedy: remedy_for(wall.isolation, wants),
        });
    }
    match wall.ability(requirement.control) {
        Ability::Missing(obstacle) | Ability::NotBuiltIn(obstacle) => Err(obstacle),
        Ability::Enforced { mechanism, precision: Precision::Approximate } if requirement.exact => {
            let remedy = match requirement.control {
                Control::HostSockets => {
                    "remove filesystem.exact; or show the directory read-only, without an entry for \
                     a path below it, or with the mode overlay; or use Linux 7.1 or later, which \
                     has Landlock 9"
                }
                _ => "remove limits.exact, or run where a cgroup can be used",
            };
            let reason = format!("here it can only be approximated, by {mechanism}");
            Err(Obstacle { reason, remedy: remedy.to_owned() })
        }
        // `limits.exact` asks for what the kernel holds; a permission has no weaker form to choose.
        Ability::Enforced { mechanism, precision: Precision::Unverified }
            if requirement.exact && requirement.control.may_be_approximate() =>
        {
            let reason = format!("nothing here can verify it; the wall relies on {mechanism}");
            let remedy = "remove limits.exact, or use a wall on this host".to_owned();
            Err(Obstacle { reason, remedy })
        }
        Ability::Enforced { mechanism, precision } => Ok((mechanism, precision)),
    }
}

/// Advice for a wall that is below the floor.
fn remedy_for(has: Isolation, wants: &str) -> String {
    match has {
        // This level is below the default floor, so the user may not know it.
        Isolation::Reduced => format!(
            "choose a wall with {wants} isolation, or accept this one by `isolation: reduced` in \
             the policy (--isolation reduced where no policy is named)"
        ),
        // It looks like a machine of the processor, so the difference is named.
        Isolation::TranslatedVm => {
            "let this host use KVM; or accept a machine that a program translates, which is slower \
             and less tested as a boundary, by `isolation: translated-vm` in the policy (--isolation \
             translated-vm where no policy is named)"
                .to_owned()
        }
        _ => format!("choose a wall with {wants} isolation"),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
