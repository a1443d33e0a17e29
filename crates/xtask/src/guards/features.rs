//! Test-only features: those that weaken a wall or make raw calls are in no default, and only test
//! crates enable them.

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Finding;
use crate::tree::Tree;

/// Features that no shipped build has, and the packages that may enable them in a dependency.
const FOR_TESTS: [(&str, &[&str]); 2] =
    [("weaken", &[]), ("probe", &["stockade-conformance", "stockade-internet"])];

const REMEDY: &str = "only the suite `probes` enables it, on cargo's command line";

/// Checks every manifest.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let manifests = tree.files().filter(|file| file.ends_with("Cargo.toml"));
    for file in manifests {
        findings.extend(check_manifest(file, &tree.text(file)?.unwrap_or_default())?);
    }
    Ok(findings)
}

fn check_manifest(file: &str, manifest: &str) -> Result<Vec<Finding>> {
    let table: Table = manifest.parse().with_context(|| format!("cannot read {file}"))?;
    let package = table.get("package").and_then(|it| it.get("name")?.as_str()).unwrap_or_default();
    let default = table.get("features").and_then(|features| features.get("default"));
    let by_default = names(default).filter_map(|feature| {
        let own = feature.rsplit('/').next().unwrap_or(feature);
        is_for_tests(own).then(|| format!("{own} is a default feature of {package}"))
    });
    let mut wrong: Vec<String> = by_default.collect();
    for (dependency, value) in dependencies(&table) {
        for feature in names(value.get("features")) {
            let may = FOR_TESTS.iter().any(|(it, who)| *it == feature && who.contains(&package));
            if is_for_tests(feature) && !may && dependency.starts_with("stockade") {
                wrong.push(format!("{package} enables {feature} of {dependency}"));
            }
        }
    }
    let finding = |what| Finding { file: file.to_owned(), line: 1, what, remedy: REMEDY };
    Ok(wrong.into_iter().map(finding).collect())
}

fn is_for_tests(feature: &str) -> bool {
    FOR_TESTS.iter().any(|(name, _)| *name == feature)
}

fn names(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The dependencies of every dependency table, including those of targets and of the workspace.
fn dependencies(table: &Table) -> Vec<(&String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        match key.ends_with("dependencies") {
            true => found.extend(inner),
            false => found.extend(dependencies(inner)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Vec<String> {
        let findings = check_manifest("a", &format!("[package]\nname = \"a\"\n{manifest}"));
        findings.unwrap().into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn default_and_dependency_that_enable_weaken_are_found() {
        let expected = ["weaken is a default feature of a"];
        assert_eq!(found("[features]\ndefault = [\"weaken\"]\nweaken = []"), expected);
        assert_eq!(found("[features]\ndefault = [\"stockade-native/weaken\"]"), expected);
        let dependency = "stockade-native = { workspace = true, features = [\"weaken\"] }";
        let expected = ["a enables weaken of stockade-native"];
        assert_eq!(found(&format!("[dependencies]\n{dependency}")), expected);
        assert_eq!(found(&format!("[target.x.build-dependencies]\n{dependency}")), expected);
    }

    #[test]
    fn forwarding_the_feature_and_use_by_the_probes_are_accepted() {
        assert!(found("[features]\nweaken = [\"stockade-native/weaken\"]").is_empty());
        let probes = "[package]\nname = \"stockade-conformance\"\n[dependencies]\n\
                      stockade-sys = { features = [\"probe\"] }";
        assert!(check_manifest("a", probes).unwrap().is_empty());
        let other = "[dependencies]\nstockade-sys = { features = [\"probe\"] }";
        assert_eq!(found(other), ["a enables probe of stockade-sys"]);
    }
}
