//! The parts of the command, as a CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::program::cargo;

/// Every package that the command `stockade` contains, with its version and license.
pub(super) fn parts(root: &Path, version: &str) -> Result<Value> {
    let mut metadata = cargo(root);
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = metadata.output().context("cannot start cargo metadata")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {}", stderr.trim());
    document(&serde_json::from_slice(&output.stdout)?, version)
}

fn document(metadata: &Value, version: &str) -> Result<Value> {
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves no packages")?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let first = packages.iter().find(|(_, package)| package["name"] == "stockade");
    let (first, _) = first.context("there is no package stockade")?;
    let mut left = vec![*first];
    let mut seen = BTreeSet::new();
    while let Some(id) = left.pop() {
        if seen.insert(id) {
            left.extend(nodes.get(id).into_iter().flat_map(|node| contained(node)));
        }
    }
    let components: Vec<Value> = seen
        .iter()
        .filter(|id| *id != first)
        .filter_map(|id| packages.get(id))
        .map(|package| component(package))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "stockade", "version": version } },
        "components": components,
    }))
}

/// The dependencies that end up in the binary: not those of tests.
fn contained(node: &Value) -> impl Iterator<Item = &str> {
    let dependencies = node["deps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_contained = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        kinds.iter().any(|kind| kind["kind"] != "dev")
    };
    dependencies.iter().filter(is_contained).filter_map(|dependency| dependency["pkg"].as_str())
}

fn component(package: &Value) -> Value {
    let (name, version) = (package["name"].as_str(), package["version"].as_str());
    let (name, version) = (name.unwrap_or_default(), version.unwrap_or_default());
    let mut component = json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
    });
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{ "expression": license }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_the_command_needs_without_what_tests_need() {
        let of =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT" });
        let needs =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [of("stockade"), of("a"), of("b"), of("tested"), of("apart")],
            "resolve": { "nodes": [
                { "id": "stockade", "deps": [needs("a", Value::Null), needs("tested", json!("dev"))] },
                { "id": "a", "deps": [needs("b", json!("build"))] },
                { "id": "b", "deps": [] },
            ] },
        });
        let document = document(&metadata, "0.1.0").unwrap();
        let names: Vec<_> =
            document["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(document["components"][0]["purl"], "pkg:cargo/a@1.0.0");
    }
}
