//! Paths in a policy: guest paths inside, host paths outside.
//!
//! This module handles only text. The kernel handles links: a wall opens host paths without
//! following symbolic links, and mounts decide, not the spelling of a path.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The longest path that Linux accepts, without its terminating zero.
const MAX_PATH_BYTES: usize = 4095;

/// The longest file name that Linux accepts.
const MAX_NAME_BYTES: usize = 255;

/// The path of the workspace inside; relative guest paths start here.
pub const WORKSPACE: &str = "/workspace";

/// Guest trees that a wall creates itself.
const OWN_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Guest directories with the interpreter and its libraries; a mount may be below them but not
/// replace them.
const RUNTIME: [&str; 11] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/tmp", "/var", "/run",
];

/// Host trees that are never mounted: devices, kernel state, and the sockets and data of daemons
/// that give control of the host.
const CLOSED_TREES: [&str; 18] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/boot",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/containers",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
];

/// Names of files and directories with keys and tokens, anywhere on the host.
const CREDENTIALS: [&str; 11] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
];

/// Host directories too wide to mount whole; a directory below them is allowed.
const CLOSED_ROOTS: [&str; 6] = ["/", "/root", "/home", "/etc", "/var", "/var/lib"];

/// Host trees that a sandbox never writes: the host's programs and settings.
const SYSTEM_TREES: [&str; 10] = [
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/var/lib",
    "/var/spool",
];

/// Why a path was refused, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FilePathError {
    message: String,
    remedy: String,
}

impl FilePathError {
    fn new(message: impl Into<String>, remedy: impl Into<String>) -> FilePathError {
        FilePathError { message: message.into(), remedy: remedy.into() }
    }

    /// What to write instead.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// What an act does to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading, listing, executing.
    Read,
    /// Any change.
    Write,
}

impl Access {
    /// The access as a verb.
    pub fn as_str(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}

/// A path inside a sandbox: absolute, without `.`, `..`, doubled or trailing slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct GuestPath(String);

impl GuestPath {
    /// Parses a path to judge. Relative ones start in the workspace; `..` is resolved textually and
    /// stops at the root, as for a process inside.
    pub fn parse(text: &str) -> Result<GuestPath, FilePathError> {
        check_text(text)?;
        let absolute =
            if text.starts_with('/') { text.to_owned() } else { format!("{WORKSPACE}/{text}") };
        let mut names: Vec<&str> = Vec::new();
        for name in absolute.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    names.pop();
                }
                name => names.push(name),
            }
        }
        Ok(GuestPath(format!("/{}", names.join("/"))))
    }

    /// Parses a mount point: absolute, plain, and not where a wall has its own files.
    pub(crate) fn parse_mount(text: &str) -> Result<GuestPath, FilePathError> {
        if !text.starts_with('/') {
            let message = format!("the guest path `{text}` is not absolute");
            return Err(FilePathError::new(
                message,
                format!("write `/{}`", text.trim_start_matches("./")),
            ));
        }
        if text.split('/').any(|name| name == "..") {
            let message = format!("the guest path `{text}` contains `..`");
            return Err(FilePathError::new(message, "write the path without it"));
        }
        let path = GuestPath::parse(text)?;
        let own = OWN_TREES.iter().find(|tree| path.is_at_or_below(tree));
        if let Some(tree) = own {
            let message = format!("every sandbox has its own `{tree}`; nothing is mounted there");
            return Err(FilePathError::new(message, "choose a guest path such as `/data`"));
        }
        if path.0 == "/" || RUNTIME.contains(&path.0.as_str()) {
            let message = format!("a mount at `{path}` would replace part of the sandbox's root");
            return Err(FilePathError::new(message, "choose a guest path such as `/data`"));
        }
        Ok(path)
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `tree` or below it.
    pub fn is_at_or_below(&self, tree: &str) -> bool {
        is_at_or_below(&self.0, tree)
    }

    /// The rest of the path below `tree`, without a leading slash.
    pub(crate) fn below(&self, tree: &GuestPath) -> Option<&str> {
        let rest = self.0.strip_prefix(tree.0.as_str())?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a host path of a policy: relative ones start in `base`, the result is absolute and plain.
/// Nothing is expanded, so that the text alone determines the path.
pub(crate) fn host_path(text: &str, base: &Path, access: Access) -> Result<PathBuf, FilePathError> {
    let path = host_file(text, base)?;
    refuse_closed(&path.to_string_lossy(), access)?;
    Ok(path)
}

/// Parses the path of a host file that Stockade itself reads and no sandbox sees.
pub(crate) fn host_file(text: &str, base: &Path) -> Result<PathBuf, FilePathError> {
    check_text(text)?;
    if text.starts_with('~') {
        let message = format!("`{text}`: `~` is not expanded in a policy");
        return Err(FilePathError::new(
            message,
            "write the whole path, or one relative to the policy file",
        ));
    }
    if text.contains('$') {
        let message = format!("`{text}`: variables are not expanded in a policy");
        return Err(FilePathError::new(
            message,
            "write the path itself, or one relative to the policy file",
        ));
    }
    if text.contains(['*', '?']) {
        let message = format!("`{text}`: patterns are not understood in host paths");
        return Err(FilePathError::new(message, "name the directory that holds the files"));
    }
    let joined = base.join(text);
    let Some(joined) = joined.to_str() else {
        let message = format!("`{text}` lies in a directory whose name is not UTF-8");
        return Err(FilePathError::new(message, "rename the directory, or write the whole path"));
    };
    // A printed policy has absolute paths, and must parse again.
    if joined.contains(['$', '*', '?']) {
        let message = format!("`{text}` lies in a directory with `$`, `*` or `?` in its name");
        return Err(FilePathError::new(message, "move the policy, or write the whole path"));
    }
    Ok(PathBuf::from(GuestPath::parse(joined)?.0))
}

/// Refuses host paths that no policy may open.
fn refuse_closed(path: &str, access: Access) -> Result<(), FilePathError> {
    let below = "name the directory that is needed, below it";
    let is_home = ["/home/", "/var/home/"]
        .iter()
        .any(|homes| path.strip_prefix(homes).is_some_and(|name| !name.contains('/')));
    let is_above = CLOSED_TREES.iter().any(|tree| is_at_or_below(tree, path));
    if is_home || CLOSED_ROOTS.contains(&path) || (is_above && !CLOSED_TREES.contains(&path)) {
        return Err(FilePathError::new(
            format!("the host's `{path}` is too wide to be mounted"),
            below,
        ));
    }
    if let Some(tree) = CLOSED_TREES.iter().find(|tree| is_at_or_below(path, tree)) {
        let message = format!("the host's `{tree}` is never mounted");
        return Err(FilePathError::new(message, "copy what is needed to a directory of its own"));
    }
    let cloud = path.contains("/.config/gcloud").then_some("gcloud");
    let named = path.split('/').find(|name| CREDENTIALS.contains(name)).or(cloud);
    if let Some(name) = named {
        let message = format!("`{name}` holds credentials and is never mounted");
        return Err(FilePathError::new(
            message,
            "use `secrets`, or copy what is not secret elsewhere",
        ));
    }
    let system = SYSTEM_TREES.iter().find(|tree| is_at_or_below(path, tree));
    match (access, system) {
        (Access::Write, Some(tree)) => {
            let message = format!("the host's `{tree}` is never writable from inside");
            Err(FilePathError::new(message, "write to a directory of the project instead"))
        }
        _ => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), FilePathError> {
    if text.is_empty() {
        return Err(FilePathError::new("the path is empty", "name a file or a directory"));
    }
    if text.chars().any(char::is_control) {
        let message = "the path contains a control character";
        return Err(FilePathError::new(
            message,
            "rename the file, or mount the directory that holds it",
        ));
    }
    if text.len() > MAX_PATH_BYTES {
        let message = format!("the path is longer than {MAX_PATH_BYTES} bytes");
        return Err(FilePathError::new(message, "use a shorter path"));
    }
    if text.split('/').any(|name| name.len() > MAX_NAME_BYTES) {
        let message = format!("a name in the path is longer than {MAX_NAME_BYTES} bytes");
        return Err(FilePathError::new(message, "use a shorter name"));
    }
    Ok(())
}

fn is_at_or_below(path: &str, tree: &str) -> bool {
    match path.strip_prefix(tree) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || tree == "/",
        None => false,
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
