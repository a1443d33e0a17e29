//! Resolves `command_allowlist` to executables.
//!
//! Under an allowlist the program directories of the root contain only the listed programs,
//! Landlock refuses to execute anything else, and everything writable is `noexec`. A directory
//! given by `--root` is shown unchanged, and Landlock alone enforces the list.

mod directory;
mod places;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_hostfiles::Shown;
use stockade_interpreters::{Bind, Interpreter, SymbolicLink, loader_of};
use stockade_launcher::TreeKind;
use stockade_policy::SEARCH_PATH;

use crate::error::StartError;

/// Directories of which only the listed programs are shown.
const PROGRAM_DIRECTORIES: [&str; 10] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/games",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/games",
    "/usr/local/libexec",
    "/bin",
    "/sbin",
];

/// Directories and files to show, and links to make.
type Narrowed = (Vec<(Bind, TreeKind)>, Vec<SymbolicLink>);

/// The executables that the policy allows, resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// Paths inside, without symbolic links, of everything that may be executed: programs and their
    /// loaders.
    pub(crate) executables: Vec<PathBuf>,
    /// Symbolic links that lead to them.
    names: BTreeSet<SymbolicLink>,
}

impl Commands {
    /// Resolves a list on the host. A name of the requested interpreter resolves to that
    /// interpreter.
    pub(crate) fn on_host<'n>(
        names: impl Iterator<Item = &'n str>,
        interpreter: Option<&Interpreter>,
    ) -> Result<Commands, StartError> {
        let mut commands = Commands::default();
        if let Some(interpreter) = interpreter {
            commands.add(&interpreter.program, &interpreter.resolved);
        }
        for name in names {
            if interpreter.is_some_and(|interpreter| calls(name, interpreter)) {
                continue;
            }
            let missing = || StartError::NoCommand { name: name.to_owned() };
            let path = find(name).ok_or_else(missing)?;
            let real = fs::canonicalize(&path).map_err(|_| missing())?;
            commands.add(&path, &real);
        }
        Ok(commands)
    }

    /// Resolves a list, and the requested interpreter, in a directory given by `--root`.
    pub(crate) fn in_directory<'n>(
        names: impl Iterator<Item = &'n str>,
        root: &Path,
    ) -> Result<Commands, StartError> {
        let executables = directory::executables(names, root)?;
        Ok(Commands { executables, names: BTreeSet::new() })
    }

    /// Refuses a list with a program that could not be started under its own name.
    pub(crate) fn check(&self, root: &Path, shown: &[Shown]) -> Result<(), StartError> {
        self.executables.iter().try_for_each(|path| places::check(path, root, shown))
    }

    fn add(&mut self, name: &Path, real: &Path) {
        self.executable(real.to_owned());
        // A script or a static program has no loader.
        if let Some(loader) = loader_of(real)
            && let Ok(loader) = fs::canonicalize(loader)
        {
            self.executable(loader);
        }
        if let Some(name) = plain_name(name)
            && name != real
        {
            self.names.insert(SymbolicLink { at: name, target: real.to_owned() });
        }
    }

    fn executable(&mut self, path: PathBuf) {
        if !self.executables.contains(&path) {
            self.executables.push(path);
        }
    }

    /// The system's directories with the listed programs only.
    pub(crate) fn narrow(
        &self,
        binds: Vec<(Bind, TreeKind)>,
        mut links: Vec<SymbolicLink>,
    ) -> Result<Narrowed, StartError> {
        let mut narrowed = Vec::new();
        for (bind, kind) in binds {
            match holds_programs(&bind.host) {
                true => spread(&bind.host, &mut narrowed, &mut links)?,
                false => narrowed.push((bind, kind)),
            }
        }
        let is_shown = |path: &Path| narrowed.iter().any(|(bind, _)| path.starts_with(&bind.host));
        let programs: Vec<_> =
            self.executables.iter().filter(|path| !is_shown(path)).cloned().collect();
        links.extend(self.names.iter().filter(|name| !is_shown(&name.at)).cloned());
        narrowed.extend(
            programs
                .into_iter()
                .map(|path| (Bind { host: path.clone(), guest: path }, TreeKind::File)),
        );
        Ok((narrowed, links))
    }
}

/// Whether a name refers to the interpreter: its own name, or another one in the same directory
/// that resolves to the same file, as `python` and `python3` do.
fn calls(name: &str, interpreter: &Interpreter) -> bool {
    let path = match (name.starts_with('/'), interpreter.program.parent()) {
        (false, Some(directory)) => directory.join(name),
        _ => PathBuf::from(name),
    };
    path == interpreter.program
        || fs::canonicalize(path).is_ok_and(|real| real == interpreter.resolved)
}

/// Looks up a bare name in the search path; an absolute path is used as it is.
fn find(name: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(executable);
    }
    SEARCH_PATH.iter().map(|directory| Path::new(directory).join(name)).find(executable)
}

/// A path with the links of its directory resolved: `/bin/ls` is `/usr/bin/ls` if `/bin` is a link.
fn plain_name(name: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(name.parent()?).ok()?.join(name.file_name()?))
}

fn holds_programs(directory: &Path) -> bool {
    PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs).starts_with(directory))
}

/// Collects everything in a directory except its programs.
fn spread(
    directory: &Path,
    into: &mut Vec<(Bind, TreeKind)>,
    links: &mut Vec<SymbolicLink>,
) -> Result<(), StartError> {
    if PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs) == directory) {
        return Ok(());
    }
    let unreadable = |source| StartError::Prepare { what: "list the system's directories", source };
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let found = fs::symlink_metadata(&path).map_err(unreadable)?;
        if found.is_symlink() && path.is_dir() {
            // For example `/usr/sbin`, if a distribution has merged it into `/usr/bin`.
            let target = fs::read_link(&path).map_err(unreadable)?;
            links.push(SymbolicLink { at: path, target });
        } else if found.is_dir() && holds_programs(&path) {
            spread(&path, into, links)?;
        } else if found.is_dir() {
            into.push((Bind { host: path.clone(), guest: path }, TreeKind::Directory));
        }
        // A file directly in these directories is a program, or has no use inside.
    }
    Ok(())
}

#[cfg(test)]
#[path = "commands/commands_tests.rs"]
mod tests;
