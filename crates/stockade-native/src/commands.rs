//! Which executables `command_allowlist` means.
//!
//! A sandbox under a list has a root that holds only the listed programs where programs are looked
//! for, Landlock refuses to execute anything else, and nothing writable can be executed. A root of
//! one's own is shown as it is, and Landlock alone tells its programs apart.

mod directory;
mod places;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_hostfiles::Shown;
use stockade_interpreters::{Bind, Interpreter, Link, loader_of};
use stockade_launcher::TreeKind;
use stockade_policy::SEARCH_PATH;

use crate::error::StartError;

/// Directories whose programs are not shown, but for those listed.
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
type Narrowed = (Vec<(Bind, TreeKind)>, Vec<Link>);

/// What may be started, resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// Paths inside, without links, of everything that may be executed: programs and their loaders.
    pub(crate) executables: Vec<PathBuf>,
    /// Names that lead to them.
    names: BTreeSet<Link>,
}

impl Commands {
    /// Finds what a list means on the host. A name of the interpreter that was asked for is that
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

    /// Finds what a list means in a root of one's own, the interpreter that was asked for included.
    pub(crate) fn in_directory<'n>(
        names: impl Iterator<Item = &'n str>,
        root: &Path,
    ) -> Result<Commands, StartError> {
        let executables = directory::executables(names, root)?;
        Ok(Commands { executables, names: BTreeSet::new() })
    }

    /// Refuses a list of which something could not be started under its own name.
    pub(crate) fn check(&self, root: &Path, shown: &[Shown]) -> Result<(), StartError> {
        self.executables.iter().try_for_each(|path| places::check(path, root, shown))
    }

    fn add(&mut self, name: &Path, real: &Path) {
        self.executable(real.to_owned());
        // A script or a static program has none; the kernel then asks for none.
        if let Some(loader) = loader_of(real)
            && let Ok(loader) = fs::canonicalize(loader)
        {
            self.executable(loader);
        }
        if let Some(name) = plain_name(name)
            && name != real
        {
            self.names.insert(Link { at: name, target: real.to_owned() });
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
        mut links: Vec<Link>,
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

/// Whether a name is the interpreter's: the one it is started by, or another in the same directory
/// that leads to the same file, as `python` beside `python3`.
fn calls(name: &str, interpreter: &Interpreter) -> bool {
    let path = match (name.starts_with('/'), interpreter.program.parent()) {
        (false, Some(directory)) => directory.join(name),
        _ => PathBuf::from(name),
    };
    path == interpreter.program
        || fs::canonicalize(path).is_ok_and(|real| real == interpreter.resolved)
}

/// Where a bare name is found, or a path as it is.
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

/// A name with its directory free of links: `/bin/ls` is `/usr/bin/ls` where `/bin` is a link.
fn plain_name(name: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(name.parent()?).ok()?.join(name.file_name()?))
}

fn holds_programs(directory: &Path) -> bool {
    PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs).starts_with(directory))
}

/// Everything in a directory but its programs.
fn spread(
    directory: &Path,
    into: &mut Vec<(Bind, TreeKind)>,
    links: &mut Vec<Link>,
) -> Result<(), StartError> {
    if PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs) == directory) {
        return Ok(());
    }
    let unreadable = |source| StartError::Prepare { what: "list the system's directories", source };
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let found = fs::symlink_metadata(&path).map_err(unreadable)?;
        if found.is_symlink() && path.is_dir() {
            // `/usr/sbin` where a distribution has merged it into `/usr/bin`.
            let target = fs::read_link(&path).map_err(unreadable)?;
            links.push(Link { at: path, target });
        } else if found.is_dir() && holds_programs(&path) {
            spread(&path, into, links)?;
        } else if found.is_dir() {
            into.push((Bind { host: path.clone(), guest: path }, TreeKind::Directory));
        }
        // A file at these tops is a program, or means nothing inside.
    }
    Ok(())
}

#[cfg(test)]
#[path = "commands/commands_tests.rs"]
mod tests;
