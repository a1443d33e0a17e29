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

use super::{CommandEntry, HeaderSource, ToolKind, ToolsFile};

/// More links than the kernel follows.
const MOST_LINKS: usize = 64;

/// The longest first line of a script that names its interpreter.
const FIRST_LINE: u64 = 512;

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
    fn command(&mut self, base: &Path, command: &CommandEntry, search_path: &OsStr) {
        self.follow(base);
        if let Some(program) = self.program(base, &command.file, search_path) {
            self.interpreter(base, &program, search_path);
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
    /// that come before it could have one of its name.
    fn program(&mut self, base: &Path, file: &Path, search_path: &OsStr) -> Option<PathBuf> {
        if file.as_os_str().as_bytes().contains(&b'/') {
            return self.file(&base.join(file));
        }
        std::env::split_paths(search_path)
            .find_map(|folder| self.file(&base.join(folder).join(file)))
    }

    /// The interpreter that the first line of a script names.
    fn interpreter(&mut self, base: &Path, program: &Path, search_path: &OsStr) {
        let Some(line) = first_line(program) else { return };
        let mut words =
            line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(|word| Path::new(OsStr::from_bytes(word))) else {
            return;
        };
        self.file(&base.join(interpreter));
        if interpreter.file_name() == Some(OsStr::new("env")) {
            let named = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
            if let Some(name) = words.find(named) {
                self.program(base, Path::new(OsStr::from_bytes(name)), search_path);
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
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn deciding(base: &Path, command: &str, search_path: &str) -> Deciding {
        let text = format!(
            "tools:\n  - {{name: t, description: d, command: {command}, input_schema: {{type: object}}}}\n"
        );
        let file = ToolsFile::parse("t", text.as_bytes(), base).expect("a file of tools");
        file.deciding(OsStr::new(search_path))
    }

    #[test]
    fn every_name_on_the_way_counts_and_what_is_not_there_too() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = scratch.path().canonicalize().expect("its real path");
        let (conf, proj) = (top.join("conf"), top.join("proj"));
        fs::create_dir_all(proj.join("bin")).expect("made");
        fs::create_dir(&conf).expect("made");
        symlink("/bin/sh", proj.join("bin/python")).expect("a link");
        symlink("../proj/bin/python", conf.join("py")).expect("a link");
        symlink(&proj, top.join("other")).expect("a link");
        symlink("../proj/later", conf.join("later")).expect("a link");
        fs::write(conf.join("script"), format!("#!{}/bin/python -x\n", proj.display()))
            .expect("written");
        for command in [
            "[../proj/bin/python]",
            "[./py]",
            "[../other/bin/python]",
            "[./later]",
            "[./script]",
            "[sh, ../proj/later.sh]",
            "[sh, --require=../proj/x.js]",
            "[sh, -c, x, ../proj]",
        ] {
            let names = deciding(&conf, command, "/usr/bin:/bin").names;
            assert!(names.iter().any(|name| name.starts_with(&proj)), "{command}: {names:?}");
        }
        let ahead = format!("{}:/usr/bin:/bin", proj.join("nowhere").display());
        for search_path in [&ahead, "../proj/bin:/usr/bin:/bin"] {
            let names = deciding(&conf, "[sh]", search_path).names;
            assert!(names.iter().any(|name| name.starts_with(&proj)), "{search_path}: {names:?}");
        }
        let after = format!("/usr/bin:/bin:{}", proj.display());
        let names = deciding(&conf, "[sh, -c, exit]", &after).names;
        assert!(!names.iter().any(|name| name.starts_with(&proj)), "{names:?}");
    }

    #[test]
    fn trees_and_files_with_further_names_are_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = scratch.path().canonicalize().expect("its real path");
        fs::create_dir_all(top.join("conf")).expect("made");
        fs::create_dir_all(top.join("srv/node_modules")).expect("made");
        fs::write(top.join("conf/tool"), "").expect("written");
        fs::hard_link(top.join("conf/tool"), top.join("same")).expect("a second name");
        let found = deciding(&top.join("conf"), "[./tool, ../srv]", "/usr/bin");
        assert!(found.trees.contains(&top.join("srv")), "{found:?}");
        assert!(found.linked.contains(&top.join("conf/tool")), "{found:?}");
    }
}
