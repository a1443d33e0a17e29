//! Finds the host paths that must be mounted for a program to run inside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::elf;
use super::libraries::{self, Libraries, Missing};
use super::places::{self, Cover, Places};
use super::problem::Problem;
use super::python::{Environment, Installation};
use super::resolve::{Resolved, Trust};
use super::{Bind, Language, SymbolicLink};

/// A program with everything that it needs.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) program: PathBuf,
    pub(super) resolved: PathBuf,
    pub(super) version: Option<String>,
    pub(super) binds: Vec<Bind>,
    pub(super) links: Vec<SymbolicLink>,
    pub(super) library_path: Vec<PathBuf>,
}

/// Finds what a program needs; its name leads to an executable without a shim.
pub(super) fn layout(
    language: Language,
    program: &Path,
    places: &Places,
    trust: Trust,
) -> Result<Layout, Problem> {
    let mut parts = Parts::new(places, trust);
    let started = match language {
        Language::Python => parts.python(program, 0)?,
        Language::JavaScript => parts.node(program)?,
        Language::Bash => parts.alone(program)?,
    };
    parts.finish(started)
}

/// The program to start, after its environment or installation is known.
struct Found {
    program: PathBuf,
    resolved: PathBuf,
    version: Option<String>,
    /// For Python, the directories below a prefix that have the version in their name.
    libraries: Vec<PathBuf>,
}

/// The parts found so far.
struct Parts<'a> {
    places: &'a Places,
    trust: Trust,
    binds: BTreeSet<Bind>,
    links: BTreeSet<SymbolicLink>,
    loaded: Libraries,
}

impl Parts<'_> {
    fn new(places: &Places, trust: Trust) -> Parts<'_> {
        let Cover { binds, links } = places::system();
        let (binds, links) = (binds.into_iter().collect(), links.into_iter().collect());
        Parts { places, trust, binds, links, loaded: Libraries::default() }
    }

    /// A virtual environment with its base, or an installation.
    fn python(&mut self, program: &Path, depth: usize) -> Result<Found, Problem> {
        const DEEPEST: usize = 4;
        let resolved = self.trust.executable(program)?;
        let Some(environment) = Environment::around(program, self.trust)? else {
            return self.installation(&resolved);
        };
        if depth == DEEPEST {
            let Environment { directory, home, .. } = environment;
            return Err(Problem::BrokenEnvironment { directory, home });
        }
        let base = self.python(&environment.base(program, self.trust)?, depth + 1)?;
        let directory = self.trust.resolve(&environment.directory)?;
        match self.places.cover(&directory.real, self.trust)? {
            Some(cover) => self.show(cover),
            None => {
                self.show_file(&directory.real.join("pyvenv.cfg"))?;
                for library in base.libraries.iter().filter_map(|path| path.file_name()) {
                    self.show_directory(&directory.real.join("lib").join(library))?;
                }
            }
        }
        self.show_name(&environment.home)?;
        self.show_name(program)?;
        self.show_file(&resolved.real)?;
        self.loaded.add(&resolved.real, Missing::Fails, self.trust)?;
        Ok(Found {
            program: program.to_path_buf(),
            resolved: resolved.real,
            version: environment.version.or(base.version),
            libraries: base.libraries,
        })
    }

    fn installation(&mut self, resolved: &Resolved) -> Result<Found, Problem> {
        let installation = Installation::around(&resolved.real, self.trust)?;
        if !libraries::is_system(&resolved.real) {
            match self.places.cover(&installation.prefix, self.trust)? {
                Some(cover) => self.show(cover),
                None => installation.libraries.iter().try_for_each(|it| self.show_directory(it))?,
            }
        }
        // A distribution's own modules need only its own libraries; all others may need any
        // library.
        if installation.prefix != Path::new("/usr") {
            for extension in installation.extensions() {
                self.loaded.add(&extension, Missing::Passes, self.trust)?;
            }
        }
        let version = Some(installation.version);
        let libraries = installation.libraries;
        Ok(Found { version, libraries, ..self.executable(resolved)? })
    }

    fn node(&mut self, program: &Path) -> Result<Found, Problem> {
        let resolved = self.trust.executable(program)?;
        let prefix = resolved.real.ancestors().nth(2).filter(|prefix| {
            // Without these, the directory above `bin` is not an installation, but may be a
            // project.
            prefix.join("lib/node_modules").is_dir() || prefix.join("include/node").is_dir()
        });
        let mut version = None;
        if let Some(prefix) = prefix.filter(|_| !libraries::is_system(&resolved.real)) {
            if let Some(cover) = self.places.cover(prefix, self.trust)? {
                self.show(cover);
            }
            let called = prefix.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = called.strip_prefix('v').unwrap_or(called);
            version = number.starts_with(|c: char| c.is_ascii_digit()).then(|| number.to_owned());
        }
        Ok(Found { version, ..self.executable(&resolved)? })
    }

    fn alone(&mut self, program: &Path) -> Result<Found, Problem> {
        let resolved = self.trust.executable(program)?;
        self.executable(&resolved)
    }

    /// The executable alone, by the first of its names that is visible inside.
    fn executable(&mut self, resolved: &Resolved) -> Result<Found, Problem> {
        self.show_file(&resolved.real)?;
        self.loaded.add(&resolved.real, Missing::Fails, self.trust)?;
        let shown = resolved.names.iter().find(|name| self.shows(name));
        let program = shown.unwrap_or(&resolved.real).clone();
        self.show_name(&program)?;
        let resolved = resolved.real.clone();
        Ok(Found { program, resolved, version: None, libraries: Vec::new() })
    }

    fn shows(&self, path: &Path) -> bool {
        self.binds.iter().any(|bind| path.starts_with(&bind.host))
    }

    fn show(&mut self, cover: Cover) {
        self.binds.extend(cover.binds);
        self.links.extend(cover.links);
    }

    /// Mounts a file whose path has no links, unless a mount already contains it.
    fn show_file(&mut self, file: &Path) -> Result<(), Problem> {
        if !self.shows(file) {
            if !self.places.allows_file(file) {
                return Err(Problem::Forbidden { path: file.to_path_buf() });
            }
            self.binds.insert(Bind::same(file.to_path_buf()));
        }
        Ok(())
    }

    fn show_directory(&mut self, directory: &Path) -> Result<(), Problem> {
        let resolved = self.trust.resolve(directory)?;
        // `lib/pythonX.Y` of a prefix must be inside that prefix, after links are resolved.
        let is_own = directory.ancestors().nth(2).is_some_and(|it| resolved.real.starts_with(it));
        if !is_own || !self.places.allows(&resolved.real) {
            return Err(Problem::Forbidden { path: resolved.real });
        }
        self.links.extend(resolved.links);
        self.binds.insert(Bind::same(resolved.real));
        Ok(())
    }

    /// Makes a name lead to the same file inside as outside.
    fn show_name(&mut self, name: &Path) -> Result<(), Problem> {
        self.links.extend(self.trust.resolve(name)?.links);
        Ok(())
    }

    /// Adds the libraries, and drops binds that another bind already contains.
    fn finish(mut self, started: Found) -> Result<Layout, Problem> {
        let loaded = std::mem::take(&mut self.loaded);
        for library in loaded.found {
            // Only the file, and only if it is a library: a planted executable may name any file.
            if !self.shows(&library.real) && elf::needs(&library.real).is_ok() {
                self.show_file(&library.real)?;
            }
            self.links.extend(library.links);
        }
        let mut binds: Vec<Bind> = Vec::new();
        // Sorted, so that a directory precedes everything below it.
        for bind in self.binds {
            if !binds.last().is_some_and(|last| bind.host.starts_with(&last.host)) {
                binds.push(bind);
            }
        }
        let shown = |link: &SymbolicLink| binds.iter().any(|bind| link.at.starts_with(&bind.host));
        let links = self.links.into_iter().filter(|link| !shown(link)).collect();
        Ok(Layout {
            program: started.program,
            resolved: started.resolved,
            version: started.version,
            links,
            binds,
            library_path: loaded.cached.into_iter().collect(),
        })
    }
}
