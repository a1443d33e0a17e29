//! Libraries do not print: only the command line's `render` module does.

use anyhow::Result;

use super::Finding;
use super::tokens::{lifted_by, tokens};
use crate::tree::Tree;

const MACROS: [&str; 5] = ["println", "print", "eprintln", "eprint", "dbg"];
const LINTS: [&str; 3] = ["print_stdout", "print_stderr", "dbg_macro"];
const REMEDY: &str = "return the text; only crates/stockade/src/render prints";

/// Checks the sources of every crate that may not print.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.rust_files().filter(|file| is_silent(file)) {
        findings.extend(check_source(file, &tree.text(file)?.unwrap_or_default()));
    }
    Ok(findings)
}

/// Whether a file must not print: crate sources, except build scripts, tests and the modules named
/// here.
fn is_silent(file: &str) -> bool {
    let Some((name, inside)) =
        file.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
    else {
        return false;
    };
    match name {
        "xtask" => false,
        "stockade" => !inside.starts_with("render"),
        "stockade-guest" => inside != "main.rs",
        _ => true,
    }
}

fn check_source(file: &str, source: &str) -> Vec<Finding> {
    // The unsafe guard reports a source that does not parse.
    let tokens = tokens(source).unwrap_or_default();
    let mut findings = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let word = token.text.as_str();
        let called = tokens.get(index + 1).is_some_and(|next| next.text == "!");
        let what = if MACROS.contains(&word) && called {
            format!("{word}! in a library")
        } else if LINTS.contains(&word) && lifted_by(&tokens, index).is_some() {
            format!("the lint {word} is disabled in a library")
        } else {
            continue;
        };
        findings.push(Finding { file: file.to_owned(), line: token.line, what, remedy: REMEDY });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(usize, String)> {
        check_source("a.rs", source).into_iter().map(|it| (it.line, it.what)).collect()
    }

    #[test]
    fn every_printing_macro_is_found_with_its_line() {
        for word in MACROS {
            let expected = vec![(2, format!("{word}! in a library"))];
            assert_eq!(found(&format!("fn f() {{\n    std::{word}!(\"x\");\n}}")), expected);
        }
    }

    #[test]
    fn disabling_the_lint_is_found() {
        let expected = vec![(1, "the lint print_stdout is disabled in a library".to_owned())];
        assert_eq!(found("#![allow(clippy::print_stdout, reason = \"x\")]"), expected);
    }

    #[test]
    fn identifiers_comments_and_strings_are_not_calls() {
        assert_eq!(found("// println!(1)\nfn print() { print(); let dbg = \"dbg!\"; }"), []);
    }

    #[test]
    fn only_these_files_may_print() {
        let may = [
            "crates/stockade/src/render.rs",
            "crates/stockade/src/render/table.rs",
            "crates/stockade-guest/src/main.rs",
            "crates/stockade-carrier/build.rs",
            "crates/xtask/src/progress.rs",
            "crates/stockade-sys/tests/real.rs",
        ];
        assert_eq!(may.map(is_silent), [false; 6]);
        let may_not = [
            "crates/stockade/src/main.rs",
            "crates/stockade-guest/src/lib.rs",
            "crates/stockade-policy/src/render.rs",
        ];
        assert_eq!(may_not.map(is_silent), [true; 3]);
    }
}
