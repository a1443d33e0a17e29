//! Rows: a crate depends only on crates of strictly lower rows.

use anyhow::Result;

use super::Finding;
use crate::metadata::{DependencyKind, Package, packages};
use crate::tree::Tree;

/// The crates by row, lowest first, including planned ones.
const ROWS: [&[&str]; 9] = [
    &["stockade-text"],
    &["stockade-policy", "stockade-wire", "stockade-sys", "stockade-splice", "stockade-contexts"],
    &[
        "stockade-provider",
        "stockade-seccomp",
        "stockade-watchdog",
        "stockade-launcher",
        "stockade-record",
        "stockade-api",
        "stockade-archive",
        "stockade-bootimage",
    ],
    &[
        "stockade-egress",
        "stockade-conformance",
        "stockade-internet",
        "stockade-testing",
        "stockade-carrier",
        "stockade-guest",
        "stockade-tools",
        "stockade-cgroup",
        "stockade-hostfiles",
        "stockade-image",
        "stockade-interpreters",
        "stockade-store",
    ],
    &[
        "stockade-engine",
        "stockade-native",
        "stockade-docker",
        "stockade-wasm",
        "stockade-qemu",
        "stockade-aca",
        "stockade-azure-double",
        "stockade-kube",
    ],
    &["stockade-hyperlight"],
    &["stockade-backends", "stockade-supervisor"],
    &["stockade", "stockade-server"],
    &["stockade-python"],
];

/// Packages outside the rows: they may use every crate and no crate may use them.
const OUTSIDE_ROWS: [&str; 2] = ["xtask", "stockade-fuzz"];

/// The crates that tests of every row may use.
const TESTS_FOR_ALL: [&str; 4] =
    ["stockade-azure-double", "stockade-conformance", "stockade-internet", "stockade-testing"];

/// Dependencies that a crate must never have, in addition to its row's rule.
const NEVER: [(&str, &[&str]); 7] = [
    ("stockade-text", &["tokio", "tracing", "log"]),
    ("stockade-policy", &["tokio", "tracing", "log"]),
    ("stockade-wire", &["stockade-policy"]),
    ("stockade-sys", &["stockade-policy", "tokio"]),
    ("stockade-launcher", &["stockade-policy", "tokio"]),
    ("stockade-guest", &["stockade-policy", "tokio"]),
    ("stockade-engine", &["axum", "clap", "hyper"]),
];

const REMEDY: &str = "move the shared part to a lower row, or pass it in; CONTRIBUTING.md, Rows";

/// Checks every package of the workspace against the rows.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in packages(tree.root())? {
        let manifest = tree.text(&package.manifest)?.unwrap_or_default();
        for (dependency, what) in breaches(&package) {
            let line = line_of(&manifest, &dependency);
            findings.push(Finding { file: package.manifest.clone(), line, what, remedy: REMEDY });
        }
    }
    Ok(findings)
}

/// The violations of a package, each with its dependency.
fn breaches(package: &Package) -> Vec<(String, String)> {
    let name = &package.name;
    if OUTSIDE_ROWS.contains(&name.as_str()) {
        return Vec::new();
    }
    let Some(row) = row_of(name) else {
        let what = format!("{name} has no row; every crate of the workspace needs one");
        return vec![("name".to_owned(), what)];
    };
    let mut found = Vec::new();
    for dependency in &package.dependencies {
        let other = &dependency.name;
        let in_tests = dependency.kind == DependencyKind::Development;
        if never(name, other) {
            found.push((other.clone(), format!("{name} must not depend on {other}")));
        } else if OUTSIDE_ROWS.contains(&other.as_str()) {
            found.push((other.clone(), format!("{name} depends on {other}, which has no row")));
        } else if let Some(below) = row_of(other)
            && below >= row
            && !(in_tests && TESTS_FOR_ALL.contains(&other.as_str()))
        {
            let what = format!("{name} (row {row}) depends on {other} (row {below})");
            found.push((other.clone(), what));
        }
    }
    found
}

fn row_of(name: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&name))
}

fn never(name: &str, other: &str) -> bool {
    NEVER.iter().any(|(crate_name, list)| *crate_name == name && list.contains(&other))
}

/// The first line of a manifest that starts with a key, or line 1.
fn line_of(manifest: &str, key: &str) -> usize {
    let starts =
        |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '=', '.']));
    manifest.lines().position(starts).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn breach(name: &str, kind: DependencyKind, other: &str) -> Option<String> {
        let package = Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".to_owned(),
            dependencies: vec![Dependency { name: other.to_owned(), kind }],
            executables: Vec::new(),
        };
        breaches(&package).pop().map(|(_, what)| what)
    }

    #[test]
    fn lower_row_is_accepted_and_same_or_higher_is_refused() {
        use DependencyKind::{Build, Normal};
        assert_eq!(breach("stockade-guest", Normal, "stockade-wire"), None);
        let higher = breach("stockade-wire", Normal, "stockade-guest").unwrap();
        assert_eq!(higher, "stockade-wire (row 1) depends on stockade-guest (row 3)");
        assert!(breach("stockade-native", Build, "stockade-docker").is_some());
    }

    #[test]
    fn tests_follow_the_rows_except_for_the_test_crates() {
        use DependencyKind::{Development, Normal};
        assert!(breach("stockade-sys", Development, "stockade-wire").is_some());
        assert_eq!(breach("stockade-provider", Development, "stockade-conformance"), None);
        assert_eq!(breach("stockade-policy", Development, "stockade-internet"), None);
        assert_eq!(breach("stockade-launcher", Development, "stockade-testing"), None);
        assert!(breach("stockade-provider", Normal, "stockade-conformance").is_some());
    }

    #[test]
    fn crate_without_a_row_is_named() {
        let what = breach("stockade-extra", DependencyKind::Normal, "serde").unwrap();
        assert!(what.starts_with("stockade-extra has no row"));
    }

    #[test]
    fn no_crate_depends_on_a_package_outside_the_rows() {
        assert!(breach("stockade", DependencyKind::Normal, "xtask").is_some());
        assert_eq!(breach("xtask", DependencyKind::Normal, "stockade-policy"), None);
    }

    #[test]
    fn forbidden_libraries_are_refused_where_they_do_not_belong() {
        let what = breach("stockade-policy", DependencyKind::Development, "tokio").unwrap();
        assert_eq!(what, "stockade-policy must not depend on tokio");
        assert_eq!(breach("stockade-egress", DependencyKind::Normal, "tokio"), None);
    }

    #[test]
    fn line_is_that_of_the_dependency() {
        let manifest = "[dependencies]\nserde_json.workspace = true\nserde.workspace = true\n";
        assert_eq!(line_of(manifest, "serde"), 3);
        assert_eq!(line_of(manifest, "tokio"), 1);
    }
}
