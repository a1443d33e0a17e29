//! Advice after a failure, derived from a program's output. No decision depends on it.
//!
//! A hint reveals whether a host file exists only if the caller wrote its path on the command line.
//! Advice about other paths is the same whether they exist or not: a program must not learn what
//! the host has by printing paths.

mod network;
mod programs;
mod siblings;
mod tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_engine::{Outcome, RunReport, RunRequest};
use stockade_policy::{Access, GuestPath, Limit, Policy, is_harmless};
use stockade_provider::{Language, Program};

use crate::shell::shell_word;

/// The maximum number of hints.
const MAX_HINTS: usize = 3;

/// The maximum number of lines to examine, from the last one up, and of paths in each.
const MAX_LINES: usize = 64;
const MAX_PATHS: usize = 8;

/// How kernel errors appear in messages, in lower case.
const MISSING: [&str; 3] = ["no such file or directory", "enoent", "cannot open"];
const REFUSED: [&str; 5] =
    ["permission denied", "eacces", "read-only file system", "erofs", "operation not permitted"];

/// What a hint advises the caller to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// The flags of the command line.
    Flags,
    /// The clauses of the policy, which flags cannot widen.
    Clauses,
}

/// The facts that hints depend on.
pub(crate) struct Asked {
    policy: Arc<Policy>,
    advice: Advice,
    host_file: Option<fn(&Path) -> bool>,
    /// The caller's working directory.
    here: PathBuf,
    script: Option<PathBuf>,
    language: Option<Language>,
    /// The arguments of a command; empty for code.
    argv: Vec<String>,
    /// The caller's search path and home, if hints may reveal what the host has.
    search_path: Option<OsString>,
    home: Option<PathBuf>,
    /// The directory of `--workdir`.
    working_directory: Option<String>,
    /// The arguments of a command or of code.
    named: Vec<String>,
}

impl Asked {
    /// `script` is its path as the caller wrote it. `host_file` checks whether a host file exists;
    /// a caller whose results reach the author of the code passes `None`, because a hint reveals
    /// the answer.
    pub(crate) fn of(
        request: &RunRequest,
        advice: Advice,
        here: PathBuf,
        script: Option<PathBuf>,
        host_file: Option<fn(&Path) -> bool>,
    ) -> Asked {
        let (language, argv, named) = match &request.program {
            Program::Code { language, arguments, .. } => (Some(*language), Vec::new(), arguments),
            Program::Command { argv } => (None, argv.clone(), argv),
        };
        Asked {
            policy: Arc::clone(&request.session.policy),
            advice,
            host_file,
            here,
            script,
            language,
            argv,
            search_path: host_file.and_then(|_| std::env::var_os("PATH")),
            home: host_file.and_then(|_| std::env::var_os("HOME")).map(PathBuf::from),
            working_directory: request.working_directory.clone(),
            named: named.clone(),
        }
    }

    /// Whether the caller wrote the path as an argument, or as the value of `--flag=path`.
    fn names(&self, path: &str) -> bool {
        let value = |word: &str| word.split_once('=').is_some_and(|(_, value)| value == path);
        self.named.iter().any(|word| word == path || value(word))
    }

    /// The script's directory: its absolute path, and the path as the user would write it.
    fn script_directory(&self) -> Option<(PathBuf, PathBuf)> {
        let written = self.script.as_deref()?.parent()?;
        let written = if written.as_os_str().is_empty() { Path::new(".") } else { written };
        Some((self.here.join(written), written.to_owned()))
    }
}

/// Hints for the result of a run.
pub(crate) fn of_report(report: &RunReport, asked: &Asked) -> Vec<String> {
    let mut found = hints(&report.outcome, &report.stderr_tail, asked);
    found.extend(network::denied(&report.denials, asked));
    found.extend(tools::uncalled(&report.denials, asked));
    found
}

/// Hints for an outcome and the end of standard error.
fn hints(outcome: &Outcome, tail: &[u8], asked: &Asked) -> Vec<String> {
    match outcome {
        Outcome::Exited { code } if *code != 0 => {
            let mut found = after_failure(tail, asked);
            found.extend(programs::of_shell(*code, asked));
            found
        }
        Outcome::NotStarted { errno, .. } => not_started(*errno, asked).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn after_failure(tail: &[u8], asked: &Asked) -> Vec<String> {
    let text = String::from_utf8_lossy(tail);
    let mut found = Vec::new();
    for line in text.lines().rev().filter(|line| !is_frame(line)).take(MAX_LINES) {
        for hint in hints_of(line, asked) {
            if !found.contains(&hint) && found.len() < MAX_HINTS {
                found.push(hint);
            }
        }
    }
    found
}

fn hints_of(line: &str, asked: &Asked) -> Vec<String> {
    let network = network::unreachable(line, asked).or_else(|| network::not_direct(line, asked));
    if let Some(hint) = network {
        return vec![hint];
    }
    let Some(exists) = asked.host_file else {
        return module(line).into_iter().collect();
    };
    let mut files = hidden_paths(line, asked, exists);
    files.extend(siblings::missing_file(line, asked, exists));
    if files.is_empty() {
        files.extend(siblings::sibling(line, asked).into_iter().chain(module(line)));
    }
    files
}

/// A hint for a program that did not start.
fn not_started(errno: i32, asked: &Asked) -> Option<String> {
    const ENOENT: i32 = 2;
    const ENOSPC: i32 = 28;
    if errno == ENOSPC && asked.language.is_some() {
        let disk = asked.policy.limits.value(Limit::Disk).unwrap_or(0);
        let way = match asked.advice {
            Advice::Flags => "raise --disk, and --memory where it is less",
            Advice::Clauses => "raise limits.max_disk_mb of the policy",
        };
        return Some(format!(
            "the code does not fit into the {disk} MiB that files may take; {way}"
        ));
    }
    if let Some(directory) = asked.working_directory.as_deref().filter(|_| errno == ENOENT) {
        return Some(format!("see that the directory of --workdir {directory} exists inside"));
    }
    let (name, exists) = (asked.argv.first()?, asked.host_file?);
    if errno != ENOENT {
        return None;
    }
    let is_script = Language::of_script(Path::new(name)).is_some();
    if !is_script && let Some(hint) = programs::missing(name, asked) {
        return Some(hint);
    }
    if name.starts_with('/') {
        return hidden_path(name, false, asked, exists);
    }
    if is_script && !name.contains('/') && exists(&asked.here.join(name)) {
        let words: Vec<String> = asked.argv.iter().map(|word| shell_word(word)).collect();
        return Some(format!(
            "{name} is a file here, and after -- stands a program that is inside; `stockade run \
             {}` runs a script",
            words.join(" ")
        ));
    }
    name.contains('/').then(|| siblings::relative_file(name, asked, exists)).flatten()
}

/// Whether this is a traceback line: it names files of the interpreter, which are visible.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("File \"") || line.starts_with("at ")
}

/// A hint for a module that an interpreter did not find.
fn module(line: &str) -> Option<String> {
    python_module(line).or_else(|| node_module(line))
}

fn python_module(line: &str) -> Option<String> {
    let name = quoted_after(line, "No module named ")?;
    Some(format!(
        "the Python that ran has no module `{name}`; --python PATH names another one, and an \
         activated virtual environment is used by itself"
    ))
}

fn node_module(line: &str) -> Option<String> {
    let name = quoted_after(line, "Cannot find module ")?;
    Some(format!(
        "Node found no module `{name}`; --workspace DIR shows a project with its node_modules"
    ))
}

/// The quoted name after some words; `None` if it is not a valid module name.
fn quoted_after<'l>(line: &'l str, words: &str) -> Option<&'l str> {
    let rest = &line[line.find(words)? + words.len()..];
    let name = rest.strip_prefix('\'')?.split('\'').next()?;
    let is_plain = |character: char| character.is_alphanumeric() || "_.-/@".contains(character);
    (!name.is_empty() && name.len() <= 200 && name.chars().all(is_plain)).then_some(name)
}

/// Whether a line reports a missing file.
fn is_missing(line: &str) -> bool {
    let lower = line.to_lowercase();
    MISSING.iter().any(|words| lower.contains(words))
}

/// Paths in an error message that the caller named, that exist on the host, are not visible inside,
/// and could be mounted.
fn hidden_paths(line: &str, asked: &Asked, exists: fn(&Path) -> bool) -> Vec<String> {
    let lower = line.to_lowercase();
    let is_refused = REFUSED.iter().any(|words| lower.contains(words));
    if !is_refused && !is_missing(line) {
        return Vec::new();
    }
    let hint = |path| hidden_path(path, is_refused, asked, exists);
    let paths = absolute_paths(line).into_iter().filter(|path| asked.names(path));
    paths.take(MAX_PATHS).filter_map(hint).collect()
}

fn hidden_path(
    path: &str,
    is_refused: bool,
    asked: &Asked,
    exists: fn(&Path) -> bool,
) -> Option<String> {
    let allows = |access| {
        GuestPath::parse(path).is_ok_and(|guest| asked.policy.judge_path(&guest, access).allows())
    };
    let (access, state) = if !allows(Access::Read) {
        (Access::Read, "is not visible inside")
    } else if is_refused && !allows(Access::Write) {
        (Access::Write, "is read-only inside")
    } else {
        return None;
    };
    (can_be_mounted(path, access) && exists(Path::new(path))).then(|| {
        format!("{path} exists on the host and {state}; {}", way(path, access, asked.advice))
    })
}

/// How to make a path visible inside.
fn way(path: &str, access: Access, advice: Advice) -> String {
    match (advice, access) {
        (Advice::Flags, Access::Read) => {
            format!("--mount {} shows it read-only", shell_word(&format!("{path}:{path}")))
        }
        (Advice::Flags, Access::Write) => {
            format!("--mount {} makes it writable", shell_word(&format!("{path}:{path}:rw")))
        }
        (Advice::Clauses, Access::Read) => {
            "naming it in filesystem.read of the policy shows it read-only".to_owned()
        }
        (Advice::Clauses, Access::Write) => {
            "naming it in filesystem.write of the policy makes it writable".to_owned()
        }
    }
}

/// Whether a policy may mount the path at the same place; never for keys and system files.
fn can_be_mounted(path: &str, access: Access) -> bool {
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!("filesystem: {{ {}: [ \"{escaped}\" ] }}", access.as_str());
    Policy::parse_str("a hint", &text, Path::new("/")).is_ok()
}

/// Absolute paths in a line: quoted, or delimited by blanks and colons.
fn absolute_paths(line: &str) -> Vec<&str> {
    let separators =
        |character: char| character.is_whitespace() || "'\"`:;,()[]<>|=".contains(character);
    let mut paths: Vec<&str> = Vec::new();
    for word in line.split(['\'', '"']).chain(line.split(separators)) {
        let is_path = word.len() > 1
            && word.starts_with('/')
            && !word.starts_with("//")
            && !word.contains(':')
            && word.chars().all(is_harmless);
        if is_path && !paths.contains(&word) {
            paths.push(word);
        }
    }
    paths
}

#[cfg(test)]
#[path = "hints_tests.rs"]
mod tests;
