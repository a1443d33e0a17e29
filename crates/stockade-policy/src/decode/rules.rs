//! `rules`.

use serde_json::Value;
use stockade_text::{Node, Table, describe, is_nearly};

use crate::context::{ARGUMENT, OWN_FIELDS};
use crate::moment::{TimeCondition, TimeOfDay, Zone};
use crate::rules::{
    Action, Condition, MAX_REGEX_TEXT, MAX_REGEX_TOTAL, MAX_REGEXES, Operator, Rule,
};
use crate::source::Basis;

use super::keys;
use super::values::Decoder;

/// The most rules in one policy.
const MAX_RULES: usize = 1000;

/// The kinds of dynamic condition, including those that cannot be enforced here.
#[derive(Clone, Copy)]
enum Dynamic {
    Window,
    Days,
    Budget,
}

impl Decoder<'_, '_> {
    /// The rules in evaluation order.
    pub(super) fn rules(&mut self, table: &Table<'_>) -> Vec<Rule> {
        let Some(node) = table.get("rules") else { return Vec::new() };
        let items = self.list(node, "rules").unwrap_or_default();
        if items.len() > MAX_RULES {
            let message = format!("more than {MAX_RULES} rules");
            self.mistake(node.place, message, "merge rules with `in` or `matches`");
            return Vec::new();
        }
        let mut rules = Vec::new();
        for item in items {
            if self.report.is_full() {
                break;
            }
            rules.extend(self.rule(item));
        }
        rules.sort_by_key(|rule: &Rule| std::cmp::Reverse(rule.priority));
        rules
    }

    fn rule(&mut self, node: &Node) -> Option<Rule> {
        let table = self.table(node, "a rule", keys::RULE)?;
        let name = self
            .required(&table, "name", "a rule")
            .and_then(|node| self.text(node, "rules[].name"));
        if name.as_deref() == Some("") {
            self.mistake(table.place, "a rule's name is empty", "name what it does");
        }
        let condition = self.required(&table, "condition", "a rule");
        let condition = condition.and_then(|node| self.condition(node));
        let actions = Action::ALL.map(|action| (action.as_str(), action));
        let action = self.required(&table, "action", "a rule");
        let action = action.and_then(|node| self.word(node, "rules[].action", &actions));
        let priority = match table.get("priority") {
            Some(node) => self.priority(node),
            None => Some(0),
        };
        let message = table.get("message").and_then(|node| self.text(node, "rules[].message"));
        let time = match table.get_non_null("dynamic_condition") {
            Some(node) => self.time(node).map(Some),
            None => Some(None),
        };
        if let Some(node) = table.get("override")
            && self.boolean(node, "rules[].override") == Some(true)
        {
            let message = "`override: true` is not enforced by a sandbox";
            self.mistake(
                node.place,
                message,
                "remove it: combining takes the stricter clause, and no policy replaces another",
            );
        }
        let basis = Basis::Line(self.report.origin(node.place));
        Some(Rule {
            name: name?,
            condition: condition?,
            time: time?,
            action: action?,
            priority: priority?,
            message: message.unwrap_or_default(),
            basis,
        })
    }

    fn condition(&mut self, node: &Node) -> Option<Condition> {
        let table = self.table(node, "a condition", keys::CONDITION)?;
        let operators = Operator::ALL.map(|operator| (operator.as_str(), operator));
        let field = self.required(&table, "field", "a condition");
        let field = field.and_then(|node| self.field(node));
        let operator = self.required(&table, "operator", "a condition");
        let operator = operator.and_then(|node| self.word(node, "condition.operator", &operators));
        let value = self.required(&table, "value", "a condition");
        let value = value.and_then(|node| Some((node, self.value(node)?)));
        // All three are checked before the first mistake ends the condition.
        let (field_text, operator, (value_node, value)) = (field?, operator?, value?);
        if operator == Operator::Matches {
            self.regexes += 1;
            self.regex_text += value.as_str().map_or(0, str::len);
            let large = self.regex_bytes > MAX_REGEX_TOTAL || self.regex_text > MAX_REGEX_TEXT;
            if self.regexes > MAX_REGEXES || large {
                let message = if self.regexes > MAX_REGEXES {
                    format!("more than {MAX_REGEXES} regular expressions")
                } else {
                    "the regular expressions up to here are too large together".to_owned()
                };
                self.mistake(
                    value_node.place,
                    message,
                    "join some of them with `|`, or shorten them",
                );
                return None;
            }
        }
        match Condition::new(field_text, operator, value) {
            Ok(condition) => {
                self.regex_bytes += condition.regex_bytes();
                Some(condition)
            }
            Err(error) => {
                // Compiling up to the largest bound has taken that much time already.
                self.regex_bytes += 4 << 20;
                self.mistake(value_node.place, error.to_string(), error.remedy());
                None
            }
        }
    }

    /// The name of a field.
    fn field(&mut self, field: &Node) -> Option<String> {
        let field_text = self.text(field, "condition.field")?;
        if field_text.is_empty() {
            self.mistake(field.place, "condition.field is empty", "name a field such as `code`");
            return None;
        }
        if let Some(own) = meant(&field_text) {
            let message = format!("`{field_text}` is not a field of Stockade, but similar to one");
            let remedy = format!("did you mean `{own}`? A field of your own needs another name");
            self.mistake(field.place, message, remedy);
            return None;
        }
        Some(field_text)
    }

    fn priority(&mut self, node: &Node) -> Option<i64> {
        match self.value(node)? {
            Value::Number(number) if number.is_i64() => number.as_i64(),
            _ => {
                let message =
                    format!("rules[].priority must be a whole number, not {}", describe(node));
                self.mistake(node.place, message, "write digits; a higher priority comes first");
                None
            }
        }
    }

    /// At least one day.
    fn some_days(&mut self, node: &Node) -> Option<Vec<u8>> {
        let days = self.days(node)?;
        if days.is_empty() {
            let message = "`days_of_week` names no day, so the rule never applies";
            self.mistake(node.place, message, "name days from 1 to 7, or leave it out");
            return None;
        }
        Some(days)
    }

    fn time(&mut self, node: &Node) -> Option<TimeCondition> {
        let what = "dynamic_condition";
        let table = self.table(node, what, keys::DYNAMIC_CONDITION)?;
        let words = [
            ("time_window", Dynamic::Window),
            ("day_of_week", Dynamic::Days),
            ("token_count_per_window", Dynamic::Budget),
            ("cost_per_window", Dynamic::Budget),
        ];
        let kind = self.required(&table, "type", what);
        let kind =
            kind.and_then(|node| Some((node, self.word(node, "dynamic_condition.type", &words)?)));
        let days = match table.get_non_null("days_of_week") {
            Some(node) => self.some_days(node),
            None => Some(Vec::new()),
        };
        let zone = match table.get_non_null("timezone") {
            Some(node) => self.zone(node),
            None => Some(Zone::utc()),
        };
        // The times are checked before the first mistake ends the condition.
        let is_window = matches!(kind, Some((_, Dynamic::Window)));
        let times = match is_window {
            true => {
                let start = self.time_of_day(&table, "start_time");
                (start, self.time_of_day(&table, "end_time"))
            }
            false => (None, None),
        };
        let ((kind_node, kind), days, zone) = (kind?, days?, zone?);
        let window = match kind {
            Dynamic::Budget => {
                let message = format!("{} is not enforced by a sandbox", describe(kind_node));
                self.mistake(
                    kind_node.place,
                    message,
                    "remove it, and enforce it where the model is called",
                );
                return None;
            }
            Dynamic::Days if days.is_empty() => {
                self.mistake(
                    node.place,
                    "day_of_week needs `days_of_week`",
                    "add `days_of_week: [1, 2]`",
                );
                return None;
            }
            Dynamic::Days => None,
            Dynamic::Window => {
                let (start, end) = (times.0?, times.1?);
                if start == end {
                    let message = "the window ends when it starts, so the rule never applies";
                    self.mistake(node.place, message, "move `end_time`, or use `day_of_week`");
                    return None;
                }
                Some((start, end))
            }
        };
        let foreign: &[&str] = match kind {
            Dynamic::Days => &["start_time", "end_time", "window", "limit"],
            Dynamic::Window | Dynamic::Budget => &["window", "limit"],
        };
        for key in foreign {
            if let Some(node) = table.get_non_null(key) {
                let message = format!("`{key}` has no meaning for {}", describe(kind_node));
                self.mistake(node.place, message, "remove it");
            }
        }
        Some(TimeCondition { window, days, zone })
    }

    fn days(&mut self, node: &Node) -> Option<Vec<u8>> {
        let mut days = Vec::new();
        let items = self.list(node, "days_of_week")?;
        for item in items {
            let Some(day) = self.number(item, "a weekday", 1) else { continue };
            match day {
                day @ 1..=7 => days.push(u8::try_from(day).expect("a weekday is at most 7")),
                _ => self.mistake(
                    item.place,
                    "a weekday is 1 (Monday) to 7 (Sunday)",
                    "write 1 to 7",
                ),
            }
        }
        if days.len() < items.len() {
            return None;
        }
        days.sort_unstable();
        days.dedup();
        Some(days)
    }

    fn zone(&mut self, node: &Node) -> Option<Zone> {
        let text = self.text(node, "timezone")?;
        let zone = Zone::parse(&text);
        if zone.is_none() {
            let message = format!("`{text}` is not a time zone");
            self.mistake(
                node.place,
                message,
                "write an IANA name such as `Europe/Berlin`, or `UTC`",
            );
        }
        zone
    }

    fn time_of_day(&mut self, table: &Table<'_>, key: &str) -> Option<TimeOfDay> {
        let node = self.required(table, key, "time_window")?;
        let text = self.scalar(node, key)?;
        let time = TimeOfDay::parse(text);
        if time.is_none() {
            let message = format!("{key} cannot be `{text}`");
            self.mistake(
                node.place,
                message,
                "write hours and minutes in quotes, such as \"09:00\"",
            );
        }
        time
    }
}

/// The field of Stockade that a name is similar to.
fn meant(field: &str) -> Option<String> {
    if let Some((first, rest)) = field.split_once('.')
        && is_nearly("arguments", first)
    {
        let is_ours = field.starts_with(ARGUMENT) && !rest.is_empty();
        return (!is_ours)
            .then(|| format!("{ARGUMENT}{}", if rest.is_empty() { "NAME" } else { rest }));
    }
    let nearly = |own: &&&str| **own != field && is_nearly(own, field);
    OWN_FIELDS.iter().find(nearly).map(|own| (*own).to_owned())
}
