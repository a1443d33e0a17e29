//! What is known about an act when rules judge it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::moment::Moment;

/// Fields that Stockade itself fills in; a caller's context never replaces them.
pub const OWN_FIELDS: [&str; 7] =
    ["code", "language", "command", "agent_id", "session_id", "action", "tool_name"];

/// Who asks, when, and what else the caller says.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The agent, when there is one.
    pub agent_id: Option<String>,
    /// The session, when there is one.
    pub session_id: Option<String>,
    /// The host's clock; rules with a time cannot be judged without it, and then deny.
    pub now: Option<Moment>,
    extra: BTreeMap<String, Value>,
}

/// A caller tried to set a field that Stockade fills in itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the context field `{field}` is set by Stockade and cannot be replaced")]
pub struct ReservedField {
    /// The field.
    pub field: String,
}

impl Context {
    /// Adds a field of the caller's.
    pub fn insert(&mut self, field: &str, value: Value) -> Result<(), ReservedField> {
        if OWN_FIELDS.contains(&field) {
            return Err(ReservedField { field: field.to_owned() });
        }
        self.extra.insert(field.to_owned(), value);
        Ok(())
    }
}

/// What is about to happen.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// Code in a language.
    Code {
        /// The text.
        code: &'a str,
        /// The language, such as `python`.
        language: &'a str,
    },
    /// A program with its arguments.
    Command {
        /// The program first.
        argv: &'a [String],
    },
    /// A call of a tool.
    Tool {
        /// The tool's name.
        name: &'a str,
    },
}

impl Act<'_> {
    /// The value of the field `action`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Act::Code { .. } => "execute_code",
            Act::Command { .. } => "run_command",
            Act::Tool { .. } => "call_tool",
        }
    }
}

/// The fields a rule can look at.
pub(crate) struct Facts<'a> {
    act: Act<'a>,
    context: &'a Context,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(act: Act<'a>, context: &'a Context) -> Facts<'a> {
        Facts { act, context }
    }

    /// The host's clock, when it is known.
    pub(crate) fn now(&self) -> Option<&Moment> {
        self.context.now.as_ref()
    }

    /// A field's value. Own fields come first, so that nothing a caller says can hide them.
    pub(crate) fn get(&self, field: &str) -> Option<Cow<'_, Value>> {
        let text = |text: &str| Some(Cow::Owned(Value::String(text.to_owned())));
        let optional = |value: &Option<String>| value.as_deref().and_then(text);
        match (field, self.act) {
            ("action", act) => text(act.as_str()),
            ("agent_id", _) => optional(&self.context.agent_id),
            ("session_id", _) => optional(&self.context.session_id),
            ("code", Act::Code { code, .. }) => text(code),
            ("language", Act::Code { language, .. }) => text(language),
            ("command", Act::Command { argv }) => text(&argv.join(" ")),
            ("tool_name", Act::Tool { name }) => text(name),
            (field, _) if OWN_FIELDS.contains(&field) => None,
            (field, _) => self.context.extra.get(field).map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_context_never_replaces_the_judged_code() {
        let mut context = Context::default();
        let refused = context.insert("code", Value::String("harmless".to_owned()));
        assert_eq!(refused, Err(ReservedField { field: "code".to_owned() }));
        let act = Act::Code { code: "evil", language: "python" };
        let facts = Facts::new(act, &context);
        assert_eq!(facts.get("code").unwrap().as_ref(), "evil");
    }

    #[test]
    fn own_fields_that_do_not_apply_are_absent() {
        let context = Context::default();
        let facts = Facts::new(Act::Tool { name: "search" }, &context);
        assert_eq!(facts.get("code"), None);
        assert_eq!(facts.get("agent_id"), None);
        assert_eq!(facts.get("tool_name").unwrap().as_ref(), "search");
    }
}
