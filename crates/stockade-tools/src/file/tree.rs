//! YAML text to a tree of nodes, each with its place. What YAML offers beyond scalars, lists and
//! mappings (tags, anchors, aliases, directives, several documents) is refused.

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use super::report::{Place, Report};

/// Deepest nesting; schemas are written into the file.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A single value; `quoted` tells `"1"` from `1`.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    /// In the order of the text, without a key twice.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Node,
}

/// Reads the text; `None` where the report has mistakes.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    let options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_comments: false,
    };
    let mut builder = Builder { open: Vec::new(), root: None };
    for event in Parser::new_from_str_with_options(text, options) {
        let refusal = match event {
            Ok((event, span)) => {
                let place = place_of(&span);
                builder.take(event, place).err().map(|(message, remedy)| (place, message, remedy))
            }
            Err(error) => {
                let marker = error.marker();
                let place = Place { line: marker.line(), column: marker.col() + 1 };
                let (message, remedy) = unreadable(&error.info().to_lowercase());
                Some((place, message, remedy))
            }
        };
        if let Some((place, message, remedy)) = refusal {
            report.mistake(place, message, remedy);
            return None;
        }
    }
    if builder.root.is_none() {
        report.mistake(Place::START, "the file is empty", "write `tools:` and a list under it");
    }
    builder.root.filter(|_| !report.has_mistakes())
}

/// What is wrong and what to do.
type Refusal = (String, &'static str);

struct Builder {
    open: Vec<(Node, Option<(String, Place)>)>,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain(anchor, tag.is_some())?;
                let quoted = style != ScalarStyle::Plain;
                self.put(Node { kind: Kind::Scalar { text: text.into_owned(), quoted }, place })
            }
            Event::SequenceStart(_, anchor, tag) => {
                plain(anchor, tag.is_some())?;
                self.begin(Kind::List(Vec::new()), place)
            }
            Event::MappingStart(_, anchor, tag) => {
                plain(anchor, tag.is_some())?;
                self.begin(Kind::Map(Vec::new()), place)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((node, _)) => self.put(node),
                None => Ok(()),
            },
            Event::Alias(_) => plain(1, false),
            Event::DocumentStart(..) if self.root.is_some() => Err((
                "a file of tools is one document".to_owned(),
                "remove the `---` and what follows it",
            )),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, kind: Kind, place: Place) -> Result<(), Refusal> {
        if self.open.len() >= MAX_DEPTH {
            return Err(unreadable("nesting"));
        }
        self.open.push((Node { kind, place }, None));
        Ok(())
    }

    /// Puts a finished value into the open collection, or at the root.
    fn put(&mut self, node: Node) -> Result<(), Refusal> {
        let Some((open, key)) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.kind, key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(entries), Some((key, place))) => {
                entries.push(Entry { key, place, value: node })
            }
            (Kind::Map(entries), None) => {
                let Kind::Scalar { text, .. } = node.kind else {
                    return Err(("a key must be a word".to_owned(), "write `key: value`"));
                };
                if entries.iter().any(|entry| entry.key == text) {
                    return Err((format!("the key `{text}` is said twice"), "keep one of the two"));
                }
                *key = Some((text, node.place));
            }
            (Kind::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

fn plain(anchor: usize, is_tagged: bool) -> Result<(), Refusal> {
    if anchor != 0 || is_tagged {
        let message = "tags, anchors and aliases (`!`, `&`, `*`) are not part of a file of tools";
        return Err((message.to_owned(), "write the value out, or put quotes around it"));
    }
    Ok(())
}

/// What the parser says, in our words where they are better.
fn unreadable(info: &str) -> Refusal {
    if info.contains("nesting") || info.contains("recursion") {
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        return (message, "write deep schemas with `$defs` and `$ref`");
    }
    let remedy = "check indentation, colons, quotes and brackets here and on the line above";
    (format!("not valid YAML: {info}"), remedy)
}

fn place_of(span: &Span) -> Place {
    Place { line: span.start.line(), column: span.start.col() + 1 }
}

impl Node {
    /// The value by the core schema of YAML 1.2; what JSON cannot hold is given back as written.
    pub(super) fn json(&self) -> Result<Value, &Node> {
        match &self.kind {
            Kind::List(items) => {
                items.iter().map(Node::json).collect::<Result<_, _>>().map(Value::Array)
            }
            Kind::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key.clone(), entry.value.json()?);
                }
                Ok(Value::Object(map))
            }
            Kind::Scalar { text, quoted: true } => Ok(Value::String(text.clone())),
            Kind::Scalar { text, quoted: false } => scalar(text).ok_or(self),
        }
    }
}

fn scalar(text: &str) -> Option<Value> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let digits = digits.strip_prefix('.').unwrap_or(digits);
            if !digits.starts_with(|first: char| first.is_ascii_digit()) {
                let is_beyond = matches!(digits.to_lowercase().as_str(), "nan" | "inf");
                return (!is_beyond || digits == text).then(|| Value::String(text.to_owned()));
            }
            if let Ok(whole) = text.parse::<i64>() {
                Value::Number(whole.into())
            } else if let Ok(whole) = text.parse::<u64>() {
                Value::Number(whole.into())
            } else if digits.bytes().all(|digit| digit.is_ascii_digit()) {
                // A whole number that would be rounded.
                return None;
            } else if let Ok(real) = text.parse::<f64>() {
                Value::Number(Number::from_f64(real)?)
            } else {
                Value::String(text.to_owned())
            }
        }
    };
    Some(value)
}
