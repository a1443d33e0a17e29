//! Parses YAML text to a tree of nodes, each with its place, within fixed budgets.
//!
//! One parser reads the text, once. This module refuses YAML features that no text here needs
//! (tags, directives, merge keys, several documents), so later code sees only scalars, lists and
//! maps with text keys.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Number, Value};

use crate::dialect::Aliases;
use crate::{Dialect, Report, TextSpan};

/// The most bytes of text, counted after expanding aliases: a few aliases of one long text are a
/// bomb too.
const MAX_BYTES: usize = 4 << 20;

/// A value of the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its kind and content.
    pub kind: Kind,
    /// Where it starts.
    pub place: TextSpan,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A single value; `quoted` distinguishes `"1"` from `1`.
    Scalar {
        /// The text, without quotes.
        text: String,
        /// Whether it is quoted or a block scalar.
        quoted: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the text, without duplicates.
    Map(Vec<KeyValue>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// Where the key starts.
    pub key_place: TextSpan,
    /// Its value.
    pub value: Node,
}

/// Parses the text; `None` if the report has mistakes.
pub(crate) fn read(text: &str, report: &mut Report<'_>) -> Option<Node> {
    let dialect = report.dialect;
    let options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: dialect.max_depth,
        block_nesting_limit: dialect.max_depth,
        emit_comments: false,
    };
    let mut builder = Builder {
        dialect,
        report,
        open: Vec::new(),
        anchors: HashMap::new(),
        held: Size::default(),
        root: None,
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.take(event, &span),
            Err(error) => Err(scan_mistake(builder.report, &error)),
        };
        if step.is_err() {
            return None;
        }
    }
    if builder.root.is_none() && !builder.report.has_mistakes() {
        let message = format!("the {} is empty", dialect.name);
        builder.report.mistake(TextSpan::START, message, dialect.when_empty);
    }
    let root = builder.root;
    if report.has_mistakes() { None } else { root }
}

/// A mistake was reported and parsing must stop.
struct Stop;

/// A collection that is not closed yet.
struct Open {
    node: Node,
    anchor: usize,
    pending_key: Option<(String, TextSpan)>,
    seen: HashMap<String, TextSpan>,
}

/// The size of a value.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

/// A value that an alias can name.
struct Anchored {
    node: Node,
    size: Size,
}

struct Builder<'r, 't> {
    dialect: &'static Dialect,
    report: &'r mut Report<'t>,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    held: Size,
    root: Option<Node>,
}

impl Builder<'_, '_> {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Stop> {
        let place = place_of(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.count(Size { nodes: 1, bytes: text.len(), depth: 0 }, place)?;
                let quoted = style != ScalarStyle::Plain;
                let node = Node { kind: Kind::Scalar { text: text.into_owned(), quoted }, place };
                self.remember(anchor, &node)?;
                self.place(node)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.start(Node { kind: Kind::List(Vec::new()), place }, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.is_some(), span)?;
                self.start(Node { kind: Kind::Map(Vec::new()), place }, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                self.remember(open.anchor, &open.node)?;
                self.place(open.node)
            }
            Event::Alias(anchor) => self.expand(anchor, place),
            Event::DocumentStart(..) if self.root.is_some() => {
                let message = format!("a {} is one document", self.dialect.name);
                self.stop(place, message, "remove the `---` and what follows it")
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        self.count(Size { nodes: 1, bytes: 0, depth: 1 }, node.place)?;
        self.open.push(Open { node, anchor, pending_key: None, seen: HashMap::new() });
        Ok(())
    }

    fn expand(&mut self, anchor: usize, place: TextSpan) -> Result<(), Stop> {
        self.refuse_alias(place)?;
        let Some(Anchored { node, size }) = self.anchors.get(&anchor) else {
            let message = "an alias is inside the value it names";
            return self.stop(place, message, "write the value out instead of using `*`");
        };
        let size = *size;
        let node = Node { place, ..node.clone() };
        self.count(size, place)?;
        self.place(node)
    }

    /// Keeps a copy of an anchored value. The copy counts too: nested anchors must not use more
    /// memory than the budget allows.
    fn remember(&mut self, anchor: usize, node: &Node) -> Result<(), Stop> {
        if anchor != 0 {
            self.refuse_alias(node.place)?;
            let size = size_of(node);
            self.count(Size { depth: 0, ..size }, node.place)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size });
        }
        Ok(())
    }

    /// Adds to the total size, and stops if it is too large.
    fn count(&mut self, size: Size, place: TextSpan) -> Result<(), Stop> {
        self.held.nodes += size.nodes;
        self.held.bytes += size.bytes;
        let Dialect { name, max_depth, max_nodes, .. } = self.dialect;
        if self.open.len() + size.depth > *max_depth {
            return self.stop(place, too_deep(self.dialect), self.dialect.when_too_deep);
        }
        let message = if self.held.nodes > *max_nodes {
            format!("more than {max_nodes} values once aliases are expanded")
        } else if self.held.bytes > MAX_BYTES {
            format!("more than {MAX_BYTES} bytes once aliases are expanded")
        } else {
            return Ok(());
        };
        self.stop(place, message, format!("split the {name}, or write values out without `*`"))
    }

    fn refuse_alias(&mut self, place: TextSpan) -> Result<(), Stop> {
        match self.dialect.aliases {
            Aliases::Expanded => Ok(()),
            Aliases::Refused => {
                let language = self.dialect.language;
                let message = format!("anchors and aliases (`&`, `*`) are not part of {language}");
                self.stop(place, message, "write the value out, or put quotes around it")
            }
        }
    }

    fn refuse_tag(&mut self, tagged: bool, span: &Span) -> Result<(), Stop> {
        if !tagged {
            return Ok(());
        }
        let place = place_of(span.tag_span().as_ref().unwrap_or(span));
        let message = format!("YAML tags (`!…`) are not part of {}", self.dialect.language);
        self.stop(place, message, "remove the tag; write text in quotes and numbers without")
    }

    /// Adds a finished value to the open collection, or makes it the root.
    fn place(&mut self, node: Node) -> Result<(), Stop> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.kind, open.pending_key.take()) {
            (Kind::Map(entries), Some((key, key_place))) => {
                entries.push(KeyValue { key, key_place, value: node });
                Ok(())
            }
            (Kind::Map(_), None) => self.key(node),
            (Kind::List(items), _) => {
                items.push(node);
                Ok(())
            }
            (Kind::Scalar { .. }, _) => Ok(()),
        }
    }

    fn key(&mut self, node: Node) -> Result<(), Stop> {
        let place = node.place;
        let Kind::Scalar { text, quoted } = node.kind else {
            return self.stop(place, "a key must be a word", "write `key: value`");
        };
        if text == "<<" && !quoted {
            let message = format!("merge keys (`<<`) are not part of {}", self.dialect.language);
            return self.stop(place, message, "write the keys out");
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        let first = open.seen.get(&text).copied();
        open.seen.entry(text.clone()).or_insert(place);
        open.pending_key = Some((text.clone(), place));
        if let Some(first) = first {
            let message = format!("the key `{text}` occurs twice; first on line {}", first.line);
            self.report.mistake(place, message, "keep one of the two");
        }
        Ok(())
    }

    fn stop<T>(
        &mut self,
        place: TextSpan,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Result<T, Stop> {
        self.report.mistake(place, message, remedy);
        Err(Stop)
    }
}

impl Node {
    /// Whether it is an unquoted null or empty value, by the core schema of YAML 1.2.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, quoted: false }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The value by the core schema of YAML 1.2; returns the node of a number that JSON lacks as
    /// the error.
    pub fn json(&self) -> Result<Value, &Node> {
        match &self.kind {
            Kind::List(items) => {
                items.iter().map(Node::json).collect::<Result<_, _>>().map(Value::Array)
            }
            Kind::Map(entries) => {
                let pair = |entry| {
                    let KeyValue { key, value, .. }: &KeyValue = entry;
                    Ok((key.clone(), value.json()?))
                };
                entries.iter().map(pair).collect::<Result<_, _>>().map(Value::Object)
            }
            Kind::Scalar { .. } => self.scalar_json().ok_or(self),
        }
    }

    /// The same for a single value; `None` for collections too.
    pub(crate) fn scalar_json(&self) -> Option<Value> {
        let Kind::Scalar { text, quoted } = &self.kind else { return None };
        if *quoted {
            return Some(Value::String(text.clone()));
        }
        if self.is_null() {
            return Some(Value::Null);
        }
        match text.as_str() {
            "true" | "True" | "TRUE" => return Some(Value::Bool(true)),
            "false" | "False" | "FALSE" => return Some(Value::Bool(false)),
            ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "-.inf" | "-.Inf" | "-.INF"
            | "+.inf" | "+.Inf" | "+.INF" => return None,
            _ => {}
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = unsigned.strip_prefix('.').unwrap_or(unsigned);
        let starts_like_number = digits.starts_with(|c: char| c.is_ascii_digit());
        if starts_like_number {
            if let Ok(whole) = text.parse::<i64>() {
                return Some(Value::Number(whole.into()));
            }
            if let Ok(whole) = text.parse::<u64>() {
                return Some(Value::Number(whole.into()));
            }
            // A whole number that would be rounded.
            if unsigned.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            if let Ok(real) = text.parse::<f64>() {
                return Number::from_f64(real).map(Value::Number);
            }
        }
        Some(Value::String(text.clone()))
    }
}

fn size_of(node: &Node) -> Size {
    let (inner, bytes): (Vec<Size>, usize) = match &node.kind {
        Kind::Scalar { text, .. } => return Size { nodes: 1, bytes: text.len(), depth: 0 },
        Kind::List(items) => (items.iter().map(size_of).collect(), 0),
        Kind::Map(entries) => (
            entries.iter().map(|entry| size_of(&entry.value)).collect(),
            entries.iter().map(|entry| entry.key.len()).sum(),
        ),
    };
    let keys = if matches!(node.kind, Kind::Map(_)) { inner.len() } else { 0 };
    Size {
        nodes: 1 + keys + inner.iter().map(|size| size.nodes).sum::<usize>(),
        bytes: bytes + inner.iter().map(|size| size.bytes).sum::<usize>(),
        depth: 1 + inner.iter().map(|size| size.depth).max().unwrap_or(0),
    }
}

fn too_deep(dialect: &Dialect) -> String {
    format!("nested more than {} levels deep", dialect.max_depth)
}

fn place_of(span: &Span) -> TextSpan {
    let same_line = span.end.line() == span.start.line();
    let width = if same_line { span.end.col().saturating_sub(span.start.col()) } else { 1 };
    TextSpan { line: span.start.line(), column: span.start.col() + 1, width: width.max(1) }
}

fn scan_mistake(report: &mut Report<'_>, error: &ScanError) -> Stop {
    let marker = error.marker();
    let mut place = TextSpan { line: marker.line(), column: marker.col() + 1, width: 1 };
    // The parser detects some mistakes only at the end of the text, after the last line.
    while place.line > 1 && report.line(place.line).trim().is_empty() {
        place.line -= 1;
        place.column = report.line(place.line).chars().count().max(1);
    }
    let info = error.info().to_lowercase();
    let indentation = |line: usize| -> String {
        report.line(line).chars().take_while(|c| c.is_whitespace()).collect()
    };
    // The parser detects a tab below a plain text at that text's end, one line too early.
    if info.contains("tab") && indentation(place.line + 1).contains('\t') {
        place.line += 1;
    }
    let indentation = indentation(place.line);
    let (message, remedy) = if indentation.contains('\t') {
        place = TextSpan { column: indentation.find('\t').unwrap_or(0) + 1, ..place };
        ("indented with a tab".to_owned(), "use spaces: YAML does not indent with tabs")
    } else if info.contains("nesting") || info.contains("recursion") || info.contains("depth") {
        (too_deep(report.dialect), report.dialect.when_too_deep)
    } else if matches!(error.kind(), ErrorKind::UnknownAnchor) {
        (
            "YAML reads a value that starts with `*` as an alias, and no anchor has that name"
                .to_owned(),
            "put quotes around it, as in \"*.example.com\"",
        )
    } else if info.contains("directive") {
        let language = report.dialect.language;
        (format!("YAML directives (`%…`) are not part of {language}"), "remove the line")
    } else {
        (
            format!("not valid YAML: {info}"),
            "check indentation, colons, quotes and brackets here and on the line above",
        )
    };
    report.mistake(place, message, remedy);
    Stop
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
