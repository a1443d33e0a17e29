//! Decides whether a start is refused, and describes the refusal.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_policy::{Control, Denial, Printable, SEARCH_PATH};

use super::task::{Task, Tried};
use super::walk::{End, FileId, Opened, Root};
use super::{Hidden, Listed};

/// The maximum length of a reported path, in bytes.
const LONGEST_TARGET: usize = 4096;

/// How many interpreters a script may chain, as in the kernel.
const MOST_INTERPRETERS: usize = 5;

/// How much of a script the kernel reads to find its interpreter.
const FIRST_LINE: usize = 256;

/// A refused program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// Identifies the program, whatever path was used to start it.
    pub(super) program: PathBuf,
    pub(super) denial: Denial,
}

/// Returns the refusal of a start, or `None` if it succeeds or fails for another reason.
pub(super) fn refused(
    task: &Task,
    tried: Tried,
    allowed: BTreeSet<FileId>,
    listed: &Listed,
) -> Option<Refused> {
    let judge = Judge { root: task.root().ok()?, allowed, listed };
    match tried {
        Tried::Path(path) => judge.path(path, MOST_INTERPRETERS),
        Tried::Open(opened, name) => judge.file(&opened, &name, MOST_INTERPRETERS),
    }
}

struct Judge<'l> {
    root: Root,
    allowed: BTreeSet<FileId>,
    listed: &'l Listed,
}

impl Judge<'_> {
    fn path(&self, path: PathBuf, interpreters: usize) -> Option<Refused> {
        match self.root.walk(&path) {
            End::File(opened) => self.file(&opened, &path, interpreters),
            End::Missing(missing) => self.hidden(&missing, &path),
            End::Unknown => None,
        }
    }

    fn file(&self, opened: &Opened, tried: &Path, interpreters: usize) -> Option<Refused> {
        if self.allowed.contains(&opened.id().ok()?) {
            // A listed script also needs its interpreter.
            let next = interpreter(&opened.reopened())?;
            return interpreters.checked_sub(1).and_then(|left| self.path(next, left));
        }
        // A memfd is never executable here, so its mode does not matter: the program tried to
        // execute it.
        let is_memory = is_memory(&opened.path);
        if !is_memory && !opened.is_executable() {
            return None;
        }
        let is_hosts = self.listed.hidden == Hidden::HostPrograms
            && host_program(&opened.path).is_some_and(|found| opened.is_like(&found));
        let way = match is_hosts || self.listed.hidden == Hidden::Nothing && !is_memory {
            true => Way::List(
                entry(tried)
                    .or_else(|| entry(&opened.path))
                    .map_or_else(|| opened.path.display().to_string(), str::to_owned),
            ),
            false => Way::None(tried.display().to_string()),
        };
        Some(self.refusal(opened.path.clone(), tried, way))
    }

    /// The refusal of a host program that the root omits because it is not listed.
    fn hidden(&self, path: &Path, tried: &Path) -> Option<Refused> {
        let name = entry(path).filter(|_| self.listed.hidden == Hidden::HostPrograms)?;
        host_program(path)?;
        let real = fs::canonicalize(path).ok()?;
        Some(self.refusal(real, tried, Way::List(name.to_owned())))
    }

    fn refusal(&self, program: PathBuf, tried: &Path, way: Way) -> Refused {
        let (name, how_to_allow) = match way {
            Way::List(name) => {
                let name = shown(&name);
                let how = format!("add `{name}` to command_allowlist");
                (name, how)
            }
            Way::None(name) => (
                shown(&name),
                "only programs of the host can be listed: start it with a listed interpreter, or \
                 remove command_allowlist"
                    .to_owned(),
            ),
        };
        let denial = Denial {
            control: Control::Commands.as_str().into(),
            rule: self.listed.rule.clone(),
            target: shown(&tried.display().to_string()),
            why: format!("command_allowlist does not name `{name}`"),
            how_to_allow,
        };
        Refused { program, denial }
    }
}

/// What would allow the start.
enum Way {
    /// This entry in the list.
    List(String),
    /// No entry can allow it; this is how the report names the program.
    None(String),
}

/// The bare name of a program on the search path.
fn entry(path: &Path) -> Option<&str> {
    let directory = path.parent()?.to_str()?;
    SEARCH_PATH.contains(&directory).then(|| path.file_name()?.to_str()).flatten()
}

/// The host's file at this path, if it is executable.
fn host_program(path: &Path) -> Option<Metadata> {
    let is_program = |found: &Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    fs::metadata(path).ok().filter(is_program)
}

/// Whether the kernel's name for it is that of a memfd. No mount has a file of that name in its
/// root.
fn is_memory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
}

/// The interpreter in the first line of a script, execve(2).
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = Vec::with_capacity(FIRST_LINE);
    File::open(script).ok()?.take(FIRST_LINE as u64).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let text = std::str::from_utf8(line).ok()?;
    let path = text.split([' ', '\t']).find(|word| !word.is_empty())?;
    Path::new(path).is_absolute().then(|| PathBuf::from(path))
}

/// Text from inside, escaped for terminals and truncated.
fn shown(text: &str) -> String {
    let mut text = Printable(text).to_string();
    if text.len() > LONGEST_TARGET {
        text.truncate(text.floor_char_boundary(LONGEST_TARGET - '…'.len_utf8()));
        text.push('…');
    }
    text
}
