//! Results of trial starts, kept in a file between processes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use stockade_carrier::guest_bytes;

use crate::runtime::Kernel;
use crate::{EngineFacts, Runtime};

/// How long a result is used.
const MOST_AGE: Duration = Duration::from_secs(24 * 3600);
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
    /// The kernel that each runtime showed; nothing if it could not start.
    results: BTreeMap<String, Option<Kernel>>,
}

impl Kept {
    /// Reads the results for an engine. They are empty if the file is missing, old, or about
    /// another engine or its earlier state.
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
        self.content.results.get(runtime.name()).cloned()
    }

    pub(crate) fn keep(&mut self, runtime: Runtime, kernel: Option<Kernel>) {
        self.content.results.insert(runtime.name().to_owned(), kernel);
    }

    /// Writes the results for other processes. Without a place for them, the next process repeats
    /// the trials.
    pub(crate) fn write(&self) {
        if let Some(file) = &self.file {
            let _ = write(file, &self.content);
        }
    }
}

/// What a result depends on: the engine, its kernel, its runtimes, and the guest.
fn identity(facts: &EngineFacts) -> String {
    let runtimes: Vec<String> =
        facts.runtimes.iter().map(|(name, command)| format!("{name}={command}")).collect();
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
    let file = fs::File::open(file)?;
    let age = SystemTime::now().duration_since(file.metadata()?.modified()?);
    if age.is_ok_and(|age| age > MOST_AGE) {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
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
        let again = Kept::read(place, &facts);
        assert_eq!(again.result(Runtime::Runsc), Some(Some(kernel)));
        assert_eq!(again.result(Runtime::Kata), Some(None));
        assert_eq!(again.result(Runtime::Runc), None);
        let updated = EngineFacts { version: "28.0.0".to_owned(), ..facts.clone() };
        assert_eq!(Kept::read(place, &updated).result(Runtime::Runsc), None);
        fs::write(directory.path().join("docker-runtimes.json"), "{").unwrap();
        assert_eq!(Kept::read(place, &facts).result(Runtime::Runsc), None);
        assert_eq!(Kept::read(None, &facts).result(Runtime::Runsc), None);
    }
}
