//! `unsafe` is allowed in one crate only, and every crate uses the workspace's lints.

use anyhow::{Context, Result};
use toml::Table;

use super::Finding;
use super::tokens::{lifted_by, tokens};
use crate::tree::Tree;

const ALLOWED: &str = "crates/stockade-sys/";
/// The one file outside: the engine's only function that loads a compiled component is unsafe, and
/// `stockade-sys` does not depend on the engine.
const ALSO_ALLOWED: &str = "crates/stockade-wasm/src/compiled.rs";
const MOVE: &str = "move it behind a safe function of stockade-sys";

/// Checks every Rust source and every manifest.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let is_checked = |file: &&str| !file.starts_with(ALLOWED) && *file != ALSO_ALLOWED;
    for file in tree.rust_files().filter(is_checked) {
        findings.extend(check_source(file, &tree.text(file)?.unwrap_or_default()));
    }
    let manifests =
        tree.files().filter(|file| file.starts_with("crates/") && file.ends_with("/Cargo.toml"));
    for file in manifests {
        findings.extend(check_manifest(file, &tree.text(file)?.unwrap_or_default())?);
    }
    findings.extend(check_root(&tree.text("Cargo.toml")?.unwrap_or_default())?);
    Ok(findings)
}

fn check_source(file: &str, source: &str) -> Vec<Finding> {
    let finding =
        |line, what: String, remedy| Finding { file: file.to_owned(), line, what, remedy };
    let tokens = match tokens(source) {
        Ok(tokens) => tokens,
        Err(error) => {
            let what = format!("cannot be read as Rust: {error}");
            return vec![finding(1, what, "fix the source so that the guards can parse it")];
        }
    };
    let mut findings = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match (token.text.as_str(), lifted_by(&tokens, index)) {
            ("unsafe", _) => {
                findings.push(finding(token.line, "unsafe outside stockade-sys".to_owned(), MOVE));
            }
            ("unsafe_code", Some(word)) => {
                let what = format!("{word}(unsafe_code) outside stockade-sys");
                findings.push(finding(token.line, what, MOVE));
            }
            _ => {}
        }
    }
    findings
}

fn check_manifest(file: &str, manifest: &str) -> Result<Vec<Finding>> {
    let table: Table = manifest.parse().with_context(|| format!("cannot read {file}"))?;
    let inherits = table.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
    if inherits == Some(true) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding {
        file: file.to_owned(),
        line: 1,
        what: "the crate does not use the workspace's lints".to_owned(),
        remedy: "add `[lints]` with `workspace = true`, and nothing else under it",
    }])
}

fn check_root(manifest: &str) -> Result<Vec<Finding>> {
    let table: Table = manifest.parse().context("cannot read Cargo.toml")?;
    let level = table
        .get("workspace")
        .and_then(|workspace| workspace.get("lints")?.get("rust")?.get("unsafe_code")?.as_str());
    if matches!(level, Some("deny" | "forbid")) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding {
        file: "Cargo.toml".to_owned(),
        line: 1,
        what: "the workspace does not deny unsafe_code".to_owned(),
        remedy: "set `unsafe_code = \"deny\"` under `[workspace.lints.rust]`",
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        check_source("a.rs", source).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_form_of_unsafe_is_found() {
        assert_eq!(lines("fn f() {\n    unsafe { g() }\n}"), [2]);
        assert_eq!(lines("unsafe impl Send for A {}\n\nunsafe extern \"C\" {}"), [1, 3]);
        assert_eq!(lines("#[unsafe(no_mangle)]\nfn f() {}"), [1]);
        assert_eq!(lines("macro_rules! m {\n    () => { unsafe {} };\n}"), [2]);
    }

    #[test]
    fn disabling_the_lint_is_found_and_tightening_it_is_accepted() {
        assert_eq!(lines("#![allow(unsafe_code)]"), [1]);
        assert_eq!(lines("\n#[cfg_attr(test, expect(unsafe_code, reason = \"x\"))]\nmod a;"), [2]);
        assert!(lines("#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn unsafe_in_comments_and_strings_is_ignored() {
        let source = "// unsafe\nconst A: &str = \"unsafe { allow(unsafe_code) }\";";
        assert!(lines(source).is_empty());
    }

    #[test]
    fn unreadable_source_is_refused() {
        assert_eq!(check_source("a.rs", "fn f( {").len(), 1);
    }

    #[test]
    fn crate_must_use_the_workspace_lints() {
        assert_eq!(check_manifest("a", "[lints]\nworkspace = true").unwrap(), []);
        assert_eq!(check_manifest("a", "[lints.rust]\nunsafe_code = \"allow\"").unwrap().len(), 1);
        assert_eq!(check_manifest("a", "[package]").unwrap().len(), 1);
    }

    #[test]
    fn workspace_must_deny_unsafe_code() {
        assert_eq!(check_root("[workspace.lints.rust]\nunsafe_code = \"deny\"").unwrap(), []);
        assert_eq!(check_root("[workspace.lints.rust]\nunsafe_code = \"warn\"").unwrap().len(), 1);
    }
}
