//! The documentation: rustdoc without warnings, and no broken link between Markdown files.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::program::{cargo, finish};
use crate::suite::Outcome;
use crate::tree::Tree;

/// The page of promises, each with its test.
const SPECIFICATION: &str = "SPECIFICATION.md";

/// Builds the API documentation, follows every relative link, and checks that every test named in
/// the specification exists.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    let tree = Tree::open(root)?;
    let mut broken = broken_links(&tree)?;
    broken.extend(missing_tests(&tree)?);
    if !broken.is_empty() {
        return Ok(Outcome::failed(broken.join("\n")));
    }
    let mut doc = cargo(root);
    doc.args(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let finished = finish(doc)?;
    let pages = tree.files().filter(|file| file.ends_with(".md")).count();
    Ok(match finished.success {
        true => Outcome::passed(format!("rustdoc, and the links of {pages} pages")),
        false => Outcome::failed(format!("cargo doc fails\n{}", finished.output)),
    })
}

fn broken_links(tree: &Tree) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for page in tree.files().filter(|file| file.ends_with(".md")) {
        for (line, link) in links(&tree.text(page)?.unwrap_or_default()) {
            let target = resolve(page, link);
            if !target.as_ref().is_some_and(|path| tree.root().join(path).exists()) {
                broken.push(format!("{page}:{line}: the link {link} leads nowhere"));
            }
        }
    }
    Ok(broken)
}

/// Tests that the specification names and that no source in Rust or Python defines.
fn missing_tests(tree: &Tree) -> Result<Vec<String>> {
    let mut known = BTreeSet::new();
    let python = tree.files().filter(|file| file.ends_with(".py"));
    for file in tree.rust_files().chain(python) {
        let text = tree.text(file)?.unwrap_or_default();
        known.extend(functions(&text).map(str::to_owned));
    }
    let page = tree.text(SPECIFICATION)?.unwrap_or_default();
    let missing = named_tests(&page).into_iter().filter(|(_, test)| !known.contains(*test));
    let message = |(line, test)| format!("{SPECIFICATION}:{line}: there is no test {test}");
    Ok(missing.map(message).collect())
}

fn functions(source: &str) -> impl Iterator<Item = &str> {
    let starts = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "))
    });
    starts.map(|rest| rest.split(['(', '<']).next().unwrap_or_default())
}

/// The names in the last column of the tables, and their lines.
fn named_tests(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
            continue;
        };
        let column = row.rsplit('|').next().unwrap_or_default();
        found.extend(column.split('`').skip(1).step_by(2).map(|name| (index + 1, name)));
    }
    found
}

/// The relative link targets of a page, without anchors, and their lines.
fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in page.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        for (start, _) in line.match_indices("](") {
            let rest = &line[start + 2..];
            let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push((index + 1, target));
            }
        }
    }
    found
}

/// The path that a link leads to, or `None` if it leaves the project.
fn resolve(page: &str, link: &str) -> Option<PathBuf> {
    let mut path = Path::new(page).parent()?.to_path_buf();
    for component in Path::new(link).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_are_found_outside_code() {
        let page =
            "[a](x.md#top) [b](https://example.org) [c](#here)\n```\n[d](y.md)\n```\n![e](z.png)";
        assert_eq!(links(page), [(1, "x.md"), (5, "z.png")]);
    }

    #[test]
    fn tests_are_named_in_the_last_column() {
        let page = "# `x`\n| promise | test |\n|---|---|\n| `a` holds | `b_c`, `d` |\n";
        assert_eq!(named_tests(page), [(4, "b_c"), (4, "d")]);
        let source = "    fn b_c() {\n  async fn e()\npub fn no()\nfn d<T>(x: T)\ndef f() -> None:";
        assert_eq!(functions(source).collect::<Vec<_>>(), ["b_c", "e", "d", "f"]);
    }

    #[test]
    fn link_is_resolved_from_its_page_and_stays_inside() {
        assert_eq!(resolve("docs/a.md", "../README.md"), Some(PathBuf::from("README.md")));
        assert_eq!(resolve("docs/a.md", "./b/c.md"), Some(PathBuf::from("docs/b/c.md")));
        assert_eq!(resolve("a.md", "../b.md"), None);
        assert_eq!(resolve("a.md", "/etc/passwd"), None);
    }
}
