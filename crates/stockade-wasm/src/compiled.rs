//! The component compiled for this processor, kept between processes.
//!
//! A compiled component is machine code: nothing loads one that another user could have written.
//! The directory belongs to the caller and to no one else, the file has no second name, and its
//! name contains the digest of its content.
//!
//! ```text
//! no file ── lock ── compile ── write aside ── rename ──▶ a file
//! a file ── owner, mode, digest ──▶ loaded, locked while it is used
//!    ├── anything else ──▶ refused
//!    └── a new file, and others were used later ──▶ removed, unless it is locked
//! ```

mod old;

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use self::old::MOST_KEPT;
use crate::WasmError;
use crate::component::{component, component_directory, digest, hex};

/// How many characters of a digest a name has, where it only distinguishes versions.
const SHORT: usize = 16;
/// Larger files are not a compiled component.
const MAX_ARTEFACT: u64 = 1 << 30;

/// What a file is made with: only its owner may read it.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
/// What a file has that a jail shows: the directory alone keeps others away.
const SHOWN: Mode = PRIVATE.union(Mode::RGRP).union(Mode::ROTH);

pub(crate) use self::old::InUse;

/// A compiled component of another engine. No process removes it while this value exists.
#[derive(Debug)]
pub struct CompiledFile {
    path: PathBuf,
    in_use: InUse,
}

impl CompiledFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The directory of compiled components.
pub(crate) struct Artefacts {
    path: PathBuf,
    directory: File,
}

impl Artefacts {
    /// Opens the caller's directory, and creates it if it is missing.
    pub(crate) fn open() -> Result<Artefacts, WasmError> {
        let path = component_directory().ok_or(WasmError::NoCache)?.join("compiled");
        Artefacts::open_at(&path)
    }

    /// Opens a directory that only its owner can use, and the owner is the caller.
    pub(crate) fn open_at(path: &Path) -> Result<Artefacts, WasmError> {
        let failed = |doing| {
            let path = path.to_owned();
            move |source: std::io::Error| WasmError::File { doing, path, source }
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed("create the directory above"))?;
        }
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(failed("create")(error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let directory = File::from(directory.map_err(|error| failed("open")(error.into()))?);
        check_owner(path, &directory)?;
        Ok(Artefacts { path: path.to_owned(), directory })
    }

    /// The compiled component; compiles it first if it is missing. `progress` shows a line to the
    /// user.
    pub(crate) fn component(
        &self,
        engine: &Engine,
        progress: &dyn Fn(&str),
    ) -> Result<(Component, InUse), WasmError> {
        if let Some(loaded) = self.load(engine)? {
            return Ok(loaded);
        }
        // Another process may compile it now: it is loaded then.
        let _lock = self.lock()?;
        if let Some(loaded) = self.load(engine)? {
            return Ok(loaded);
        }
        let bytes = component()?;
        progress("compiling CPython for this processor; only the first use does this");
        let start = Instant::now();
        let compiled = engine
            .precompile_component(&bytes)
            .map_err(|source| WasmError::engine("compile the component", source))?;
        self.keep(&prefix(engine), &compiled, PRIVATE)?;
        progress(&format!("compiled CPython in {:.0} s", start.elapsed().as_secs_f64()));
        let loaded = self.load(engine)?;
        // After the load, which locks the new one.
        self.remove_surplus(progress);
        loaded.ok_or(WasmError::Altered { path: self.path.clone() })
    }

    /// Whether the component is compiled already.
    pub(crate) fn is_compiled(&self, engine: &Engine) -> Result<bool, WasmError> {
        Ok(self.find(&prefix(engine))?.is_some())
    }

    /// Whether the component is compiled for the engine that `engine` names.
    pub(crate) fn has_other(&self, engine: &str) -> Result<bool, WasmError> {
        Ok(self.find(&prefix_for(engine))?.is_some())
    }

    /// The component in a form that `compile` makes from one file in another, for the engine that
    /// `engine` names. Every user may read it, so that a jail can show it.
    pub(crate) fn other(
        &self,
        engine: &str,
        compile: &dyn Fn(&Path, &Path) -> Result<(), String>,
        progress: &dyn Fn(&str),
    ) -> Result<CompiledFile, WasmError> {
        let prefix = prefix_for(engine);
        if let Some(found) = self.verified(&prefix)? {
            return Ok(found);
        }
        let _lock = self.lock()?;
        if let Some(found) = self.verified(&prefix)? {
            return Ok(found);
        }
        progress("compiling CPython for the micro-VM; only the first use does this");
        let start = Instant::now();
        let [from, to] = ["from", "to"].map(|name| format!(".{}-{name}", std::process::id()));
        let made = (|| {
            let write =
                |source| WasmError::File { doing: "write", path: self.path.join(&from), source };
            let mut file = self.open_file(&from, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
            file.write_all(&component()?).map_err(write)?;
            let failed = |why: String| WasmError::Engine {
                doing: "compile the component for the micro-VM",
                source: why.into(),
            };
            compile(&self.path.join(&from), &self.path.join(&to)).map_err(failed)?;
            let read =
                |source| WasmError::File { doing: "read", path: self.path.join(&to), source };
            std::fs::read(self.path.join(&to)).map_err(read)
        })();
        for name in [&from, &to] {
            // What is left of it has a name that nothing loads.
            let _ = rustix::fs::unlinkat(&self.directory, name, rustix::fs::AtFlags::empty());
        }
        self.keep(&prefix, &made?, SHOWN)?;
        progress(&format!("compiled CPython in {:.0} s", start.elapsed().as_secs_f64()));
        let kept = self.verified(&prefix)?;
        self.remove_surplus(progress);
        kept.ok_or(WasmError::Altered { path: self.path.clone() })
    }

    /// Removes compiled components beyond the number that is kept. The sandbox starts without that
    /// too, so a failure is only shown.
    fn remove_surplus(&self, progress: &dyn Fn(&str)) {
        if let Err(error) = self.remove_old(MOST_KEPT) {
            let why = stockade_provider::chain(&error);
            progress(&format!("old compiled components stay in {}: {why}", self.path.display()));
        }
    }

    /// The kept component for this engine and processor, if there is one.
    fn load(&self, engine: &Engine) -> Result<Option<(Component, InUse)>, WasmError> {
        let Some(found) = self.verified(&prefix(engine))? else { return Ok(None) };
        load_trusted(engine, &found.in_use.file)
            .map(|component| Some((component, found.in_use)))
            .map_err(|source| WasmError::engine("load the compiled component", source))
    }

    /// The kept file with a prefix, if only the caller could have written it and it is whole. It is
    /// marked as used.
    fn verified(&self, prefix: &str) -> Result<Option<CompiledFile>, WasmError> {
        let Some(name) = self.find(prefix)? else { return Ok(None) };
        let path = self.path.join(&name);
        let file = match self.open_file(&name, OFlags::RDONLY) {
            // Another process has removed it.
            Err(WasmError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        check_owner(&path, &file)?;
        let marked = InUse::mark(file).map_err(|error| WasmError::File {
            doing: "lock",
            path: path.clone(),
            source: error.into(),
        })?;
        let Some(in_use) = marked else { return Ok(None) };
        let said = name.rsplit('-').next().and_then(|rest| rest.strip_suffix(".cwasm"));
        if said != Some(&digest_of(&in_use.file, &path)?) {
            return Err(WasmError::Altered { path });
        }
        Ok(Some(CompiledFile { path, in_use }))
    }

    /// The name of the kept component with a prefix.
    fn find(&self, prefix: &str) -> Result<Option<String>, WasmError> {
        let is_wanted = |name: &String| name.starts_with(prefix) && name.ends_with(".cwasm");
        Ok(self.names()?.into_iter().find(is_wanted))
    }

    /// Writes a compiled component under its final name, whole or not at all.
    fn keep(&self, prefix: &str, compiled: &[u8], mode: Mode) -> Result<(), WasmError> {
        let name = format!("{prefix}{}.cwasm", hex(&Sha256::digest(compiled)));
        let aside = format!(".{}-{name}", std::process::id());
        let failed = |source: std::io::Error| {
            let path = self.path.join(&name);
            WasmError::File { doing: "write", path, source }
        };
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = self.open_file(&aside, new)?;
        let written = file.write_all(compiled).and_then(|()| file.sync_all()).and_then(|()| {
            rustix::fs::fchmod(&file, mode)?;
            Ok(rustix::fs::renameat(&self.directory, &aside, &self.directory, &name)?)
        });
        if written.is_err() {
            // What is left of it has a name that nothing loads.
            let _ = rustix::fs::unlinkat(&self.directory, &aside, rustix::fs::AtFlags::empty());
        }
        written.map_err(failed)
    }

    fn lock(&self) -> Result<File, WasmError> {
        let file = self.open_file(".lock", OFlags::WRONLY | OFlags::CREATE)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|error| {
            WasmError::File { doing: "lock", path: self.path.clone(), source: error.into() }
        })?;
        Ok(file)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<File, WasmError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR);
        file.map(File::from).map_err(|error| {
            let path = self.path.join(name);
            match error {
                rustix::io::Errno::LOOP => {
                    WasmError::Untrusted { path, why: "it is a symbolic link" }
                }
                _ => WasmError::File { doing: "open", path, source: error.into() },
            }
        })
    }
}

/// The start of the names of components compiled for this engine and processor. The engine's hash
/// covers its version, its settings and the processor's features.
fn prefix(engine: &Engine) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("python-{}-{:016x}-", &digest()[..SHORT], hasher.finish())
}

/// The same for another engine.
fn prefix_for(engine: &str) -> String {
    format!("python-{}-{engine}-", &digest()[..SHORT])
}

/// Fails unless only the caller can write or replace it.
fn check_owner(path: &Path, file: &File) -> Result<(), WasmError> {
    let untrusted = |why| Err(WasmError::Untrusted { path: path.to_owned(), why });
    let found = rustix::fs::fstat(file).map_err(|error| WasmError::File {
        doing: "look at",
        path: path.to_owned(),
        source: error.into(),
    })?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return untrusted("it belongs to another user");
    }
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if found.st_mode & 0o077 != 0 => {
            untrusted("other users have permissions on it")
        }
        FileType::RegularFile if found.st_mode & 0o033 != 0 => {
            untrusted("other users have permissions on it")
        }
        FileType::Directory => Ok(()),
        // Without a name it was removed just now, and is not used.
        FileType::RegularFile if found.st_nlink <= 1 => Ok(()),
        FileType::RegularFile => untrusted("it has a second name"),
        _ => untrusted("it is neither a file nor a directory"),
    }
}

fn digest_of(file: &File, path: &Path) -> Result<String, WasmError> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut reader = file.take(MAX_ARTEFACT);
    loop {
        let read = reader.read(&mut buffer);
        match read.map_err(|source| WasmError::File {
            doing: "read",
            path: path.to_owned(),
            source,
        })? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Loads machine code from a file that passed every check.
#[expect(unsafe_code, reason = "the engine cannot check machine code, so loading it is unsafe")]
fn load_trusted(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    // The name of the open file itself: what was checked is what is loaded.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // UNSAFETY: the function runs the file's machine code without looking at it.
    // SAFETY: the file is one that `keep` wrote, with the engine's own output: its name has the
    // digest of its bytes, which was just compared, and only the caller can write to it or to its
    // directory. The engine itself compares its version and settings with those of the file.
    unsafe { Component::deserialize_file(engine, path) }
}

#[cfg(test)]
#[path = "compiled_tests.rs"]
mod tests;
