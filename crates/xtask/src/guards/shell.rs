//! Every shell script at least parses.

use std::process::Command;

use anyhow::Result;

use super::Finding;
use crate::program::finish;
use crate::tree::Tree;

/// Parses every file whose first line names a shell.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let Some(text) = tree.text(file)? else { continue };
        if !is_shell(&text) {
            continue;
        }
        let mut bash = Command::new("bash");
        bash.current_dir(tree.root()).arg("-n").arg(tree.root().join(file));
        let parsed = finish(bash)?;
        if !parsed.success {
            findings.push(Finding {
                file: file.to_owned(),
                line: line_named_in(&parsed.output),
                what: format!("bash cannot parse it: {}", parsed.output.trim()),
                remedy: "`bash -n` on the file shows the same",
            });
        }
    }
    Ok(findings)
}

fn is_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let interpreter = first.strip_prefix("#!").unwrap_or_default();
    interpreter.split(['/', ' ']).any(|word| matches!(word, "bash" | "sh"))
}

/// The line number in bash's `…: line 7: …`, or 1.
fn line_named_in(message: &str) -> usize {
    message
        .split_once(": line ")
        .and_then(|(_, rest)| rest.split(':').next()?.trim().parse().ok())
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_script_is_recognised_by_its_first_line() {
        assert!(is_shell("#!/usr/bin/env bash\n") && is_shell("#!/bin/sh -e\n"));
        assert!(!is_shell("#!/usr/bin/env python3\n") && !is_shell("echo bash\n"));
    }

    #[test]
    fn line_is_read_from_the_message() {
        assert_eq!(line_named_in("x: line 7: syntax error"), 7);
        assert_eq!(line_named_in("something else"), 1);
    }
}
