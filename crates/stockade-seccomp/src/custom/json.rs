//! JSON values with their positions in the text.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{CustomProfile, ProfileError};

/// Strict JSON with comments, as in tutorials for profiles: every other extension is off.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The maximum length of a word; no keyword or call name is longer.
pub(super) const LONGEST_WORD: usize = 64;

/// The parsed text, for computing positions in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    /// Parses the text as one JSON object.
    pub(super) fn object(text: &'t str) -> Result<(Text<'t>, Object<'t>), ProfileError> {
        let place = Text(text);
        if text.len() > CustomProfile::MOST_BYTES {
            let problem = format!("the profile has {} bytes", text.len());
            let remedy = format!("keep it within {} bytes", CustomProfile::MOST_BYTES);
            return Err(place.error(Range::new(0, 0), problem, remedy));
        }
        let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT);
        let value = parsed.map_err(|error| {
            let (problem, remedy) = explain(error.kind());
            place.error(error.range(), problem, remedy)
        })?;
        match value.value {
            Some(Value::Object(object)) => Ok((place, object)),
            Some(other) => Err(place.wanted("an object", &other)),
            None => Err(place.error(
                Range::new(0, 0),
                "the profile is empty",
                "write an object with `defaultAction` and `syscalls`",
            )),
        }
    }

    /// An error at a position.
    pub(super) fn error(
        self,
        range: Range,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ProfileError {
        let before = self.0.get(..range.start).unwrap_or(self.0);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ProfileError { line, column, problem: problem.into(), remedy: remedy.into() }
    }

    /// The error for a value of the wrong type.
    pub(super) fn wanted(self, wanted: &str, found: &Value<'_>) -> ProfileError {
        let kind = match found {
            Value::StringLit(_) => "a text",
            Value::NumberLit(_) => "a number",
            Value::BooleanLit(_) => "true or false",
            Value::Object(_) => "an object",
            Value::Array(_) => "a list",
            Value::NullKeyword(_) => "null",
        };
        self.error(found.range(), format!("this is {kind}"), format!("write {wanted} here"))
    }

    /// The members of an object, after checking that all keys are known and unique. A null member
    /// counts as absent, as in container engines.
    pub(super) fn members<'o>(
        self,
        object: &'o Object<'t>,
        known: &[&str],
    ) -> Result<Members<'o, 't>, ProfileError> {
        for (index, property) in object.properties.iter().enumerate() {
            let key = property.name.as_str();
            if !known.contains(&key) {
                let remedy = match closest(key, known) {
                    Some(close) => format!("did you mean `{close}`?"),
                    None => format!("remove it; known here are {}", known.join(", ")),
                };
                let problem = format!("the key {} is not known here", shown(key));
                return Err(self.error(property.range, problem, remedy));
            }
            if object.properties[..index].iter().any(|earlier| earlier.name.as_str() == key) {
                let problem = format!("the key `{key}` is repeated here");
                return Err(self.error(property.range, problem, "keep one of the two"));
            }
        }
        Ok(Members { text: self, properties: &object.properties })
    }

    /// A text.
    pub(super) fn string<'o>(self, value: &'o Value<'t>) -> Result<&'o str, ProfileError> {
        match value {
            Value::StringLit(string) => Ok(&string.value),
            other => Err(self.wanted("a text", other)),
        }
    }

    /// A whole number of at most 64 bits.
    pub(super) fn number(self, value: &Value<'t>) -> Result<u64, ProfileError> {
        let Value::NumberLit(number) = value else { return Err(self.wanted("a number", value)) };
        number.value.parse().map_err(|_| {
            let problem = format!("{} is not a whole number from 0 to 2^64-1", shown(number.value));
            self.error(number.range, problem, "write it in full, without sign, point or exponent")
        })
    }

    /// A list.
    pub(super) fn list<'o>(self, value: &'o Value<'t>) -> Result<&'o [Value<'t>], ProfileError> {
        match value {
            Value::Array(array) => Ok(&array.elements),
            other => Err(self.wanted("a list", other)),
        }
    }
}

/// The members of one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'o, 't> {
    text: Text<'t>,
    properties: &'o [ObjectProp<'t>],
}

impl<'o, 't> Members<'o, 't> {
    /// The value of a key, if it is there.
    pub(super) fn get(self, key: &str) -> Option<&'o Value<'t>> {
        let property = self.properties.iter().find(|property| property.name.as_str() == key)?;
        match &property.value {
            Value::NullKeyword(_) => None,
            value => Some(value),
        }
    }

    /// The value of a key that has two spellings. Both together are an error, even if they are
    /// equal: a later change of one would be ambiguous.
    pub(super) fn either(
        self,
        usual: &str,
        other: &str,
    ) -> Result<Option<&'o Value<'t>>, ProfileError> {
        match (self.get(usual), self.get(other)) {
            (Some(_), Some(value)) => {
                let problem = format!("`{other}` and `{usual}` are both present");
                Err(self.text.error(value.range(), problem, "keep one of the two"))
            }
            (usual, other) => Ok(usual.or(other)),
        }
    }

    /// The value of a required key.
    pub(super) fn need(self, key: &str, object: Range) -> Result<&'o Value<'t>, ProfileError> {
        self.get(key).ok_or_else(|| {
            let problem = format!("`{key}` is missing in this object");
            self.text.error(object, problem, format!("add `{key}`"))
        })
    }
}

/// A word of the text, safe for printing.
pub(super) fn shown(word: &str) -> String {
    let start: String = word.chars().take(LONGEST_WORD).collect();
    let end = if start.len() < word.len() { "..." } else { "" };
    format!("`{}{end}`", start.escape_debug())
}

/// The word of a list that a misspelt one is closest to.
pub(super) fn closest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    known.iter().copied().filter(|one| distance(one) <= 3).min_by_key(|one| distance(one))
}

fn explain(kind: &ParseErrorKind) -> (String, &'static str) {
    match kind {
        ParseErrorKind::UnterminatedCommentBlock => {
            ("this comment has no end".to_owned(), "end it with */")
        }
        ParseErrorKind::NestingDepthExceeded => {
            ("this is nested too deeply".to_owned(), "a profile needs no more than five levels")
        }
        ParseErrorKind::TrailingCommasNotAllowed => {
            ("this comma has nothing after it".to_owned(), "remove it")
        }
        other => {
            (format!("this is not JSON: {}", other.to_string().to_lowercase()), "correct the text")
        }
    }
}
