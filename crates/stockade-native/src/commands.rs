//! Which executables `command_allowlist` means on this host.
//!
//! A sandbox under a list has a root that holds only the listed programs where programs are looked
//! for, Landlock refuses to execute anything else, and nothing writable can be executed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_launcher::TreeKind;
use stockade_policy::SEARCH_PATH;

use crate::error::StartError;
use crate::interpreter::{Bind, Interpreter, Link, loader_of};

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

/// What may be started, resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// Real paths of everything that may be executed: programs and their loaders.
    pub(crate) executables: Vec<PathBuf>,
    /// Listed programs in the system's directories, to be shown one by one.
    shown: BTreeSet<PathBuf>,
    /// Names that lead to them.
    links: BTreeSet<Link>,
}

impl Commands {
    /// Finds what a list means. A name of the interpreter that was asked for is that interpreter.
    pub(crate) fn resolve<'n>(
        names: impl Iterator<Item = &'n str>,
        interpreter: Option<&Interpreter>,
    ) -> Result<Commands, StartError> {
        let mut commands = Commands::default();
        if let Some(interpreter) = interpreter {
            commands.add(&interpreter.program, &interpreter.resolved);
        }
        for name in names {
            let called = |it: &&Interpreter| {
                it.program.file_name().is_some_and(|own| own == name)
                    || it.program.as_os_str() == name
            };
            if interpreter.filter(called).is_some() {
                continue;
            }
            let missing = || StartError::NoCommand { name: name.to_owned() };
            let path = find(name).ok_or_else(missing)?;
            let real = fs::canonicalize(&path).map_err(|_| missing())?;
            commands.add(&path, &real);
        }
        Ok(commands)
    }

    fn add(&mut self, name: &Path, real: &Path) {
        if !self.executables.iter().any(|known| known == real) {
            self.executables.push(real.to_owned());
        }
        // A script or a static program has none; the kernel then asks for none.
        if let Some(loader) = loader_of(real)
            && let Ok(loader) = fs::canonicalize(loader)
            && !self.executables.contains(&loader)
        {
            self.executables.push(loader);
        }
        if directory_of_programs(real) {
            self.shown.insert(real.to_owned());
        }
        if let Some(name) = plain_name(name)
            && name != real
            && directory_of_programs(&name)
        {
            self.links.insert(Link { at: name, target: real.to_owned() });
        }
    }

    /// The system's directories with the listed programs only.
    pub(crate) fn narrow(
        &self,
        binds: Vec<(Bind, TreeKind)>,
        links: Vec<Link>,
    ) -> Result<(Vec<(Bind, TreeKind)>, Vec<Link>), StartError> {
        let mut narrowed = Vec::new();
        for (bind, kind) in binds {
            match holds_programs(&bind.host) {
                true => spread(&bind.host, &mut narrowed)?,
                false => narrowed.push((bind, kind)),
            }
        }
        let same = |path: &PathBuf| Bind { host: path.clone(), guest: path.clone() };
        narrowed.extend(self.shown.iter().map(|path| (same(path), TreeKind::File)));
        let links = links.into_iter().chain(self.links.iter().cloned()).collect();
        Ok((narrowed, links))
    }
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

fn directory_of_programs(path: &Path) -> bool {
    PROGRAM_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

fn holds_programs(directory: &Path) -> bool {
    PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs).starts_with(directory))
}

/// Everything in a directory but its programs.
fn spread(directory: &Path, into: &mut Vec<(Bind, TreeKind)>) -> Result<(), StartError> {
    if PROGRAM_DIRECTORIES.iter().any(|programs| Path::new(programs) == directory) {
        return Ok(());
    }
    let unreadable = |source| StartError::Prepare { what: "list the system's directories", source };
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let found = fs::symlink_metadata(&path).map_err(unreadable)?;
        if !found.is_dir() {
            // Links and files at these tops lead to programs or mean nothing inside.
            continue;
        }
        match holds_programs(&path) {
            true => spread(&path, into)?,
            false => into.push((Bind { host: path.clone(), guest: path }, TreeKind::Directory)),
        }
    }
    Ok(())
}
