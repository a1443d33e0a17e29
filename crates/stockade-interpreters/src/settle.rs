//! Finds the program that a shell would start for a name: reads shims and does not run them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::{Resolved, Trust};
use super::{Chosen, Language, Manager, Surroundings, asdf, pyenv, volta};

/// What a name leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// An executable, by the name that leads to it without a shim.
    Program { name: PathBuf, chosen: Option<Chosen> },
    /// A shim whose version manager selects the system's interpreter.
    System { manager: Manager },
}

/// What a version manager selects for one shim.
pub(super) enum Answer {
    /// The program with this name.
    Program { name: PathBuf, chosen: Chosen },
    /// The next program on `PATH` that is not a shim.
    System,
}

/// Finds what a name leads to.
pub(super) fn settle(
    language: Language,
    candidate: &Path,
    surroundings: &Surroundings,
    trust: Trust,
) -> Result<Settled, Problem> {
    let resolved = trust.executable(candidate)?;
    let head = head(&resolved.real)?;
    let answer = if volta::is_shim(&resolved) {
        (Manager::Volta, volta::answer(&resolved, surroundings, trust)?)
    } else if let Some(text) = script(&head) {
        let program = candidate.file_name().unwrap_or_default();
        if let Some(root) = pyenv::root_of_shim(text, &resolved.real) {
            (Manager::Pyenv, pyenv::answer(&root, program, surroundings, trust)?)
        } else if asdf::is_shim(text) {
            let shim = asdf::Shim { file: &resolved.real, program, language };
            (Manager::Asdf, asdf::answer(&shim, surroundings, trust)?)
        } else {
            let first_line = text.lines().next().unwrap_or_default().to_owned();
            return Err(Problem::Script { path: resolved.real, first_line });
        }
    } else {
        check_program(language, &resolved, &head)?;
        return Ok(Settled::Program { name: candidate.to_path_buf(), chosen: None });
    };
    match answer {
        (manager, Answer::System) => Ok(Settled::System { manager }),
        (_, Answer::Program { name, chosen }) => {
            let resolved = trust.executable(&name)?;
            let head = self::head(&resolved.real)?;
            check_program(language, &resolved, &head)?;
            Ok(Settled::Program { name, chosen: Some(chosen) })
        }
    }
}

/// Checks that a file is an ELF executable with a name of the language.
fn check_program(language: Language, resolved: &Resolved, head: &[u8]) -> Result<(), Problem> {
    let real = resolved.real.clone();
    if let Some(text) = script(head) {
        let first_line = text.lines().next().unwrap_or_default().to_owned();
        return Err(Problem::Script { path: real, first_line });
    }
    if !head.starts_with(b"\x7fELF") {
        return Err(Problem::NotElf { path: real });
    }
    let name = real.file_name().and_then(OsStr::to_str).unwrap_or_default();
    match language.owns(name) {
        true => Ok(()),
        false => Err(Problem::OtherProgram { real }),
    }
}

/// The start of a file, long enough for every shim.
fn head(file: &Path) -> Result<Vec<u8>, Problem> {
    const BYTES: u64 = 4096;
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(BYTES).read_to_end(&mut bytes))
        .map_err(|error| Problem::of_io(file, &error))?;
    Ok(bytes)
}

/// The text of a script, up to the first invalid byte.
fn script(head: &[u8]) -> Option<&str> {
    let text = match str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.starts_with("#!").then_some(text)
}
