//! Rules over code, commands and tool calls before they run.
//!
//! Highest priority first, file order among equals; the first match decides. A rule over code text
//! only guides honest agents; the wall enforces what must hold.

use std::borrow::Cow;
use std::cmp::Ordering;

use regex::{Regex, RegexBuilder};
use serde::Serialize;
use serde_json::Value;

use crate::context::Facts;
use crate::moment::TimeCondition;
use crate::source::{Basis, Sourced};

/// The most regular expressions in one policy: each takes time to compile.
pub(crate) const MAX_REGEXES: usize = 200;

/// The longest regular expression, in bytes.
pub(crate) const MAX_REGEX_BYTES: usize = 2048;

/// The bounds of a compiled regular expression, in bytes. Matching is linear in the text, with a
/// factor that grows with this.
const REGEX_BOUNDS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// The most bytes of text times bytes of expression for one match: a second in the worst case, and
/// 16 MiB of text for a small expression.
const MAX_REGEX_WORK: usize = 1 << 36;

/// The most bytes of source of all regular expressions in one policy: character classes take
/// compile time that the compiled size does not show.
pub(crate) const MAX_REGEX_TEXT: usize = 32 << 10;

/// The most compiled bytes of all regular expressions of one policy.
pub(crate) const MAX_REGEX_TOTAL: usize = 16 << 20;

/// The action of a matching rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It runs.
    Allow,
    /// It runs and is recorded.
    Audit,
    /// It does not run.
    Deny,
    /// It does not run; a synonym of `Deny`.
    Block,
}

impl Action {
    /// Every action, most permissive first.
    pub const ALL: [Action; 4] = [Action::Allow, Action::Audit, Action::Deny, Action::Block];

    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Audit => "audit",
            Action::Deny => "deny",
            Action::Block => "block",
        }
    }

    /// Whether the act runs.
    pub fn runs(self) -> bool {
        match self {
            Action::Allow | Action::Audit => true,
            Action::Deny | Action::Block => false,
        }
    }
}

/// The rules of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeGate {
    /// The action for code that no rule matches.
    pub default: Sourced<Action>,
    /// The rules in evaluation order.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, for people; it need not be unique.
    pub name: String,
    /// Its condition.
    pub condition: Condition,
    /// When it applies; `None` is always.
    pub time: Option<TimeCondition>,
    /// Its action.
    pub action: Action,
    /// Rules with a higher priority come first.
    pub priority: i64,
    /// The message for the agent.
    pub message: String,
    /// The line it starts on.
    pub basis: Basis,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.name == other.name
            && self.condition == other.condition
            && self.time == other.time
            && self.action == other.action
            && self.priority == other.priority
            && self.message == other.message
    }
}

impl Eq for Rule {}

/// A comparison of one field with a constant.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The field's name.
    pub field: String,
    /// The comparison.
    pub operator: Operator,
    /// The constant.
    pub value: Value,
    /// The compiled form of `value` for `matches`.
    regex: Option<(Regex, usize)>,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        (&self.field, self.operator, &self.value) == (&other.field, other.operator, &other.value)
    }
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater.
    Gt,
    /// Less.
    Lt,
    /// Greater or equal.
    Gte,
    /// Less or equal.
    Lte,
    /// The field is one of the listed values.
    In,
    /// The field is not one of the listed values.
    NotIn,
    /// A regular expression finds something in the field.
    Matches,
    /// The field contains the value.
    Contains,
}

impl Operator {
    /// Every operator.
    pub const ALL: [Operator; 10] = [
        Operator::Eq,
        Operator::Ne,
        Operator::Gt,
        Operator::Lt,
        Operator::Gte,
        Operator::Lte,
        Operator::In,
        Operator::NotIn,
        Operator::Matches,
        Operator::Contains,
    ];

    /// The word in a policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Operator::Eq => "eq",
            Operator::Ne => "ne",
            Operator::Gt => "gt",
            Operator::Lt => "lt",
            Operator::Gte => "gte",
            Operator::Lte => "lte",
            Operator::In => "in",
            Operator::NotIn => "not_in",
            Operator::Matches => "matches",
            Operator::Contains => "contains",
        }
    }
}

/// Why a condition is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The operator needs another type of value.
    #[error("`{operator}` needs {needed}")]
    WrongValue {
        /// The operator.
        operator: &'static str,
        /// What it needs.
        needed: &'static str,
    },
    /// The regular expression is not valid.
    #[error("the regular expression does not compile: {reason}")]
    BadRegex {
        /// The engine's message, on one line.
        reason: String,
    },
    /// The regular expression would be too expensive to run.
    #[error("the regular expression is too large")]
    LargeRegex,
}

impl ConditionError {
    /// What to write instead.
    pub fn remedy(&self) -> &'static str {
        match self {
            ConditionError::WrongValue { .. } => "change the value, or use another operator",
            ConditionError::BadRegex { reason } if !reason.contains("not supported") => {
                r"correct it; write a special character such as `(` literally as `\(`"
            }
            ConditionError::BadRegex { .. } => {
                "write it without look-around and back-references: matching takes linear time here"
            }
            ConditionError::LargeRegex => "shorten it, or lower its repetition counts",
        }
    }
}

/// Why a condition cannot be judged; the act is then denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The two values have no order, or neither can contain the other.
    #[error("the field `{field}` cannot be compared with `{operator}`: it is {found}")]
    Types {
        /// The field.
        field: String,
        /// The operator.
        operator: &'static str,
        /// The type of the field.
        found: &'static str,
    },
    /// Matching would take too long.
    #[error("the field `{field}` is too long for so large a regular expression")]
    TooLong {
        /// The field.
        field: String,
    },
}

impl Condition {
    /// Checks that the operator can use the value, and compiles regular expressions.
    pub fn new(
        field: String,
        operator: Operator,
        value: Value,
    ) -> Result<Condition, ConditionError> {
        let wrong =
            |needed| Err(ConditionError::WrongValue { operator: operator.as_str(), needed });
        let regex = match (operator, &value) {
            (Operator::Matches, Value::String(text)) => Some(compile(text)?),
            (Operator::Matches, _) => return wrong("a regular expression as text"),
            (Operator::In | Operator::NotIn, Value::Array(_)) => None,
            (Operator::In | Operator::NotIn, _) => return wrong("a list of values"),
            (
                Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte,
                Value::Number(_) | Value::String(_),
            ) => None,
            (Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte, _) => {
                return wrong("a number or a text");
            }
            (Operator::Contains, Value::Object(_) | Value::Null) => {
                return wrong("a text or a number");
            }
            (Operator::Contains, Value::String(text)) if text.is_empty() => {
                return wrong("a text that is not empty");
            }
            (Operator::Eq | Operator::Ne, Value::Null | Value::Object(_)) => {
                return wrong("a text, a number, true, false or a list");
            }
            (Operator::Eq | Operator::Ne | Operator::Contains, _) => None,
        };
        Ok(Condition { field, operator, value, regex })
    }

    /// The memory bound of the condition's regular expression, in bytes.
    pub(crate) fn regex_bytes(&self) -> usize {
        self.regex.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// Whether the condition holds. A missing or null field matches nothing.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Result<bool, CompareError> {
        let Some(field) = facts.get(&self.field).filter(|value| !value.is_null()) else {
            return Ok(false);
        };
        match self.operator {
            Operator::Eq => Ok(same(field, &self.value)),
            Operator::Ne => Ok(!same(field, &self.value)),
            Operator::Gt => self.order(field).map(Ordering::is_gt),
            Operator::Lt => self.order(field).map(Ordering::is_lt),
            Operator::Gte => self.order(field).map(Ordering::is_ge),
            Operator::Lte => self.order(field).map(Ordering::is_le),
            Operator::In => Ok(self.lists(field)),
            Operator::NotIn => Ok(!self.lists(field)),
            Operator::Contains => self.contained_in(field),
            Operator::Matches => {
                let (regex, bytes) = self.regex.as_ref().ok_or_else(|| self.cannot(field))?;
                let text = as_text(field).ok_or_else(|| self.cannot(field))?;
                if text.len().saturating_mul(*bytes) > MAX_REGEX_WORK {
                    return Err(CompareError::TooLong { field: self.field.clone() });
                }
                Ok(regex.is_match(&text))
            }
        }
    }

    fn lists(&self, field: &Value) -> bool {
        self.value.as_array().is_some_and(|listed| listed.iter().any(|item| same(field, item)))
    }

    fn contained_in(&self, field: &Value) -> Result<bool, CompareError> {
        match (field, &self.value) {
            (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
            (Value::Array(items), value) => Ok(items.iter().any(|item| same(item, value))),
            _ => Err(self.cannot(field)),
        }
    }

    fn order(&self, field: &Value) -> Result<Ordering, CompareError> {
        let ordering = match (field, &self.value) {
            (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        ordering.ok_or_else(|| self.cannot(field))
    }

    fn cannot(&self, field: &Value) -> CompareError {
        let found = match field {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        CompareError::Types { field: self.field.clone(), operator: self.operator.as_str(), found }
    }
}

/// Compiles with the smallest sufficient bound, which then is the memory bound of the result.
fn compile(text: &str) -> Result<(Regex, usize), ConditionError> {
    if text.len() > MAX_REGEX_BYTES {
        return Err(ConditionError::LargeRegex);
    }
    for bound in REGEX_BOUNDS {
        let built =
            RegexBuilder::new(text).size_limit(bound).dfa_size_limit(bound).nest_limit(64).build();
        match built {
            Ok(regex) => return Ok((regex, bound)),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(other) => return Err(ConditionError::BadRegex { reason: on_one_line(&other) }),
        }
    }
    Err(ConditionError::LargeRegex)
}

fn on_one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or("").trim().trim_start_matches("error: ").to_owned()
}

/// Equality across both spellings of a number: `1` and `1.0` are the same.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

fn compare_numbers(a: &serde_json::Number, b: &serde_json::Number) -> Option<Ordering> {
    let whole = |number: &serde_json::Number| number.as_i128();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn as_text(field: &Value) -> Option<Cow<'_, str>> {
    match field {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(value) => Some(Cow::Owned(value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
