//! Patterns over paths.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{PathError, UrlPath, canonical_path};

const MAX_PATTERN_BYTES: usize = 1024;
const MAX_WILDCARDS: usize = 16;

/// A pattern over paths.
///
/// `*` as a segment matches exactly one non-empty segment; inside a segment it matches any
/// characters but a slash, or none. `**` as a segment matches any number of segments, or none:
/// `/repos/**` matches `/repos`, `/repos/` and everything below. Otherwise a trailing slash
/// matters: `/repos` and `/repos/` are two paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Segment {
    /// Text without wildcards; empty only after a trailing slash.
    Literal(String),
    /// `*` alone.
    One,
    /// Text with `*` in it.
    Glob(String),
    /// `**`.
    Any,
}

impl PathPattern {
    /// Parses a pattern; its literal parts follow the rules of [`UrlPath`].
    pub fn parse(text: &str) -> Result<PathPattern, PathError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PathError::TooLong { maximum: MAX_PATTERN_BYTES });
        }
        if text.contains(['?', '#']) {
            return Err(PathError::Query);
        }
        let canonical = canonical_path(text)?;
        let segments: Vec<Segment> =
            canonical.split('/').skip(1).map(parse_segment).collect::<Result<_, _>>()?;
        if segments.iter().map(wildcards).sum::<usize>() > MAX_WILDCARDS {
            return Err(PathError::TooManyWildcards { maximum: MAX_WILDCARDS });
        }
        Ok(PathPattern { segments })
    }

    /// Whether the pattern matches the whole path.
    pub fn matches(&self, path: &UrlPath) -> bool {
        glob(&self.segments, &path.segments(), is_any, |segment, text| segment.matches(text))
    }

    /// Whether this pattern certainly matches every path that the other one matches.
    ///
    /// `true` is certain; `false` may miss a pattern that covers the other in an unusual way.
    pub fn covers(&self, other: &PathPattern) -> bool {
        glob(&self.segments, &other.segments, is_any, Segment::covers)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| match segment {
            Segment::Literal(text) | Segment::Glob(text) => write!(formatter, "/{text}"),
            Segment::One => formatter.write_str("/*"),
            Segment::Any => formatter.write_str("/**"),
        })
    }
}

impl Serialize for PathPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Segment {
    fn matches(&self, text: &str) -> bool {
        match self {
            Segment::Literal(literal) => literal == text,
            Segment::One => !text.is_empty(),
            Segment::Glob(pattern) => {
                glob(pattern.as_bytes(), text.as_bytes(), |byte| *byte == b'*', u8::eq)
            }
            Segment::Any => true,
        }
    }

    /// Whether this segment matches every segment that the other matches.
    fn covers(&self, other: &Segment) -> bool {
        match (self, other) {
            (_, Segment::Literal(text)) => self.matches(text),
            // A pattern of more than a `*` contains a character, so it matches no empty segment.
            (Segment::One, Segment::One | Segment::Glob(_)) => true,
            (Segment::Glob(wide), Segment::Glob(narrow)) => wide == narrow,
            _ => false,
        }
    }
}

fn parse_segment(text: &str) -> Result<Segment, PathError> {
    match text {
        "*" => Ok(Segment::One),
        "**" => Ok(Segment::Any),
        _ if text.contains("**") => Err(PathError::PartialDoubleWildcard),
        _ if text.contains('*') => Ok(Segment::Glob(text.to_owned())),
        _ => Ok(Segment::Literal(text.to_owned())),
    }
}

fn wildcards(segment: &Segment) -> usize {
    match segment {
        Segment::Literal(_) => 0,
        Segment::One | Segment::Any => 1,
        Segment::Glob(text) => text.matches('*').count(),
    }
}

fn is_any(segment: &Segment) -> bool {
    *segment == Segment::Any
}

/// Matches a sequence against a pattern in which some items match any run of items.
///
/// Backtracks only to the latest such item: whatever an earlier one could match instead, the latest
/// can match as well. So the time is at most the product of both lengths.
pub(super) fn glob<P, T>(
    pattern: &[P],
    items: &[T],
    is_run: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at_pattern, mut at_item) = (0, 0);
    let mut latest_run = None;
    while at_item < items.len() {
        match pattern.get(at_pattern) {
            Some(part) if is_run(part) => {
                at_pattern += 1;
                latest_run = Some((at_pattern, at_item));
            }
            Some(part) if fits(part, &items[at_item]) => {
                at_pattern += 1;
                at_item += 1;
            }
            _ => {
                let Some((after_run, run_end)) = latest_run else { return false };
                latest_run = Some((after_run, run_end + 1));
                (at_pattern, at_item) = (after_run, run_end + 1);
            }
        }
    }
    pattern[at_pattern..].iter().all(is_run)
}
