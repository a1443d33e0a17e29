//! Why a text is no method, path or path pattern, and what to write instead.

use thiserror::Error;

/// Why a text is refused as a method; the caller puts the text in front.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MethodError {
    /// There is no text.
    #[error("is empty")]
    Empty,
    /// Not made of letters, digits and hyphens, or longer than any method.
    #[error("is no HTTP method")]
    Malformed,
    /// Methods are case-sensitive.
    #[error("is no HTTP method: methods are written in upper case")]
    LowerCase {
        /// The same in upper case.
        meant: String,
    },
    /// It asks for a tunnel, in which no request can be judged.
    #[error("opens a tunnel, which no method rule can allow")]
    Connect,
    /// It echoes the request, with the secrets the gate put into it.
    #[error("echoes the headers of a request, which may hold secrets")]
    Trace,
}

impl MethodError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        match self {
            MethodError::Empty | MethodError::Malformed => {
                "write a method such as `GET` or `POST`".to_owned()
            }
            MethodError::LowerCase { meant } => format!("did you mean `{meant}`?"),
            MethodError::Connect => "list the host without methods to allow a tunnel".to_owned(),
            MethodError::Trace => "remove it".to_owned(),
        }
    }
}

/// Why a text is refused as a path or path pattern; the caller puts the text in front.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// It does not begin with a slash.
    #[error("does not begin with `/`")]
    NotAbsolute,
    /// There is too much of it.
    #[error("is longer than {maximum} bytes")]
    TooLong {
        /// How long it may be.
        maximum: usize,
    },
    /// A space, a control character or one outside ASCII.
    #[error("contains U+{:04X}, which no path may contain unescaped", u32::from(*.character))]
    ForbiddenCharacter {
        /// The first one found.
        character: char,
    },
    /// A backslash, which some servers take for a slash.
    #[error("contains a backslash")]
    Backslash,
    /// Parameters inside a segment, which some servers cut off.
    #[error("contains `;`, plain or escaped")]
    MatrixParameter,
    /// Two slashes in a row.
    #[error("contains `//`")]
    EmptySegment,
    /// A segment that stands for this place or the one above.
    #[error("contains a `.` or `..` segment")]
    DotSegment,
    /// An escaped slash or backslash.
    #[error("contains an escaped slash or backslash")]
    EncodedSeparator,
    /// An escaped control character.
    #[error("contains an escaped control character")]
    EncodedControl,
    /// A percent sign without two hexadecimal digits.
    #[error("contains a `%` without two hexadecimal digits")]
    BadEscape,
    /// An escape of an escape.
    #[error("contains an escape that is escaped again")]
    DoubleEscape,
    /// An escape of a character that needs none, which servers undo and rules would not see.
    #[error("escapes `{character}`, which needs no escape")]
    NeedlessEscape {
        /// The character.
        character: char,
    },
    /// The escapes do not spell UTF-8.
    #[error("has escapes that are not UTF-8")]
    NotText,
    /// A pattern with a query or fragment.
    #[error("contains `?` or `#`, and only the path is compared")]
    Query,
    /// A `**` that is part of a segment.
    #[error("has a `**` that is not a whole segment")]
    PartialDoubleWildcard,
    /// More wildcards than a pattern may have.
    #[error("has more than {maximum} wildcards")]
    TooManyWildcards {
        /// How many it may have.
        maximum: usize,
    },
}

impl PathError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        let sentence = match self {
            PathError::NotAbsolute => "begin with `/`",
            PathError::TooLong { maximum } => return format!("use at most {maximum} bytes"),
            PathError::ForbiddenCharacter { .. } => "write it as percent-escaped UTF-8",
            PathError::Backslash => "write `/` between segments",
            PathError::MatrixParameter => "use a path without `;`",
            PathError::EmptySegment => "write a single `/`",
            PathError::DotSegment => "write the path it leads to",
            PathError::EncodedSeparator => "use a path whose segments hold no slash",
            PathError::EncodedControl => "remove the control character",
            PathError::BadEscape => "write a percent sign itself as `%25`",
            PathError::DoubleEscape => "escape once",
            PathError::NeedlessEscape { character } => return format!("write `{character}`"),
            PathError::NotText => "escape the bytes of UTF-8 text",
            PathError::Query => "leave out the query",
            PathError::PartialDoubleWildcard => {
                "write `**` between slashes, or `*` inside a segment"
            }
            PathError::TooManyWildcards { maximum } => {
                return format!("use at most {maximum} wildcards, or several patterns");
            }
        };
        sentence.to_owned()
    }
}
