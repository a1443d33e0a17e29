//! Why a text is not a valid method, path or path pattern, and what to write instead.

use thiserror::Error;

/// Why a text is not a valid method; the caller prints the text first.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MethodError {
    /// The text is empty.
    #[error("is empty")]
    Empty,
    /// Not made of letters, digits and hyphens, or longer than any method.
    #[error("is not an HTTP method")]
    Malformed,
    /// Methods are case-sensitive.
    #[error("is not an HTTP method: methods are written in upper case")]
    LowerCase {
        /// The same in upper case.
        meant: String,
    },
    /// It opens a tunnel, inside which requests cannot be judged.
    #[error("opens a tunnel, which no method rule can allow")]
    Connect,
    /// It echoes the request, including secrets that the gate added.
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

/// Why a text is not a valid path or path pattern; the caller prints the text first.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// It does not start with a slash.
    #[error("does not start with `/`")]
    NotAbsolute,
    /// It is too long.
    #[error("is longer than {maximum} bytes")]
    TooLong {
        /// The maximum length.
        maximum: usize,
    },
    /// A space, a control character or one outside ASCII.
    #[error("contains U+{:04X}, which no path may contain unescaped", u32::from(*.character))]
    ForbiddenCharacter {
        /// The first one found.
        character: char,
    },
    /// A backslash, which some servers read as a slash.
    #[error("contains a backslash")]
    Backslash,
    /// Parameters inside a segment, which some servers remove.
    #[error("contains `;`, plain or escaped")]
    MatrixParameter,
    /// Two slashes in a row.
    #[error("contains `//`")]
    EmptySegment,
    /// A segment that means this directory or its parent.
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
    /// An escape of a character that needs none: servers decode it and rules would not see it.
    #[error("escapes `{character}`, which needs no escape")]
    NeedlessEscape {
        /// The character.
        character: char,
    },
    /// The decoded bytes are not UTF-8.
    #[error("has escapes that are not UTF-8")]
    NotText,
    /// A pattern with a query or fragment.
    #[error("contains `?` or `#`, and only the path is compared")]
    Query,
    /// A `**` that is part of a segment.
    #[error("has a `**` that is not a whole segment")]
    PartialDoubleWildcard,
    /// Too many wildcards.
    #[error("has more than {maximum} wildcards")]
    TooManyWildcards {
        /// The maximum number.
        maximum: usize,
    },
}

impl PathError {
    /// What to write instead, without a full stop.
    pub fn remedy(&self) -> String {
        let sentence = match self {
            PathError::NotAbsolute => "start with `/`",
            PathError::TooLong { maximum } => return format!("use at most {maximum} bytes"),
            PathError::ForbiddenCharacter { .. } => "write it as percent-escaped UTF-8",
            PathError::Backslash => "write `/` between segments",
            PathError::MatrixParameter => "use a path without `;`",
            PathError::EmptySegment => "write a single `/`",
            PathError::DotSegment => "write the path it leads to",
            PathError::EncodedSeparator => "use a path whose segments contain no slash",
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
