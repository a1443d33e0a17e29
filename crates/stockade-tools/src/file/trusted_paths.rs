//! The host paths that determine what the programs of a tools file do.
//!
//! A process that can change one of these paths controls what runs outside every wall. So paths are
//! resolved as the kernel does it, and every name on the way counts: symbolic links and their
//! targets, and names that do not exist yet as well as existing ones.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::program::is_executable;

use super::{CommandEntry, HeaderSource, ToolKind, ToolsFile};

/// More symbolic links than the kernel follows.
const MOST_LINKS: usize = 64;

/// The longest `#!` line that is read.
const FIRST_LINE: u64 = 512;

/// More scripts that interpret each other than any real setup has.
const MOST_SCRIPTS: usize = 8;

/// Where to search for programs.
#[derive(Clone, Copy)]
struct Search<'s> {
    base: &'s Path,
    search_path: &'s OsStr,
}

/// The paths that determine what programs do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedPaths {
    /// Names that are looked up, by their real paths.
    pub names: BTreeSet<PathBuf>,
    /// Directories that are arguments of a program, with everything below them.
    pub trees: BTreeSet<PathBuf>,
    /// Files with more than one hard link.
    pub linked: BTreeSet<PathBuf>,
}

impl ToolsFile {
    /// The paths that determine what the tools and servers of this file do: their working
    /// directory, their programs, interpreters of scripts, paths in their arguments, and header
    /// files.
    pub fn trusted_paths(&self, search_path: &OsStr) -> TrustedPaths {
        let mut found = TrustedPaths::default();
        for tool in &self.tools {
            match &tool.kind {
                ToolKind::Command(command) => found.command(&self.base, command, search_path),
                ToolKind::Http(http) => {
                    for (_, source) in &http.headers {
                        if let HeaderSource::File(file) = source {
                            found.file(&self.base.join(file));
                        }
                    }
                }
            }
        }
        for server in &self.servers {
            found.command(&self.base, &server.command, search_path);
        }
        found
    }
}

impl TrustedPaths {
    /// The paths that determine what is read from these absolute paths.
    pub fn of_files<'p>(files: impl IntoIterator<Item = &'p Path>) -> TrustedPaths {
        let mut found = TrustedPaths::default();
        for file in files {
            found.file(file);
        }
        found
    }

    fn command(&mut self, base: &Path, command: &CommandEntry, search_path: &OsStr) {
        self.follow(base);
        let search = Search { base, search_path };
        if let Some(program) = self.program(search, &command.file) {
            self.interpreter(search, &program, 0);
        }
        if command.file.file_name() == Some(OsStr::new("env")) {
            self.after_env(search, command.arguments.iter().map(String::as_bytes), 0);
        }
        for argument in &command.arguments {
            // Also `--option=path`. A word that is not a path names nothing in the base directory,
            // which counts in any case.
            let value = argument.split_once('=').map(|(_, value)| value);
            for word in [Some(argument.as_str()), value].into_iter().flatten() {
                if let Some(end) = self.file(&base.join(word))
                    && end.is_dir()
                    && end != base
                    && !base.starts_with(&end)
                {
                    self.trees.insert(end);
                }
            }
        }
    }

    /// A program by its path or, as in execvp(3), by the search path: an earlier directory could
    /// get a file of that name, and files that cannot be executed are skipped.
    fn program(&mut self, search: Search<'_>, file: &Path) -> Option<PathBuf> {
        if file.as_os_str().as_bytes().contains(&b'/') {
            return self.file(&search.base.join(file));
        }
        std::env::split_paths(search.search_path)
            .filter_map(|folder| self.file(&search.base.join(folder).join(file)))
            .find(|found| is_executable(found))
    }

    /// The interpreter in the `#!` line of a script, which may itself be a script.
    fn interpreter(&mut self, search: Search<'_>, program: &Path, depth: usize) {
        let Some(line) = first_line(program).filter(|_| depth < MOST_SCRIPTS) else { return };
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(|word| Path::new(OsStr::from_bytes(word))) else {
            return;
        };
        if let Some(found) = self.file(&search.base.join(interpreter)) {
            self.interpreter(search, &found, depth + 1);
        }
        if interpreter.file_name() == Some(OsStr::new("env")) {
            self.after_env(search, words, depth);
        }
    }

    /// The program that `env` starts with these words.
    fn after_env<'w>(
        &mut self,
        search: Search<'_>,
        words: impl Iterator<Item = &'w [u8]>,
        depth: usize,
    ) {
        if let Some((name, search_path)) = named_to_env(words) {
            let search =
                Search { search_path: search_path.unwrap_or(search.search_path), ..search };
            if let Some(found) = self.program(search, Path::new(name)) {
                self.interpreter(search, &found, depth + 1);
            }
        }
    }

    /// Follows a path to a file or directory.
    fn file(&mut self, path: &Path) -> Option<PathBuf> {
        let end = self.follow(path)?;
        let data = end.symlink_metadata().ok()?;
        if data.is_file() && data.nlink() > 1 {
            self.linked.insert(end.clone());
        }
        Some(end)
    }

    /// Records every name on the way; returns the real path if something exists there.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut here = PathBuf::from("/");
        let mut ahead: VecDeque<OsString> = parts(path);
        let mut links = 0;
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                here.pop();
                continue;
            }
            let name = here.join(&part);
            self.names.insert(name.clone());
            match std::fs::read_link(&name) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    for part in parts(&target).into_iter().rev() {
                        ahead.push_front(part);
                    }
                }
                Err(_) if name.symlink_metadata().is_ok() => here = name,
                // A missing name may be created later, with everything below it.
                Err(_) => return None,
            }
        }
        Some(here)
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(part) => Some(part.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

/// The program among the words after `env`, and the search path if they set one. See env(1).
fn named_to_env<'w>(
    words: impl Iterator<Item = &'w [u8]>,
) -> Option<(&'w OsStr, Option<&'w OsStr>)> {
    const WITH_A_WORD: [&[u8]; 6] = [b"-u", b"--unset", b"-C", b"--chdir", b"-a", b"--argv0"];
    let mut search_path = None;
    let mut is_taken = false;
    for word in words {
        // `-S` may be joined with its first word, and with other letters before it.
        let glued = word.strip_prefix(b"--split-string=").or_else(|| {
            let at = word.iter().position(|byte| *byte == b'S');
            at.filter(|_| word.starts_with(b"-") && !word.starts_with(b"--"))
                .map(|at| &word[at + 1..])
        });
        let word = glued.unwrap_or(word);
        if is_taken {
            is_taken = false;
        } else if word.is_empty() || word.starts_with(b"-") {
            is_taken = WITH_A_WORD.contains(&word);
        } else if let Some(value) = word.strip_prefix(b"PATH=") {
            search_path = Some(OsStr::from_bytes(value));
        } else if !word.contains(&b'=') {
            return Some((OsStr::from_bytes(word), search_path));
        }
    }
    None
}

/// The text after `#!`, if the file starts with it.
fn first_line(program: &Path) -> Option<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(program).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?;
    line.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec)
}

#[cfg(test)]
#[path = "trusted_paths_tests.rs"]
mod tests;
