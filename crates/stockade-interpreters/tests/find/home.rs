//! A fake home directory below a temporary directory.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use stockade_interpreters::{
    Interpreter, InterpreterError, Problem, Surroundings, SymbolicLink, find,
};
use stockade_provider::Language;
use tempfile::TempDir;

/// A home directory that is removed on drop.
pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        let directory = tempfile::Builder::new().prefix("stockade-home-").tempdir().unwrap();
        fs::create_dir(directory.path().join("me")).unwrap();
        Home { directory }
    }

    /// A path in the home directory, which is in a directory of its own, so that there is a place
    /// outside it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        // Joining an absolute path would leave the home directory and change this machine.
        assert!(Path::new(name).is_relative() && !name.contains(".."), "{name}");
        let home = fs::canonicalize(self.directory.path()).unwrap().join("me");
        if name.is_empty() { home } else { home.join(name) }
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, &path).unwrap();
        path
    }

    /// A real executable, but not an interpreter: these tests never start it.
    pub(crate) fn executable(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &path).unwrap();
        path
    }

    /// An installation of Python as `make install` creates it, with this minor version.
    pub(crate) fn python(&self, prefix: &str, minor: &str) -> PathBuf {
        self.executable(&format!("{prefix}/bin/python{minor}"));
        self.link(&format!("{prefix}/bin/python3"), format!("python{minor}"));
        self.link(&format!("{prefix}/bin/python"), "python3");
        self.file(&format!("{prefix}/lib/python{minor}/os.py"), "");
        self.path(prefix)
    }

    /// A virtual environment as `python -m venv` creates it.
    pub(crate) fn environment(&self, name: &str, base: &Path) -> PathBuf {
        let text = format!(
            "home = {}\ninclude-system-site-packages = false\nversion = 3.11.7\n",
            base.display()
        );
        self.file(&format!("{name}/pyvenv.cfg"), &text);
        self.link(&format!("{name}/bin/python"), base.join("python3.11"));
        self.link(&format!("{name}/bin/python3"), "python");
        self.directory(&format!("{name}/lib/python3.11/site-packages"));
        self.path(name)
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            home: Some(self.path("")),
            working_directory: self.directory("project"),
            user: fs::metadata(self.path("")).unwrap().uid(),
            ..Surroundings::default()
        }
    }

    pub(crate) fn with_path<P: AsRef<Path>>(&self, entries: &[P]) -> Surroundings {
        let entries = entries.iter().map(|entry| entry.as_ref());
        Surroundings { path: Some(join(entries)), ..self.surroundings() }
    }
}

fn join<'a>(entries: impl Iterator<Item = &'a Path>) -> OsString {
    std::env::join_paths(entries).unwrap()
}

pub(crate) fn found(surroundings: &Surroundings) -> Interpreter {
    find(Language::Python, surroundings).unwrap_or_else(|error| panic!("{error}: {error:?}"))
}

/// Why the interpreter that is found is refused.
pub(crate) fn refusal(surroundings: &Surroundings) -> Problem {
    match find(Language::Python, surroundings) {
        Err(InterpreterError::Refused { problem, .. }) => *problem,
        other => panic!("not refused: {other:?}"),
    }
}

/// The binds other than the system's, in order.
pub(crate) fn own_binds(interpreter: &Interpreter) -> Vec<PathBuf> {
    assert!(interpreter.binds.iter().all(|bind| bind.host == bind.guest));
    let hosts = interpreter.binds.iter().map(|bind| bind.host.clone());
    hosts.filter(|host| !is_system(host)).collect()
}

/// The links other than those at the top of a merged system.
pub(crate) fn own_links(interpreter: &Interpreter) -> Vec<SymbolicLink> {
    let links = interpreter.links.iter().cloned();
    links.filter(|link| link.at.parent() != Some(Path::new("/"))).collect()
}

pub(crate) fn is_system(path: &Path) -> bool {
    let places = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    places.iter().any(|place| path.starts_with(place))
}
