//! Finds the files outside the system's directories that the dynamic loader opens for a program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::elf;
use super::problem::Problem;
use super::resolve::{Resolved, Trust};

/// The files needed to load a set of files.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    /// The loader and the libraries outside the system's directories.
    pub(super) found: Vec<Resolved>,
    /// Directories that the loader finds only through its cache.
    pub(super) cached: BTreeSet<PathBuf>,
    seen: BTreeSet<PathBuf>,
    /// Libraries that were found, with the directories that were searched: seventy extension modules
    /// need the same libc.
    located: BTreeSet<(String, Vec<PathBuf>)>,
}

/// Whether a missing library is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The program does not start without it.
    Fails,
    /// A part of the program does not work, outside and inside alike.
    Passes,
}

/// The loader's default directories. Excludes its cache, which is not mounted inside.
const DEFAULT: [&str; 10] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/lib/x86_64-linux-musl",
    "/lib/aarch64-linux-musl",
];

/// Whether the system's binds contain a path.
pub(super) fn is_system(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
        .iter()
        .any(|place| path.starts_with(place))
}

impl Libraries {
    /// Adds the libraries of a file without links, and theirs in turn.
    pub(super) fn add(
        &mut self,
        file: &Path,
        missing: Missing,
        trust: Trust,
    ) -> Result<(), Problem> {
        let mut left = vec![(file.to_path_buf(), Vec::new())];
        while let Some((file, inherited)) = left.pop() {
            if !self.seen.insert(file.clone()) {
                continue;
            }
            let needs = match elf::needs(&file) {
                Err(_) if missing == Missing::Passes => continue,
                needs => needs?,
            };
            let inherited = [needs.inherited_path, inherited].concat();
            if let Some(loader) = &needs.loader {
                self.keep(trust.resolve(loader)?);
            }
            let search = [inherited.as_slice(), &needs.run_path].concat();
            for library in needs.libraries {
                let key = (library, search.clone());
                if self.located.contains(&key) {
                    continue;
                }
                match self.locate(&key.0, &search, trust)? {
                    // The system's libraries need only other system libraries.
                    Some(resolved) if is_system(&resolved.real) => {}
                    Some(resolved) => {
                        left.push((resolved.real.clone(), inherited.clone()));
                        self.keep(resolved);
                    }
                    None if missing == Missing::Passes => continue,
                    None => return Err(Problem::MissingLibrary { file, library: key.0 }),
                }
                self.located.insert(key);
            }
        }
        Ok(())
    }

    fn keep(&mut self, resolved: Resolved) {
        if !is_system(&resolved.real) {
            self.found.push(resolved);
        }
    }

    fn locate(
        &mut self,
        library: &str,
        search: &[PathBuf],
        trust: Trust,
    ) -> Result<Option<Resolved>, Problem> {
        if library.contains('/') {
            return present(Path::new(library), trust);
        }
        let default = DEFAULT.iter().map(PathBuf::from);
        let known = search.iter().cloned().chain(default);
        for directory in known {
            if let Some(resolved) = present(&directory.join(library), trust)? {
                return Ok(Some(resolved));
            }
        }
        for directory in configured(Path::new("/etc/ld.so.conf")) {
            if let Some(resolved) = present(&directory.join(library), trust)? {
                self.cached.insert(directory);
                return Ok(Some(resolved));
            }
        }
        Ok(None)
    }
}

fn present(path: &Path, trust: Trust) -> Result<Option<Resolved>, Problem> {
    // Checked before trust: a directory of the search path matters only if it has the library.
    if path.is_file() { trust.resolve(path).map(Some) } else { Ok(None) }
}

/// The directories that ldconfig(8) adds to the cache. Follows only the usual form of `include`,
/// one level deep: a library missed because of that is reported as missing.
fn configured(file: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(file) else { return Vec::new() };
    let mut directories = listed(&text);
    for line in text.lines() {
        let included = line.trim().strip_prefix("include ").map(|pattern| pattern.trim());
        let Some(folder) = included.and_then(|pattern| pattern.strip_suffix("/*.conf")) else {
            continue;
        };
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "conf"));
        files.sort();
        let texts = files.into_iter().filter_map(|file| fs::read_to_string(file).ok());
        directories.extend(texts.flat_map(|text| listed(&text)));
    }
    directories
}

fn listed(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().filter_map(|line| line.split('#').next());
    lines.map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_read_from_the_ldconfig_settings() {
        let text = "# libc\n/usr/local/lib\n /opt/x # mine\ninclude /etc/ld.so.conf.d/*.conf\n";
        assert_eq!(listed(text), ["/usr/local/lib", "/opt/x"].map(PathBuf::from));
    }

    #[test]
    fn system_program_needs_nothing_outside_the_system() {
        let bash = fs::canonicalize("/bin/bash").unwrap();
        let mut libraries = Libraries::default();
        libraries.add(&bash, Missing::Fails, Trust { user: 0 }).unwrap();
        assert!(libraries.found.is_empty() && libraries.cached.is_empty());
    }
}
