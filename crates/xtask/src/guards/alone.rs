//! The project is self-contained: no file names a folder of its authors' machines, and only lock
//! files name a package registry, so that mirrors and offline machines work.

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

/// Checks every text file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if let Some(text) = tree.text(file)? {
            findings.extend(check_text(file, &text));
        }
    }
    Ok(findings)
}

fn check_text(file: &str, text: &str) -> Vec<Finding> {
    let hosts = if file.ends_with(".lock") { Vec::new() } else { registry_hosts() };
    let places = foreign_places();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut found = |what, remedy| {
            findings.push(Finding { file: file.to_owned(), line: index + 1, what, remedy });
        };
        if let Some(place) = places.iter().find(|place| names_place(line, place)) {
            let what = format!("names {place}, a folder outside the project");
            found(what, "describe it in the project's own words, or use a path inside it");
        }
        if let Some(host) = hosts.iter().find(|host| line.contains(host.as_str())) {
            let what = format!("names the registry {host}");
            found(what, "let the package client use its own configuration");
        }
    }
    findings
}

/// Folders next to the project on its authors' machines. Written in pieces, because this file is
/// checked too.
fn foreign_places() -> [String; 3] {
    [["..", "/shared"].concat(), ["/", "work/"].concat(), [".", "library/"].concat()]
}

/// Whether a line names a place as a complete path, not as the middle of a longer one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '~' | '}' | '.'))
    })
}

fn registry_hosts() -> Vec<String> {
    [
        ("crates", ".io"),
        ("static.rust-lang", ".org"),
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("npmjs", "."),
        ("deb.debian", ".org"),
        ("archive.ubuntu", ".com"),
        ("proxy.golang", ".org"),
        ("hub.docker", ".com"),
        ("registry-1", ".docker"),
        ("ghcr", ".io"),
        ("quay", ".io"),
    ]
    .map(|(name, end)| [name, end].concat())
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> usize {
        check_text(file, text).len()
    }

    #[test]
    fn foreign_folder_is_found_in_any_text() {
        let [sibling, absolute, library] = foreign_places();
        assert_eq!(found("docs/a.md", &format!("fine\nsee {sibling}/PLAN.md")), 1);
        assert_eq!(found("a.rs", &format!("\"{absolute}x\"")), 1);
        assert_eq!(found("a.yaml", &format!("path: {library}x")), 1);
        assert_eq!(check_text("a.md", &format!("\n\n{absolute}"))[0].line, 3);
    }

    #[test]
    fn longer_path_that_contains_the_folder_is_accepted() {
        let [_, absolute, _] = foreign_places();
        assert_eq!(found("a.md", &format!("/home/me{absolute} ~{absolute} $HOME{absolute}")), 0);
    }

    #[test]
    fn registry_is_refused_except_in_lock_files() {
        for host in registry_hosts() {
            let line = format!("curl https://{host}/x");
            for file in ["test", ".ci/run", "deny.toml", "docs/a.md", "policies/web.yaml", "a.rs"] {
                assert_eq!(found(file, &line), 1, "{file} {host}");
            }
            assert_eq!(found("Cargo.lock", &line), 0, "{host}");
        }
    }
}
