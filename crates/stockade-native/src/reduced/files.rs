//! The host files that a sandbox of the reduced wall can use, and its Landlock rules.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stockade_hostfiles::{
    HostFileError, Mode, Shown, refuse_changeable, refuse_read_below_writable, shown,
};
use stockade_interpreters::Interpreter;
use stockade_launcher::{LandlockRule, SocketUse, TreeKind};
use stockade_policy::{Policy, Workspace};
use stockade_provider::{Root, SandboxRequest};
use stockade_seccomp::Ids;

use crate::error::StartError;
use crate::machine::{Machine, Setting};

use super::scratch::{CODE, ScratchDirectory, TEMPORARY, WORK};

/// Device nodes that carry no data between processes.
const NODES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Configuration files that make libraries fail if they exist and cannot be read. In the native
/// wall's root they do not exist.
const SETTINGS_OF_LIBRARIES: [&str; 2] = ["/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf"];

/// The Landlock rules for host files, and the working directory.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) rules: Vec<LandlockRule>,
    pub(super) working_directory: PathBuf,
}

/// Resolves every path once, and refuses what Landlock cannot enforce.
pub(super) fn files(
    request: &SandboxRequest,
    machine: &Machine,
    interpreter: Option<&Interpreter>,
    ids: Ids,
    scratch: &ScratchDirectory,
) -> Result<Files, StartError> {
    if request.root != Root::Standard {
        return Err(StartError::Unsupported {
            what: "--root",
            reason: "without a mount namespace no other directory can stand at /",
            remedy: "leave it out, or use a host with namespaces",
        });
    }
    let shown = shown(&request.policy)?;
    refuse_changeable(&request.protected, &shown)?;
    // Landlock rules only add rights: nothing below a writable directory can be read-only.
    refuse_read_below_writable(&shown, |_, _| false)?;
    let binds = interpreter.map_or(&machine.system, |found| &found.binds);
    if ids == Ids::Own {
        check_others(binds.iter().map(|bind| bind.host.as_path()), &shown, &scratch.path)?;
    }
    let mut rules: Vec<LandlockRule> =
        binds.iter().map(|bind| rule(&bind.host, Mode::Read, true)).collect();
    rules.extend(machine.settings.iter().filter_map(|setting| match setting {
        Setting::Shown(path) | Setting::Copied(path) => Some(rule(path, Mode::Read, false)),
        // The rules above already cover its target.
        Setting::SymbolicLink(_) => None,
    }));
    let public = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
    let libraries = SETTINGS_OF_LIBRARIES.iter().map(Path::new).filter(public);
    rules.extend(libraries.map(|path| rule(path, Mode::Read, false)));
    rules.extend(NODES.map(|node| rule(Path::new(node), Mode::Write, false)));
    rules.extend(shown.iter().map(|shown| rule(&shown.host, shown.mode, true)));
    rules.extend([TEMPORARY, CODE].map(|part| rule(&scratch.part(part), Mode::Write, true)));
    let (working_directory, own) = working_directory(&request.policy, scratch);
    rules.extend(own);
    Ok(Files { rules, working_directory })
}

fn rule(path: &Path, mode: Mode, executable: bool) -> LandlockRule {
    let (path, writable) = (path.to_owned(), mode == Mode::Write);
    LandlockRule { path, writable, executable, sockets: SocketUse::Refused }
}

/// The working directory, and its rule if it is in the scratch directory.
fn working_directory(
    policy: &Policy,
    scratch: &ScratchDirectory,
) -> (PathBuf, Option<LandlockRule>) {
    let own = scratch.part(WORK);
    match &policy.workspace.value {
        Workspace::Host { host, .. } => (host.clone(), None),
        Workspace::Scratch => (own.clone(), Some(rule(&own, Mode::Write, true))),
        Workspace::Nothing => (own.clone(), Some(rule(&own, Mode::Read, false))),
    }
}

/// A sandbox with its own user id has only the rights of others on host files; checks that they
/// suffice.
fn check_others<'p>(
    system: impl Iterator<Item = &'p Path>,
    shown: &[Shown],
    scratch: &Path,
) -> Result<(), StartError> {
    let reason = |above: &Path| format!("others may not enter {}", above.display());
    for path in system {
        if let Some(above) = closed_parent(path) {
            let remedy = "use one that every user may read, such as --python /usr/bin/python3, or \
                          run Stockade as the ordinary user who owns it";
            return Err(HostFileError::path(path, reason(above), remedy).into());
        }
    }
    if let Some(above) = closed_parent(scratch) {
        let remedy = "set TMPDIR to a directory that every user may enter, such as /tmp";
        return Err(HostFileError::path(scratch, reason(above), remedy).into());
    }
    for Shown { host, kind, mode, .. } in shown {
        let remedy = "give others that right, or run Stockade as the ordinary user who owns it";
        if let Some(above) = closed_parent(host) {
            return Err(HostFileError::path(host, reason(above), remedy).into());
        }
        let enter = if *kind == TreeKind::Directory { ENTER } else { 0 };
        if lacks(host, READ | enter) {
            return Err(HostFileError::path(host, "others may not read it", remedy).into());
        }
        if *mode == Mode::Write && lacks(host, CHANGE) {
            return Err(HostFileError::path(host, "others may not change it", remedy).into());
        }
    }
    Ok(())
}

const READ: u32 = 0o4;
const CHANGE: u32 = 0o2;
const ENTER: u32 = 0o1;

/// Whether the permission bits for others lack one of these rights.
fn lacks(path: &Path, rights: u32) -> bool {
    !fs::metadata(path).is_ok_and(|found| found.permissions().mode() & rights == rights)
}

/// A parent directory of a path that others may not enter.
fn closed_parent(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| lacks(above, ENTER))
}
