//! `stockade-tool`, the command with which shells and programs in any language call tools.
//!
//! It is the guest's executable under another name. It sends one request on the tool socket, prints
//! the answer, and starts nothing else of the guest.

mod answer;
mod words;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Deserialize;
use stockade_wire::TOOL_SOCKET;

use answer::{Answer, Problem};
use words::{Listing, Printing, UsageError, Wanted, wanted};

/// The name under which this executable is the command.
pub const COMMAND: &str = "stockade-tool";
/// The variable with the path of the socket, if not the default.
const VARIABLE: &str = "STOCKADE_TOOLS_SOCKET";
/// More than any policy allows.
const MOST_ARGUMENT_BYTES: u64 = 64 << 20;

/// Exit codes: a tool or its host failed, the command was used wrongly, and a denial, with the code
/// that shells use for a command that may not be executed.
const FAILED: u8 = 1;
const MISUSED: u8 = 2;
const DENIED: u8 = 126;

/// Runs the command with its arguments, without its own name.
pub fn call_tool(words: impl Iterator<Item = OsString>) -> ExitCode {
    let (text, code) = match wanted(words).map_err(Failure::from).and_then(output_of) {
        Ok(text) => match print(&mut io::stdout().lock(), &text) {
            Ok(()) => return ExitCode::SUCCESS,
            // The reader has closed standard output.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => (String::new(), FAILED),
            Err(error) => (format!("{COMMAND}: cannot print the result: {error}\n"), FAILED),
        },
        Err(failure) => (failure.text(), failure.code),
    };
    // There is no other place to report an error.
    let _ = print(&mut io::stderr().lock(), text.as_bytes());
    ExitCode::from(code)
}

fn print(to: &mut impl Write, text: &[u8]) -> io::Result<()> {
    to.write_all(text)?;
    to.flush()
}

/// Why there is no result.
struct Failure {
    code: u8,
    message: String,
    remedy: Option<String>,
}

impl Failure {
    fn new(code: u8, message: String) -> Failure {
        Failure { code, message, remedy: None }
    }

    fn with_remedy(self, remedy: &str) -> Failure {
        Failure { remedy: Some(remedy.to_owned()), ..self }
    }

    fn text(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!("  remedy: {remedy}\n"));
        format!("{COMMAND}: {}\n{}", self.message, remedy.unwrap_or_default())
    }
}

impl From<UsageError> for Failure {
    fn from(UsageError { message, remedy }: UsageError) -> Failure {
        Failure::new(MISUSED, message).with_remedy(&remedy)
    }
}

/// The text for standard output.
fn output_of(wanted: Wanted) -> Result<Vec<u8>, Failure> {
    match wanted {
        Wanted::Help => Ok(words::HELP.as_bytes().to_vec()),
        Wanted::List(how) => {
            let line = exchange(br#"{"id":1,"list":true}"#)?;
            let result = result_of(&line, None)?;
            match how {
                Listing::Whole => Ok(lines(result)),
                Listing::Names => names(result),
            }
        }
        Wanted::Call { tool, arguments, printing } => {
            let arguments = match arguments {
                words::Arguments::Text(text) => text,
                words::Arguments::Stdin => words::checked(read_stdin()?)?,
            };
            let name = serde_json::to_string(&tool).map_err(|_| not_understood())?;
            let line = exchange(
                format!(r#"{{"id":1,"call":{name},"arguments":{arguments}}}"#).as_bytes(),
            )?;
            let result = result_of(&line, Some(&tool))?;
            Ok(match printing {
                Printing::Plain if result.starts_with(b"\"") => plain(result)?,
                Printing::Plain | Printing::Json => lines(result),
            })
        }
    }
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().lock().take(MOST_ARGUMENT_BYTES + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 <= MOST_ARGUMENT_BYTES => Ok(text),
        Ok(_) => {
            Err(Failure::new(MISUSED, "the arguments on standard input are too long".to_owned())
                .with_remedy("hand over less: no policy takes more than 64 MiB"))
        }
        Err(error) => {
            let message = format!("cannot read the arguments from standard input: {error}");
            Err(Failure::new(MISUSED, message).with_remedy("write one JSON object to it, in UTF-8"))
        }
    }
}

/// Sends one request and returns the line that answers it.
fn exchange(request: &[u8]) -> Result<Vec<u8>, Failure> {
    let path = std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(TOOL_SOCKET), PathBuf::from);
    let mut socket = UnixStream::connect(&path).map_err(|error| {
        let message = format!("cannot reach the tools at {}: {error}", path.display());
        Failure::new(FAILED, message).with_remedy(match error.kind() {
            ErrorKind::NotFound => {
                "this sandbox has no tools: name them in tool_allowlist, and offer them to the run"
            }
            _ => "see whether the sandbox is ending",
        })
    })?;
    let broken = |error: io::Error| Failure::new(FAILED, format!("the tools went away: {error}"));
    // The host may refuse a request before it has read all of it; its answer is still readable.
    let said = socket.write_all(request).and_then(|()| socket.write_all(b"\n"));
    let mut line = Vec::new();
    let heard = io::BufRead::read_until(&mut io::BufReader::new(socket), b'\n', &mut line);
    match (said, heard) {
        _ if line.ends_with(b"\n") => Ok(line),
        (Err(error), _) | (_, Err(error)) => Err(broken(error)),
        _ => Err(broken(ErrorKind::UnexpectedEof.into())),
    }
}

/// The result in an answer, exactly as the host wrote it.
fn result_of<'l>(line: &'l [u8], tool: Option<&str>) -> Result<&'l [u8], Failure> {
    match Answer::read(line) {
        Some(Answer::Result(result)) => Ok(result),
        Some(Answer::Error(Problem { code, message })) => {
            let about = tool.map(|tool| format!("{tool}: ")).unwrap_or_default();
            let exit = if matches!(&*code, "denied" | "limit") { DENIED } else { FAILED };
            Err(Failure::new(exit, format!("{about}{message}")))
        }
        None => Err(not_understood()),
    }
}

fn not_understood() -> Failure {
    Failure::new(FAILED, "what the host answered is not understood".to_owned())
}

/// One tool per line.
fn names(listing: &[u8]) -> Result<Vec<u8>, Failure> {
    #[derive(Deserialize)]
    struct Listed {
        name: String,
        #[serde(default)]
        description: String,
    }
    let tools: Vec<Listed> = serde_json::from_slice(listing).map_err(|_| not_understood())?;
    let widest = tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    let line = |Listed { name, description }: &Listed| {
        let first = description.lines().next().unwrap_or_default();
        let line = format!("{name:widest$}  {first}");
        format!("{}\n", line.trim_end())
    };
    Ok(tools.iter().map(line).collect::<String>().into_bytes())
}

fn plain(result: &[u8]) -> Result<Vec<u8>, Failure> {
    let text: String = serde_json::from_slice(result).map_err(|_| not_understood())?;
    Ok(lines(text.as_bytes()))
}

/// The text with a final newline.
fn lines(text: &[u8]) -> Vec<u8> {
    let end: &[u8] = if text.ends_with(b"\n") { b"" } else { b"\n" };
    [text, end].concat()
}
