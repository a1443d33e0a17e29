//! Parses the command line.

use std::ffi::OsString;

use serde::de::IgnoredAny;

/// The output of `--help`.
pub(super) const HELP: &str = "\
Calls a tool that the host of this sandbox offers.

usage: stockade-tool NAME [ARGUMENTS] [--raw]
       stockade-tool --list [--json]

  NAME       the tool
  ARGUMENTS  one JSON object, such as '{\"query\":\"x\"}'; `-` reads it from standard input; {} if unsaid
  --raw      print a result that is a string as it is, and not as JSON
  --list     print the tools that may be called, one a line
  --json     with --list: the whole listing, with the schemas of arguments and results

exit code: 0 with the result on standard output, 1 if the tool failed, 126 if the call was denied,
2 if the command was used wrongly.
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Help,
    List(Listing),
    Call { tool: String, arguments: Arguments, printing: Printing },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// One name per line.
    Names,
    /// The listing exactly as the host wrote it.
    Whole,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    /// One JSON object on one line.
    Text(String),
    Stdin,
}

/// How to print a result that is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printing {
    Json,
    Plain,
}

/// Why the arguments are invalid, and the remedy to print.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsageError {
    pub(super) message: String,
    pub(super) remedy: String,
}

impl UsageError {
    fn new(message: impl Into<String>, remedy: impl Into<String>) -> UsageError {
        UsageError { message: message.into(), remedy: remedy.into() }
    }
}

/// Parses the arguments.
pub(super) fn wanted(words: impl Iterator<Item = OsString>) -> Result<Wanted, UsageError> {
    let (mut list, mut json, mut raw) = (false, false, false);
    let mut plain: Vec<String> = Vec::new();
    for word in words {
        let word = word.into_string().map_err(|word| {
            UsageError::new(format!("`{}` is not UTF-8", word.display()), "write it in UTF-8")
        })?;
        match word.as_str() {
            "--help" | "-h" => return Ok(Wanted::Help),
            "--list" => list = true,
            "--json" => json = true,
            "--raw" => raw = true,
            flag if flag.len() > 1 && flag.starts_with('-') => {
                let message = format!("there is no option `{flag}`");
                return Err(UsageError::new(message, "see `stockade-tool --help`"));
            }
            _ => plain.push(word),
        }
    }
    let mut plain = plain.into_iter();
    match (list, plain.next(), plain.next(), plain.next()) {
        (true, None, ..) if raw => {
            Err(UsageError::new("--raw is for a call", "write `stockade-tool --list`"))
        }
        (true, None, ..) => Ok(Wanted::List(if json { Listing::Whole } else { Listing::Names })),
        (true, Some(word), ..) => Err(UsageError::new(
            format!("--list takes no name, and here is `{word}`"),
            "write `stockade-tool --list --json` and look for it there",
        )),
        (false, None, ..) => Err(UsageError::new(
            "which tool?",
            "write `stockade-tool NAME '{\"argument\":\"value\"}'`; `stockade-tool --list` shows the names",
        )),
        (false, Some(_), _, Some(word)) => Err(UsageError::new(
            format!("`{word}` is one word too many"),
            "put all arguments into one JSON object, in single quotes",
        )),
        (false, Some(_), ..) if json => Err(UsageError::new(
            "--json is for --list",
            "leave it out: a result is printed as JSON",
        )),
        (false, Some(tool), arguments, None) => {
            let arguments = match arguments.as_deref() {
                None => Arguments::Text("{}".to_owned()),
                Some("-") => Arguments::Stdin,
                Some(text) => Arguments::Text(checked(text.to_owned())?),
            };
            let printing = if raw { Printing::Plain } else { Printing::Json };
            Ok(Wanted::Call { tool, arguments, printing })
        }
    }
}

/// Checks that the arguments are one JSON object and puts it on one line. The host judges its
/// fields.
pub(super) fn checked(text: String) -> Result<String, UsageError> {
    let remedy = "write one JSON object, such as '{\"query\":\"x\"}'";
    if let Err(error) = serde_json::from_str::<IgnoredAny>(&text) {
        return Err(UsageError::new(format!("the arguments are not JSON: {error}"), remedy));
    }
    if !text.trim_ascii_start().starts_with('{') {
        return Err(UsageError::new("the arguments are JSON, but not an object", remedy));
    }
    // Replaces only newlines between tokens: inside strings they are escaped.
    Ok(text.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Wanted, String> {
        wanted(words.iter().map(OsString::from)).map_err(|wrong| {
            assert!(!wrong.remedy.is_empty());
            wrong.message
        })
    }

    fn call(arguments: Arguments, printing: Printing) -> Wanted {
        Wanted::Call { tool: "t".to_owned(), arguments, printing }
    }

    fn text(text: &str) -> Arguments {
        Arguments::Text(text.to_owned())
    }

    #[test]
    fn call_has_its_arguments_on_one_line() {
        assert_eq!(read(&["t"]), Ok(call(text("{}"), Printing::Json)));
        assert_eq!(read(&["t", "-"]), Ok(call(Arguments::Stdin, Printing::Json)));
        let spread = "{\n \"a\": \"b\\n\",\r\n \"c\": [1]}";
        let whole = call(text("{  \"a\": \"b\\n\",   \"c\": [1]}"), Printing::Plain);
        assert_eq!(read(&["--raw", "t", spread]), Ok(whole));
    }

    #[test]
    fn listing_and_help_are_asked_for_by_options() {
        assert_eq!(read(&["--list"]), Ok(Wanted::List(Listing::Names)));
        assert_eq!(read(&["--json", "--list"]), Ok(Wanted::List(Listing::Whole)));
        assert_eq!(read(&["t", "--help"]), Ok(Wanted::Help));
    }

    #[test]
    fn invalid_arguments_are_reported() {
        for (words, part) in [
            (&[][..], "which tool"),
            (&["t", "{"], "not JSON"),
            (&["t", "[1]"], "not an object"),
            (&["t", "{}{}"], "not JSON"),
            (&["t", "{}", "x"], "one word too many"),
            (&["t", "--quiet"], "no option"),
            (&["t", "--json"], "--json is for --list"),
            (&["--list", "--raw"], "--raw is for a call"),
            (&["--list", "t"], "takes no name"),
        ] {
            let message = read(words).unwrap_err();
            assert!(message.contains(part), "{words:?}: {message}");
        }
        use std::os::unix::ffi::OsStringExt;
        let foreign = wanted([OsString::from_vec(vec![0xff])].into_iter());
        assert!(foreign.unwrap_err().message.contains("not UTF-8"));
    }
}
