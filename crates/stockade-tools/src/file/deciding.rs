//! What of the host decides what the programs of a file do.
//!
//! Whoever can change one of these paths decides what is run outside of every wall. So a path is
//! followed as the kernel does it, and every name on the way counts: that of a link as much as what
//! it leads to, and a name that nobody has yet as much as one that is there.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::program::is_executable;

use super::{CommandEntry, HeaderSource, ToolKind, ToolsFile};

/// More links than the kernel follows.
const MOST_LINKS: usize = 64;

/// The longest first line of a script that names its interpreter.
const FIRST_LINE: u64 = 512;

/// More scripts that run each other than anybody has.
const MOST_SCRIPTS: usize = 8;

/// Where programs are looked for.
#[derive(Clone, Copy)]
struct Search<'s> {
    base: &'s Path,
    search_path: &'s OsStr,
}

/// What decides what programs do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deciding {
    /// Names that are looked at, by their real places.
    pub names: BTreeSet<PathBuf>,
    /// Directories that a program is given, with everything below them.
    pub trees: BTreeSet<PathBuf>,
    /// Files that have further names somewhere.
    pub linked: BTreeSet<PathBuf>,
}

impl ToolsFile {
    /// What decides what the tools and servers of this file do: where they start, their programs,
    /// interpreters of scripts, what their arguments name, and files with headers.
    pub fn deciding(&self, search_path: &OsStr) -> Deciding {
        let mut found = Deciding::default();
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

impl Deciding {
    /// What decides what is read from these absolute paths.
    pub fn of_files<'p>(files: impl IntoIterator<Item = &'p Path>) -> Deciding {
        let mut found = Deciding::default();
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
            // `--option=path` too; a word that is no path names nothing in a directory that counts
            // in any case.
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

    /// A program by its path or, as execvp(3) does it, along the search path: those directories
    /// that come before it could have one of its name, and what cannot be executed is passed over.
    fn program(&mut self, search: Search<'_>, file: &Path) -> Option<PathBuf> {
        if file.as_os_str().as_bytes().contains(&b'/') {
            return self.file(&search.base.join(file));
        }
        std::env::split_paths(search.search_path)
            .filter_map(|folder| self.file(&search.base.join(folder).join(file)))
            .find(|found| is_executable(found))
    }

    /// The interpreter that the first line of a script names, which may be a script again.
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

    /// The program that `env` looks for when it is given these words.
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

    /// Notes every name on the way, and says where the way ends if something is there.
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
                // What is not there yet may come, with everything that is looked for below it.
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

/// The program among the words after `env`, and the search path that it is looked for in where they
/// set another. See env(1).
fn named_to_env<'w>(
    words: impl Iterator<Item = &'w [u8]>,
) -> Option<(&'w OsStr, Option<&'w OsStr>)> {
    const WITH_A_WORD: [&[u8]; 6] = [b"-u", b"--unset", b"-C", b"--chdir", b"-a", b"--argv0"];
    let mut search_path = None;
    let mut is_taken = false;
    for word in words {
        // `-S` may be written together with its first word, and with other letters before it.
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

/// What follows `#!`, if a file begins with that.
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
#[path = "deciding_tests.rs"]
mod tests;
