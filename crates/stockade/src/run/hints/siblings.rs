//! Hints about files in the working directory or next to the script that are not visible inside.

use std::path::{Component, Path, PathBuf};

use stockade_policy::{Access, Policy, Workspace, is_harmless};
use stockade_provider::Language;

use super::{Advice, Asked, can_be_mounted};
use crate::shell::shell_word;

/// The directory of a script inside.
const CODE: &str = "/run/code/";

/// The working directory inside.
const WORKSPACE: &str = "/workspace/";

/// A hint for a file that a message names by a relative path.
pub(super) fn missing_file(line: &str, asked: &Asked, exists: fn(&Path) -> bool) -> Option<String> {
    let paths = relative_paths(line);
    if asked.policy.workspace.value != Workspace::Scratch || paths.is_empty() {
        return None;
    }
    let mut named = paths.iter().filter(|name| asked.names(name)).peekable();
    match named.peek() {
        Some(_) => named.find_map(|name| relative_file(name, asked, exists)),
        None => empty_workspace(asked),
    }
}

/// A hint that the workspace is empty, and how to show this directory there.
fn empty_workspace(asked: &Asked) -> Option<String> {
    let start = "programs start in /workspace, which is empty";
    let flag = |(directory, written): (PathBuf, PathBuf)| {
        let word = shell_word(written.to_str()?);
        can_be_workspace(&directory).then(|| format!("--workspace {word}"))
    };
    let here = || flag((asked.here.clone(), PathBuf::from(".")));
    match asked.advice {
        Advice::Clauses => {
            Some(format!("{start}; filesystem.workspace of the policy can show a directory there"))
        }
        Advice::Flags => match asked.script_directory().and_then(flag).or_else(here) {
            Some(flag) if flag == "--workspace ." => {
                Some(format!("{start}; {flag} shows this directory there"))
            }
            Some(flag) => Some(format!("{start}; {flag} shows the directory of the script there")),
            None => Some(format!("{start}; --mount HOST:/workspace/NAME shows a file there")),
        },
    }
}

/// A hint for a relative path that exists in the working directory or next to the script.
pub(super) fn relative_file(
    name: &str,
    asked: &Asked,
    exists: fn(&Path) -> bool,
) -> Option<String> {
    let script = asked.script_directory();
    let places = [(asked.here.clone(), PathBuf::from("."))].into_iter().chain(script);
    let (directory, written) = places.into_iter().find(|(real, _)| exists(&real.join(name)))?;
    let place = if written == Path::new(".") { "here" } else { "next to the script" };
    let way = match asked.advice {
        Advice::Clauses => "filesystem.workspace of the policy can show its directory".to_owned(),
        Advice::Flags if can_be_workspace(&directory) => {
            let word = shell_word(written.to_str()?);
            format!("--workspace {word} shows that directory, at /workspace")
        }
        Advice::Flags => {
            let file = directory.join(name);
            let file = file.to_str().filter(|file| can_be_mounted(file, Access::Read))?;
            let plain = name.trim_start_matches("./");
            let mount = shell_word(&format!("{file}:/workspace/{plain}"));
            format!("--mount {mount} shows it read-only")
        }
    };
    Some(format!("{name} is {place} on the host and not inside; {way}"))
}

/// A hint for a module or file that may be next to the script: only the script itself is inside.
pub(super) fn sibling(line: &str, asked: &Asked) -> Option<String> {
    let own = asked.script.as_deref()?.file_name()?;
    let is_sibling = if super::quoted_after(line, "No module named ").is_some() {
        true
    } else if let Some(module) = super::quoted_after(line, "Cannot find module ") {
        module.starts_with("./") || module.starts_with(CODE)
    } else {
        let paths = line.split(['\'', '"', ' ']).filter_map(|word| word.strip_prefix(CODE));
        let mut names = paths.map(|path| path.trim_end_matches(':'));
        super::is_missing(line) && names.any(|name| *name != *own && is_plain_relative(name))
    };
    if !is_sibling {
        return None;
    }
    let way = match asked.advice {
        Advice::Flags => format!("`{}` shows its directory too", as_command(asked)?),
        Advice::Clauses => "filesystem.workspace of the policy can show its directory, and then \
                            the script is run as a command, after --"
            .to_owned(),
    };
    Some(format!("only the script itself was taken inside; {way}"))
}

/// The script as a command, with its own directory or the working directory as the workspace.
fn as_command(asked: &Asked) -> Option<String> {
    let script = asked.script.as_deref()?;
    let interpreter = match asked.language? {
        Language::Python => "python3",
        Language::Bash => "bash",
        Language::JavaScript => "node",
    };
    let (directory, script) = match script.to_str().filter(|text| is_plain_relative(text)) {
        Some(relative) if can_be_workspace(&asked.here) => (".", relative),
        _ => (script.parent()?.to_str()?, script.file_name()?.to_str()?),
    };
    let directory = if directory.is_empty() { "." } else { directory };
    can_be_workspace(&asked.here.join(directory)).then(|| {
        let (directory, script) = (shell_word(directory), shell_word(script));
        format!("stockade run --workspace {directory} -- {interpreter} {script}")
    })
}

/// Whether a policy may show the directory as a workspace; never for a whole home directory.
fn can_be_workspace(directory: &Path) -> bool {
    let text = "filesystem: { workspace: { host: ., mode: overlay } }";
    Policy::parse_str("a hint", text, directory).is_ok()
}

/// Relative paths in a message: in the workspace, quoted, or directly before the error text.
fn relative_paths(line: &str) -> Vec<&str> {
    let (is_missing, is_module) = (super::is_missing(line), line.contains("Cannot find module "));
    let mut words = Vec::new();
    if is_missing || is_module {
        let paths = super::absolute_paths(line).into_iter();
        words.extend(paths.filter_map(|path| path.strip_prefix(WORKSPACE)));
    }
    if is_missing {
        let quoted = |quote: char| line.split(quote).skip(1).step_by(2);
        words.extend(quoted('\'').chain(quoted('"')));
    }
    if is_missing && words.is_empty() {
        let lower = line.to_ascii_lowercase();
        let end = lower.find(": no such file");
        let named = end.and_then(|end| line[..end].rsplit(": ").next());
        words.extend(named.map(|named| named.trim_start_matches("cannot open ")));
    }
    words.retain(|word| is_plain_relative(word));
    words
}

/// Whether a text is a relative path without `..`.
fn is_plain_relative(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    let is_name = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    text.len() <= 200
        && text.chars().all(is_harmless)
        && Path::new(text).file_name().is_some()
        && parts.all(is_name)
}
