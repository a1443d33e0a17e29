//! The facts about an act that rules judge.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::moment::Moment;

/// Fields that Stockade itself sets, in addition to all that start with [`ARGUMENT`]; a caller's
/// context never replaces them.
pub const OWN_FIELDS: [&str; 8] =
    ["code", "language", "command", "agent_id", "session_id", "action", "tool_name", "arguments"];

/// The prefix of the field for one argument of a tool call; the argument's name follows.
pub const ARGUMENT: &str = "arguments.";

/// The caller, the time, and further fields from the caller.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The agent, if any.
    pub agent_id: Option<String>,
    /// The session, if any.
    pub session_id: Option<String>,
    /// The host's clock; without it rules with a time cannot be judged and deny.
    pub now: Option<Moment>,
    extra: BTreeMap<String, Value>,
}

/// A caller tried to set a field that Stockade sets itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the context field `{field}` is set by Stockade and cannot be replaced")]
pub struct ReservedField {
    /// The field.
    pub field: String,
}

impl Context {
    /// Adds a field of the caller.
    pub fn insert(&mut self, field: &str, value: Value) -> Result<(), ReservedField> {
        if is_reserved(field) {
            return Err(ReservedField { field: field.to_owned() });
        }
        self.extra.insert(field.to_owned(), value);
        Ok(())
    }

    /// A field of the caller.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.extra.get(field)
    }
}

/// The act to judge.
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
        /// The arguments of the call, if known.
        arguments: Option<&'a Value>,
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

/// The fields that a rule can read.
pub(crate) struct Facts<'a> {
    /// The fields that Stockade sets for this act, copied once for all rules.
    own: Vec<(&'static str, Value)>,
    /// The arguments of a tool call.
    arguments: Option<&'a Value>,
    /// The arguments as text, serialised when the first rule reads them.
    arguments_text: OnceCell<Value>,
    context: &'a Context,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(act: Act<'a>, context: &'a Context) -> Facts<'a> {
        let text = |text: &str| Value::String(text.to_owned());
        let mut own = vec![("action", text(act.as_str()))];
        let mut arguments = None;
        match act {
            Act::Code { code, language } => {
                own.extend([("code", text(code)), ("language", text(language))]);
            }
            Act::Command { argv } => own.push(("command", Value::String(argv.join(" ")))),
            Act::Tool { name, arguments: given } => {
                own.push(("tool_name", text(name)));
                arguments = given;
            }
        }
        own.extend(context.agent_id.as_deref().map(|id| ("agent_id", text(id))));
        own.extend(context.session_id.as_deref().map(|id| ("session_id", text(id))));
        Facts { own, arguments, arguments_text: OnceCell::new(), context }
    }

    /// The host's clock, if known.
    pub(crate) fn now(&self) -> Option<&Moment> {
        self.context.now.as_ref()
    }

    /// A field's value. The caller's context applies only to names that are not reserved.
    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        if let Some(name) = field.strip_prefix(ARGUMENT) {
            return self.arguments?.get(name);
        }
        if field == "arguments" {
            let arguments = self.arguments?;
            let write = || Value::String(arguments.to_string());
            return Some(self.arguments_text.get_or_init(write));
        }
        if OWN_FIELDS.contains(&field) {
            return self.own.iter().find(|(name, _)| *name == field).map(|(_, value)| value);
        }
        self.context.extra.get(field)
    }
}

/// Whether a name is reserved, or could be mistaken for a reserved one.
fn is_reserved(field: &str) -> bool {
    let plain = |name: &str| name.trim().to_lowercase().replace(['_', '-', ' '], "");
    let field = plain(field);
    field.starts_with(ARGUMENT) || OWN_FIELDS.iter().any(|own| plain(own) == field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn callers_context_never_replaces_the_judged_code() {
        let mut context = Context::default();
        let refused = context.insert("code", Value::String("harmless".to_owned()));
        assert_eq!(refused, Err(ReservedField { field: "code".to_owned() }));
        for lookalike in ["Code", " code", "tool-name", "AGENT_ID"] {
            assert!(context.insert(lookalike, Value::Null).is_err(), "{lookalike}");
        }
        let act = Act::Code { code: "evil", language: "python" };
        let facts = Facts::new(act, &context);
        assert_eq!(facts.get("code").unwrap(), "evil");
    }

    #[test]
    fn own_fields_that_do_not_apply_are_absent() {
        let context = Context::default();
        let facts = Facts::new(Act::Tool { name: "search", arguments: None }, &context);
        assert_eq!(facts.get("code"), None);
        assert_eq!(facts.get("agent_id"), None);
        assert_eq!(facts.get("arguments"), None);
        assert_eq!(facts.get("arguments.query"), None);
        assert_eq!(facts.get("tool_name").unwrap(), "search");
    }

    #[test]
    fn arguments_are_seen_whole_and_one_by_one() {
        let context = Context::default();
        let arguments = json!({ "query": "a \"b\"", "most": 5, "options.deep": {"x": [1]} });
        let act = Act::Tool { name: "search", arguments: Some(&arguments) };
        let facts = Facts::new(act, &context);
        let whole = r#"{"query":"a \"b\"","most":5,"options.deep":{"x":[1]}}"#;
        assert_eq!(facts.get("arguments").unwrap(), whole);
        assert_eq!(facts.get("arguments.query").unwrap(), "a \"b\"");
        assert_eq!(facts.get("arguments.most").unwrap(), 5);
        assert_eq!(facts.get("arguments.options.deep").unwrap(), &json!({"x": [1]}));
        assert_eq!(facts.get("arguments.options"), None);
        assert_eq!(facts.get("arguments."), None);
    }

    #[test]
    fn callers_context_never_replaces_an_argument() {
        let mut context = Context::default();
        for lookalike in ["arguments", "arguments.query", "Arguments.x", " ARGU-MENTS .x"] {
            assert!(context.insert(lookalike, json!("harmless")).is_err(), "{lookalike}");
        }
        context.insert("argumentative", json!(1)).unwrap();
        let facts = Facts::new(Act::Tool { name: "search", arguments: None }, &context);
        assert_eq!(facts.get("arguments.query"), None);
    }
}
