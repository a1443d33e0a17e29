//! Results of trial starts, kept in a file between processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use stockade_carrier::guest_bytes;

use crate::runtime::Kernel;
use crate::{EngineFacts, Runtime};

/// How long the result of a runtime that started is used.
const STARTED: Duration = Duration::from_secs(24 * 3600);
/// How long the result of one that failed is used: the cause may be gone at any time.
const FAILED: Duration = Duration::from_secs(60);
const MOST_BYTES: u64 = 64 << 10;

/// The results for one engine. A wrong file at most selects another runtime: every start checks
/// that the kernel inside is the runtime's.
#[derive(Debug)]
pub(crate) struct Kept {
    file: Option<PathBuf>,
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// What the results depend on.
    engine: String,
    /// The result of each runtime.
    results: BTreeMap<String, Tried>,
}

/// The result of one trial start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tried {
    /// The kernel that the runtime showed; nothing if it could not start.
    kernel: Option<Kernel>,
    /// When, in seconds since 1970.
    at: u64,
}

impl Kept {
    /// Reads the results for an engine. They are empty if the file is missing, or about another
    /// engine or its earlier state.
    pub(crate) fn read(directory: Option<&Path>, facts: &EngineFacts) -> Kept {
        let file = directory.map(|directory| directory.join("docker-runtimes.json"));
        let engine = identity(facts);
        let found = file.as_deref().and_then(|file| read(file).ok().flatten());
        let content = found
            .filter(|content| content.engine == engine)
            .unwrap_or(Content { engine, results: BTreeMap::new() });
        Kept { file, content }
    }

    /// The kept result of a runtime: its kernel, or nothing if it could not start.
    pub(crate) fn result(&self, runtime: Runtime) -> Option<Option<Kernel>> {
        let tried = self.content.results.get(runtime.name())?;
        let most = if tried.kernel.is_some() { STARTED } else { FAILED };
        // A result with a time in the future is not used.
        let age = now().checked_sub(tried.at).map(Duration::from_secs);
        age.is_some_and(|age| age < most).then(|| tried.kernel.clone())
    }

    pub(crate) fn keep(&mut self, runtime: Runtime, kernel: Option<Kernel>) {
        self.content.results.insert(runtime.name().to_owned(), Tried { kernel, at: now() });
    }

    /// Forgets the result of a runtime whose trial ended without one.
    pub(crate) fn forget(&mut self, runtime: Runtime) {
        self.content.results.remove(runtime.name());
    }

    /// Writes the results for other processes. Without a place for them, the next process repeats
    /// the trials.
    pub(crate) fn write(&self) {
        if let Some(file) = &self.file {
            let _ = write(file, &self.content);
        }
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// What a result depends on: the engine, its kernel, its runtimes, and the guest.
fn identity(facts: &EngineFacts) -> String {
    let runtime = |(name, command): (&String, &String)| {
        let program = command.split(' ').next().filter(|_| facts.is_local).unwrap_or_default();
        // A runtime that was installed anew or repaired.
        let file = fs::metadata(program).map(|file| (file.ino(), file.size(), file.mtime_nsec()));
        let file = file.map_or(String::new(), |file| format!(" {file:?}"));
        format!("{name}={command}{file}")
    };
    let runtimes: Vec<String> = facts.runtimes.iter().map(runtime).collect();
    format!(
        "{} {} {} {} guest {} {}",
        facts.id,
        facts.version,
        facts.kernel,
        runtimes.join(" "),
        env!("CARGO_PKG_VERSION"),
        guest_bytes().len()
    )
}

fn read(file: &Path) -> io::Result<Option<Content>> {
    let mut text = String::new();
    fs::File::open(file)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).ok())
}

fn write(file: &Path, content: &Content) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&temporary, serde_json::to_vec(content)?)?;
    fs::rename(&temporary, file).inspect_err(|_| _ = fs::remove_file(&temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_for_the_same_engine_only() {
        let directory = tempfile::tempdir().unwrap();
        let place = Some(directory.path());
        let facts = crate::host::example();
        let kernel = Kernel { release: "4.4.0".to_owned(), version: "#1".to_owned() };
        let mut kept = Kept::read(place, &facts);
        assert_eq!(kept.result(Runtime::Runsc), None);
        kept.keep(Runtime::Runsc, Some(kernel.clone()));
        kept.keep(Runtime::Kata, None);
        kept.write();
        let mut again = Kept::read(place, &facts);
        assert_eq!(again.result(Runtime::Runsc), Some(Some(kernel)));
        assert_eq!(again.result(Runtime::Kata), Some(None));
        assert_eq!(again.result(Runtime::Runc), None);
        again.forget(Runtime::Kata);
        assert_eq!(again.result(Runtime::Kata), None);
        let updated = EngineFacts { version: "28.0.0".to_owned(), ..facts.clone() };
        assert_eq!(Kept::read(place, &updated).result(Runtime::Runsc), None);
        fs::write(directory.path().join("docker-runtimes.json"), "{").unwrap();
        assert_eq!(Kept::read(place, &facts).result(Runtime::Runsc), None);
        assert_eq!(Kept::read(None, &facts).result(Runtime::Runsc), None);
    }
    #[test]
    fn failure_is_kept_for_a_minute_and_not_past_a_change_of_the_runtime() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("kata");
        fs::write(&program, "exit 1").unwrap();
        let mut facts = crate::host::example();
        facts.runtimes.insert("kata-runtime".to_owned(), program.display().to_string());
        let kernel = Kernel { release: "6.1".to_owned(), version: "#1".to_owned() };
        let mut kept = Kept::read(Some(directory.path()), &facts);
        kept.keep(Runtime::Kata, None);
        kept.keep(Runtime::Runc, Some(kernel));
        kept.write();
        let again = || Kept::read(Some(directory.path()), &facts);
        assert_eq!(again().result(Runtime::Kata), Some(None));
        let mut older = again();
        for tried in older.content.results.values_mut() {
            tried.at -= 61;
        }
        assert_eq!(older.result(Runtime::Kata), None);
        assert!(older.result(Runtime::Runc).is_some(), "a success lasts longer");
        fs::write(&program, "exec kata").unwrap();
        assert_eq!(again().result(Runtime::Kata), None);
    }
}
