//! Python's own layout: virtual environments, and the location of the standard library.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::problem::Problem;
use super::resolve::Trust;
use super::version;

/// The content of `pyvenv.cfg`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Environment {
    /// The directory of the environment, as in the name of its interpreter.
    pub(super) directory: PathBuf,
    /// The directory of its base interpreter.
    pub(super) home: PathBuf,
    /// The version of that interpreter, as the tool that created the environment wrote it.
    pub(super) version: Option<String>,
}

impl Environment {
    /// The environment of a program, by its name: Python looks for `pyvenv.cfg` in the parent of
    /// `bin`, without following links.
    pub(super) fn around(program: &Path, trust: Trust) -> Result<Option<Environment>, Problem> {
        let Some(directory) = program.parent().and_then(Path::parent) else { return Ok(None) };
        let file = directory.join("pyvenv.cfg");
        let Some(text) = version::settings(&file, trust)? else { return Ok(None) };
        let home = value(&text, "home").map(PathBuf::from).filter(|home| home.is_absolute());
        let Some(home) = home else {
            return Err(Problem::BrokenSettings { file, key: "home" });
        };
        let version = value(&text, "version_info").or_else(|| value(&text, "version"));
        let (directory, version) = (directory.to_path_buf(), version.map(str::to_owned));
        Ok(Some(Environment { directory, home, version }))
    }

    /// The base interpreter of the environment.
    pub(super) fn base(&self, program: &Path, trust: Trust) -> Result<PathBuf, Problem> {
        let minor = self.version.as_deref().map(|version| {
            let numbers: Vec<&str> = version.split('.').take(2).collect();
            format!("python{}", numbers.join("."))
        });
        let called = program.file_name().and_then(OsStr::to_str);
        let names = [minor.as_deref(), called, Some("python3"), Some("python")];
        let files = names.into_iter().flatten().map(|name| self.home.join(name));
        for file in files.filter(|file| file != program) {
            match trust.executable(&file) {
                Ok(_) => return Ok(file),
                Err(problem) if problem.is_absence() => {}
                Err(problem) => return Err(problem),
            }
        }
        let (directory, home) = (self.directory.clone(), self.home.clone());
        Err(Problem::BrokenEnvironment { directory, home })
    }
}

/// An installation of Python.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installation {
    /// The value of `sys.base_prefix`.
    pub(super) prefix: PathBuf,
    /// The existing directories named after the version, such as `lib/python3.11`.
    pub(super) libraries: Vec<PathBuf>,
    /// That version.
    pub(super) version: String,
}

impl Installation {
    /// The installation that an executable without links belongs to.
    pub(super) fn around(real: &Path, trust: Trust) -> Result<Installation, Problem> {
        let directory = real.parent().unwrap_or(Path::new("/"));
        let prefix = match directory.file_name() {
            Some(name) if name == "bin" => directory.parent().unwrap_or(directory),
            _ => directory,
        };
        let name = library_name(real, prefix).filter(|name| {
            folders(prefix, name).any(|folder| {
                let landmark = trust.resolve(&folder.join("os.py"));
                landmark.is_ok_and(|landmark| landmark.metadata.is_file())
            })
        });
        let Some(name) = name else {
            let (real, prefix) = (real.to_path_buf(), prefix.to_path_buf());
            return Err(Problem::NoStandardLibrary { real, prefix });
        };
        let libraries = folders(prefix, &name).filter(|folder| folder.is_dir()).collect();
        let version = name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).to_owned();
        Ok(Installation { prefix: prefix.to_path_buf(), libraries, version })
    }

    /// The extension modules of the standard library.
    pub(super) fn extensions(&self) -> Vec<PathBuf> {
        let folders = self.libraries.iter().map(|folder| folder.join("lib-dynload"));
        let entries = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter(|file| file.extension().is_some_and(|end| end == "so")).collect()
    }
}

fn folders(prefix: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    ["lib", "lib64"].map(|lib| prefix.join(lib).join(name)).into_iter()
}

/// The name of the standard library's directory: the name of the executable without build suffix
/// letters, or, if that name has no version, the only such directory.
fn library_name(real: &Path, prefix: &Path) -> Option<String> {
    let called = real.file_name()?.to_str()?;
    let plain = called.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    if called.contains('.') {
        let exists = |name: &&str| folders(prefix, name).any(|folder| folder.is_dir());
        return [called, plain].into_iter().find(exists).map(str::to_owned);
    }
    let entries =
        ["lib", "lib64"].into_iter().filter_map(|lib| fs::read_dir(prefix.join(lib)).ok());
    let mut names: Vec<String> = entries
        .flat_map(Iterator::flatten)
        .filter(|entry| entry.path().join("os.py").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("python") || name.starts_with("pypy"))
        .collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The value of a key in any case; the first of several, as Python reads it.
fn value<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let mut values = lines.filter(|(name, _)| name.trim().eq_ignore_ascii_case(key));
    values.next().map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_venv_virtualenv_and_uv_are_read() {
        let text = "home = /usr/bin\nuv=0.5.1\nVersion_Info = 3.12.8\nprompt = a = b\n";
        assert_eq!(value(text, "home"), Some("/usr/bin"));
        assert_eq!(value(text, "version_info"), Some("3.12.8"));
        assert_eq!(value(text, "prompt"), Some("a = b"));
        assert_eq!(value(text, "executable"), None);
    }
}
