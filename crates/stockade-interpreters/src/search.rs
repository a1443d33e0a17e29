//! The places to search, in the order of a shell.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::layout::layout;
use super::places::Places;
use super::problem::Problem;
use super::resolve::Trust;
use super::settle::{Settled, settle};
use super::{Interpreter, InterpreterError, Language, Origin, Skipped, Surroundings};

/// Searches every place until one has the interpreter.
pub(super) fn search(
    language: Language,
    surroundings: &Surroundings,
) -> Result<Interpreter, InterpreterError> {
    let trust = Trust { user: surroundings.user };
    let places = Places::of(surroundings);
    let mut search = Search { language, surroundings, trust, places, skipped: Vec::new() };
    let found = search.everywhere();
    let why_not = search.skipped;
    match found {
        Ok(Some(interpreter)) => Ok(Interpreter { skipped: why_not, ..interpreter }),
        Ok(None) => Err(InterpreterError::NotFound { language, why_not }),
        Err((program, problem)) => {
            let problem = Box::new(problem);
            Err(InterpreterError::Refused { language, program, problem, why_not })
        }
    }
}

struct Search<'a> {
    language: Language,
    surroundings: &'a Surroundings,
    trust: Trust,
    places: Places,
    skipped: Vec<Skipped>,
}

/// The interpreter, `None`, or a name that must not be used and the reason.
type Found = Result<Option<Interpreter>, (PathBuf, Problem)>;

impl Search<'_> {
    fn everywhere(&mut self) -> Found {
        let found = match self.language {
            Language::Python => self.python()?,
            Language::Bash => self.bash()?,
            Language::JavaScript => None,
        };
        match found {
            Some(interpreter) => Ok(Some(interpreter)),
            None => self.along_path(),
        }
    }

    fn python(&mut self) -> Found {
        let surroundings = self.surroundings;
        if let Some(named) = &surroundings.explicit_python {
            let path = surroundings.working_directory.join(named);
            let program = if path.is_dir() { self.in_directory(&path) } else { path };
            if let Some(found) = self.take(&program, Origin::Explicit)? {
                return Ok(Some(found));
            }
        }
        if let Some(directory) = &surroundings.virtual_env
            && let Some(found) = self.active(directory, Origin::VirtualEnvironment)?
        {
            return Ok(Some(found));
        }
        match &surroundings.conda_prefix {
            Some(prefix) if prefix.join("conda-meta").is_dir() => {
                self.active(prefix, Origin::Conda)
            }
            Some(prefix) => {
                self.skip(prefix, Problem::Missing { path: prefix.join("conda-meta") });
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Bash is a system program wherever it exists.
    fn bash(&mut self) -> Found {
        let places = ["/bin/bash", "/usr/bin/bash"].map(Path::new);
        match places.into_iter().find(|file| exists(file)) {
            Some(file) => self.take(file, Origin::System),
            None => Ok(None),
        }
    }

    /// An environment that a variable marks as active. A missing one is ignored, as in a shell; a
    /// broken one is an error and not replaced by another interpreter.
    fn active(&mut self, directory: &Path, origin: Origin) -> Found {
        if !directory.is_absolute() {
            self.skip(directory, Problem::Relative);
            return Ok(None);
        }
        let program = self.in_directory(directory);
        if exists(&program) {
            return self.take(&program, origin);
        }
        self.skip(directory, Problem::Nothing);
        Ok(None)
    }

    fn along_path(&mut self) -> Found {
        let path = self.surroundings.path.clone().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for directory in env::split_paths(&path) {
            if !seen.insert(directory.clone()) {
                continue;
            }
            if !directory.is_absolute() {
                self.skip(&directory, Problem::Relative);
                continue;
            }
            if let Some(interpreter) = self.on_path(&directory)? {
                return Ok(Some(interpreter));
            }
        }
        Ok(None)
    }

    fn on_path(&mut self, directory: &Path) -> Found {
        let programs = self.language.programs().iter().map(|name| directory.join(name));
        let programs: Vec<PathBuf> = programs.filter(|program| exists(program)).collect();
        if programs.is_empty() {
            self.skip(directory, Problem::Nothing);
        }
        for program in programs {
            match self.passed_over(&program) {
                Some(why) => self.skip(&program, why),
                // Found: it is used or refused, and no other interpreter is used instead.
                None => return self.take(&program, Origin::Path),
            }
        }
        Ok(None)
    }

    /// Uses the program that a name leads to; `None` if its version manager selects the system's
    /// interpreter.
    fn take(&mut self, program: &Path, origin: Origin) -> Found {
        let refused = |problem| (program.to_path_buf(), problem);
        let settled = settle(self.language, program, self.surroundings, self.trust);
        let (name, chosen) = match settled.map_err(refused)? {
            Settled::Program { name, chosen } => (name, chosen),
            Settled::System { manager } => {
                let directory = program.parent().unwrap_or(program);
                self.skip(directory, Problem::Shims { manager });
                return Ok(None);
            }
        };
        let layout = layout(self.language, &name, &self.places, self.trust).map_err(refused)?;
        Ok(Some(Interpreter {
            language: self.language,
            program: layout.program,
            resolved: layout.resolved,
            binds: layout.binds,
            links: layout.links,
            library_path: layout.library_path,
            version: layout.version,
            origin,
            chosen,
            skipped: Vec::new(),
        }))
    }

    /// The program in the directory of an environment or installation.
    fn in_directory(&self, directory: &Path) -> PathBuf {
        let programs = self.language.programs().iter().map(|name| directory.join("bin").join(name));
        let programs: Vec<PathBuf> = programs.collect();
        programs.iter().find(|program| exists(program)).unwrap_or(&programs[0]).clone()
    }

    /// Why a shell would continue along `PATH` although the name exists.
    fn passed_over(&self, program: &Path) -> Option<Problem> {
        match self.trust.executable(program) {
            Err(problem) => problem.is_absence().then_some(problem),
            Ok(resolved) => {
                let name = resolved.real.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("python2").then_some(Problem::OldPython)
            }
        }
    }

    fn skip(&mut self, place: &Path, why: Problem) {
        self.skipped.push(Skipped { place: place.to_path_buf(), why });
    }
}

/// Whether a name exists, even as a dangling link. Only existing names are checked for trust.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
