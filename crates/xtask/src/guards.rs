//! Project rules that the compiler does not check: each guard reads a tree and lists the
//! violations.

mod alone;
mod features;
mod prints;
mod rows;
mod shell;
mod sizes;
mod tokens;
mod unsafe_code;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::suite::Outcome;
use crate::tree::Tree;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { file, line, what, remedy } = self;
        write!(formatter, "{file}:{line}: {what}\n    remedy: {remedy}")
    }
}

/// A guard: returns the violations in a tree.
pub(crate) type Guard = fn(&Tree) -> Result<Vec<Finding>>;

/// Every guard with its name.
pub(crate) const GUARDS: [(&str, Guard); 8] = [
    ("rows", rows::check),
    ("unsafe", unsafe_code::check),
    ("prints", prints::check),
    ("alone", alone::check),
    ("sizes", sizes::check),
    ("shell", shell::check),
    ("features", features::check),
    ("words", words::check),
];

pub(crate) fn run_rows(root: &Path) -> Result<Outcome> {
    run(root, rows::check)
}

pub(crate) fn run_unsafe(root: &Path) -> Result<Outcome> {
    run(root, unsafe_code::check)
}

pub(crate) fn run_prints(root: &Path) -> Result<Outcome> {
    run(root, prints::check)
}

pub(crate) fn run_alone(root: &Path) -> Result<Outcome> {
    run(root, alone::check)
}

pub(crate) fn run_sizes(root: &Path) -> Result<Outcome> {
    run(root, sizes::check)
}

pub(crate) fn run_features(root: &Path) -> Result<Outcome> {
    run(root, features::check)
}

pub(crate) fn run_words(root: &Path) -> Result<Outcome> {
    run(root, words::check)
}

pub(crate) fn run_shell(root: &Path) -> Result<Outcome> {
    run(root, shell::check)
}

fn run(root: &Path, guard: Guard) -> Result<Outcome> {
    let tree = Tree::open(root)?;
    let findings = guard(&tree)?;
    if findings.is_empty() {
        return Ok(Outcome::passed(format!("{} files", tree.files().count())));
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Ok(Outcome::failed(lines.join("\n")))
}
