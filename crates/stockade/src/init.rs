//! `stockade init`: three questions, and a commented policy for this directory.

mod questions;
mod text;

use std::io::{IsTerminal, stderr, stdin};
use std::path::{Path, PathBuf};

use serde_json::json;
use stockade_policy::Policy;

use crate::Problem;
use crate::args::{FirstPolicyArgs, WorkspaceMode};
use crate::policy;
use crate::render::{self, Output};

use text::Written;

pub(crate) fn run(args: FirstPolicyArgs, output: Output) -> anyhow::Result<u8> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).map_err(|error| {
        Problem::new(format!("cannot read the current directory: {error}"), "change to another one")
    })?;
    let is_asked = !args.yes && stdin().is_terminal() && stderr().is_terminal();
    let answers = if is_asked { questions::ask(args, &mut stdin().lock())? } else { args };
    let mode = answers.workspace.unwrap_or(WorkspaceMode::Overlay);
    let file = place(&answers, mode, &here)?;
    let base = parent(&file, &here);
    let written = text::policy(&answers, mode, &here, &base)?;
    check(&written, &base)?;
    policy::write(&file, &written.text, answers.force)?;
    let name = shell_word(&file);
    let command = format!("stockade run --policy {name} -- COMMAND");
    match output {
        Output::Json => {
            render::json(&json!({ "written": file.display().to_string(), "command": command }))?;
        }
        Output::Text => {
            render::talk(&format!("wrote {}; read it, then use it with:", file.display()));
            render::text(&format!("{command}\n"))?;
        }
    }
    Ok(0)
}

/// The file to write. A program that could change its own policy is refused by `run`, so a policy
/// with a writable workspace goes elsewhere.
fn place(args: &FirstPolicyArgs, mode: WorkspaceMode, here: &Path) -> Result<PathBuf, Problem> {
    let outside = here.file_name().map(|name| {
        let mut name = name.to_owned();
        name.push(".stockade.yaml");
        here.with_file_name(name)
    });
    let file = match (&args.output, mode, outside) {
        (Some(file), ..) => file.clone(),
        (None, WorkspaceMode::Write, Some(outside)) => outside,
        (None, ..) => PathBuf::from("stockade.yaml"),
    };
    if mode == WorkspaceMode::Write && parent(&file, here).starts_with(here) {
        let message = format!(
            "{} would be in the directory that code may change: it could change its own policy",
            file.display()
        );
        return Err(Problem::new(message, "pass --output with a file outside this directory"));
    }
    Ok(file)
}

/// The directory of a file, without links where it exists.
fn parent(file: &Path, here: &Path) -> PathBuf {
    let parent = here.join(file).parent().unwrap_or(here).to_path_buf();
    parent.canonicalize().unwrap_or(parent)
}

/// Refuses answers that make no valid policy, before anything is written. The error names the flag,
/// or quotes the line if an answer made it.
fn check(Written { text, flags }: &Written, base: &Path) -> Result<(), Problem> {
    let errors = match Policy::parse_str("stockade.yaml", text, base) {
        Ok(_) => return Ok(()),
        Err(errors) => errors,
    };
    let Some(first) = errors.diagnostics().first() else { return Ok(()) };
    let line = text.lines().nth(first.line.saturating_sub(1)).unwrap_or_default().trim();
    let flag = flags.iter().find(|(number, _)| *number == first.line);
    let behind = flag.map_or_else(|| format!("`{line}`"), |(_, flag)| flag.clone());
    let remedy = match first.remedy.contains("`filesystem.workspace`") {
        true => "choose what code may do with this directory with --workspace MODE",
        false => &first.remedy,
    };
    Err(Problem::new(format!("{behind}: {}", first.message), remedy))
}

/// A path as one word of a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_of_a_writable_directory_is_outside_it() {
        let here = Path::new("/srv/project");
        let args = FirstPolicyArgs::default();
        let file = place(&args, WorkspaceMode::Write, here).unwrap();
        assert_eq!(file, Path::new("/srv/project.stockade.yaml"));
        let inside = FirstPolicyArgs { output: Some("sub/p.yaml".into()), ..Default::default() };
        assert!(place(&inside, WorkspaceMode::Write, here).is_err());
        assert_eq!(place(&inside, WorkspaceMode::Read, here).unwrap(), Path::new("sub/p.yaml"));
    }

    #[test]
    fn path_with_a_blank_is_quoted_for_the_shell() {
        assert_eq!(shell_word(Path::new("a/b.yaml")), "a/b.yaml");
        assert_eq!(shell_word(Path::new("it's a.yaml")), r"'it'\''s a.yaml'");
    }
}
