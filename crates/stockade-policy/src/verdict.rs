//! Verdicts: answers to questions about a policy.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::source::Basis;

/// What happens to an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It proceeds.
    Allow,
    /// It proceeds and is recorded.
    Audit,
    /// It is refused.
    Deny,
}

impl Effect {
    /// The effect as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Audit => "audit",
            Effect::Deny => "deny",
        }
    }

    /// Whether the act proceeds.
    pub fn allows(self) -> bool {
        match self {
            Effect::Allow | Effect::Audit => true,
            Effect::Deny => false,
        }
    }
}

/// The answer to one question, with its reason.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What happens.
    pub effect: Effect,
    /// The control that decided.
    pub control: Control,
    /// The judged target, in canonical form.
    pub target: String,
    /// The line or built-in rule that decided.
    pub basis: Basis,
    /// Why, in one sentence without its full stop.
    pub why: String,
    /// The change that would reverse the verdict.
    pub change: String,
}

/// A typed refusal, for programs, models and records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    /// The control that refused.
    pub control: Cow<'static, str>,
    /// The line or built-in rule that decided.
    pub rule: String,
    /// What was refused.
    pub target: String,
    /// Why.
    pub why: String,
    /// How to allow it.
    pub how_to_allow: String,
}

impl Verdict {
    /// Whether the act proceeds.
    pub fn allows(&self) -> bool {
        self.effect.allows()
    }

    /// The refusal, if it is one.
    pub fn denial(&self) -> Option<Denial> {
        match self.effect {
            Effect::Allow | Effect::Audit => None,
            Effect::Deny => Some(Denial {
                control: self.control.as_str().into(),
                rule: self.basis.to_string(),
                target: self.target.clone(),
                why: self.why.clone(),
                how_to_allow: self.change.clone(),
            }),
        }
    }
}
