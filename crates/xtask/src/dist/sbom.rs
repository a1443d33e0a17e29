//! The parts of a released file, as a CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use toml::Table;

use crate::program::cargo;

/// A released file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    Command,
    Wheel,
}

/// The executable that both contain as bytes. It is built apart, so no dependency leads to it.
const GUEST: &str = "stockade-guest";
/// The features of both.
const FEATURES: &str = "stockade/hyperlight,stockade-python/hyperlight";
/// What the component with CPython, which both contain, is built with, and its digest.
const COMPONENT_TOOLS: &str = "components/python/requirements.txt";
const COMPONENT_DIGEST: &str = "components/python/component.sha256";

impl Product {
    fn package(self) -> &'static str {
        match self {
            Product::Command => "stockade",
            Product::Wheel => "stockade-python",
        }
    }
}

/// Every package that a product contains, with its version, license, digest and dependencies.
pub(super) fn parts(
    root: &Path,
    product: Product,
    architecture: &str,
    version: &str,
) -> Result<Value> {
    let mut metadata = cargo(root);
    metadata.args(["metadata", "--locked", "--format-version", "1", "--features", FEATURES]);
    metadata.args(["--filter-platform", &format!("{architecture}-unknown-linux-gnu")]);
    let output = metadata.output().context("cannot start cargo metadata")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {}", stderr.trim());
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
    };
    let digests = digests(&read("Cargo.lock")?)?;
    let mut document = document(&serde_json::from_slice(&output.stdout)?, product, &digests)?;
    document["metadata"]["component"]["version"] = version.into();
    let own = of_component(&read(COMPONENT_TOOLS)?, read(COMPONENT_DIGEST)?.trim())?;
    document["components"].as_array_mut().context("a list was just made")?.extend(own);
    Ok(document)
}

/// The SHA-256 digests of registry packages, by name and version.
type Digests = BTreeMap<(String, String), String>;

fn digests(lock: &str) -> Result<Digests> {
    let lock: Table = lock.parse().context("Cargo.lock is not TOML")?;
    let packages = lock["package"].as_array().context("Cargo.lock lists no packages")?;
    let text = |package: &toml::Value, key: &str| package.get(key)?.as_str().map(str::to_owned);
    let digest = |package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(digest).collect())
}

fn document(metadata: &Value, product: Product, digests: &Digests) -> Result<Value> {
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves no packages")?;
    let nodes: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let id = |name: &str| {
        let found = packages.iter().find(|(_, package)| package["name"] == name);
        found.map(|(id, _)| *id).with_context(|| format!("there is no package {name}"))
    };
    let (first, guest) = (id(product.package())?, id(GUEST)?);
    let mut left = vec![first, guest];
    let mut seen = BTreeSet::new();
    while let Some(id) = left.pop() {
        if seen.insert(id) {
            left.extend(nodes.get(id).into_iter().flat_map(|node| contained(node)));
        }
    }
    let component = |id: &&str| Some(component(packages.get(id)?, digests));
    let components: Vec<Value> =
        seen.iter().filter(|id| **id != first).filter_map(component).collect();
    let of = |id: &&str| packages.get(id).map(|package| reference(package));
    let dependencies = |id: &str| {
        let needed = nodes.get(id).into_iter().flat_map(|node| contained(node));
        let embedded = (id == first).then_some(guest);
        needed.chain(embedded).filter_map(|id| of(&id)).collect::<BTreeSet<_>>()
    };
    let dependencies: Vec<Value> = seen
        .iter()
        .filter_map(|id| Some(json!({ "ref": of(id)?, "dependsOn": dependencies(id) })))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": of(&first),
            "name": product.package(),
        } },
        "components": components,
        "dependencies": dependencies,
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

fn name_and_version(package: &Value) -> (&str, &str) {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    (text("name"), text("version"))
}

/// What a package is called in the document: its package URL.
fn reference(package: &Value) -> String {
    let (name, version) = name_and_version(package);
    format!("pkg:cargo/{name}@{version}")
}

fn component(package: &Value, digests: &Digests) -> Value {
    let (name, version) = name_and_version(package);
    let reference = reference(package);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
    });
    if let Some(license) = package["license"].as_str() {
        // Older packages separate licenses with a slash, which is no SPDX expression.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(digest) = digests.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = sha256(digest);
    }
    component
}

/// The component with CPython, and what it was built with.
fn of_component(tools: &str, digest: &str) -> Result<[Value; 2]> {
    let pinned = tools.lines().find_map(|line| line.split_once("=="));
    let (name, version) = pinned.with_context(|| format!("{COMPONENT_TOOLS} pins no package"))?;
    let version = version.trim_end_matches(['\\', ' ']);
    let reference = format!("pkg:pypi/{name}@{version}");
    Ok([
        json!({
            "type": "file",
            "bom-ref": "python-component",
            "name": "component with CPython for the wall wasm",
            "hashes": sha256(digest),
        }),
        json!({
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
        }),
    ])
}

fn sha256(digest: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": digest }])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages of which `stockade` and the guest need some.
    fn metadata() -> Value {
        let of = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let needs =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let names = ["stockade", GUEST, "a", "b", "inside", "tested", "apart"];
        json!({
            "packages": names.map(of),
            "resolve": { "nodes": [
                { "id": "stockade", "deps": [needs("a", Value::Null), needs("tested", json!("dev"))] },
                { "id": "a", "deps": [needs("b", json!("build"))] },
                { "id": "b", "deps": [] },
                { "id": GUEST, "deps": [needs("inside", Value::Null)] },
            ] },
        })
    }

    fn made() -> Value {
        let key = ("a".to_owned(), "1.0.0".to_owned());
        document(&metadata(), Product::Command, &Digests::from([(key, "5eed".to_owned())])).unwrap()
    }

    #[test]
    fn parts_are_what_the_command_and_its_guest_need_without_what_tests_need() {
        let document = made();
        let names: Vec<_> =
            document["components"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
        assert_eq!(names, ["a", "b", "inside", GUEST]);
        let first = &document["components"][0];
        assert_eq!(first["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(first["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(first["hashes"], json!([{ "alg": "SHA-256", "content": "5eed" }]));
        assert_eq!(document["components"][1]["hashes"], Value::Null, "a package of the workspace");
    }

    #[test]
    fn dependencies_name_every_part_and_only_parts() {
        let document = made();
        let needs = |name: &str| {
            let all = document["dependencies"].as_array().unwrap();
            let found = all.iter().find(|it| it["ref"] == format!("pkg:cargo/{name}@1.0.0"));
            found.unwrap()["dependsOn"].clone()
        };
        let expected = json!(["pkg:cargo/a@1.0.0", "pkg:cargo/stockade-guest@1.0.0"]);
        assert_eq!(needs("stockade"), expected);
        assert_eq!(needs("a"), json!(["pkg:cargo/b@1.0.0"]));
        assert_eq!(needs("b"), json!([]));
        assert_eq!(document["metadata"]["component"]["bom-ref"], "pkg:cargo/stockade@1.0.0");
    }

    #[test]
    fn lists_of_this_workspace_have_the_features_of_the_release_and_the_guest() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = |product| {
            let parts = parts(&root, product, std::env::consts::ARCH, "1.2.3").unwrap();
            assert_eq!(parts["metadata"]["component"]["version"], "1.2.3");
            let parts = parts["components"].as_array().unwrap().clone();
            let name = |part: &Value| part["name"].as_str().unwrap().to_owned();
            let of_registry = |part: &&Value| {
                let url = part["purl"].as_str().unwrap_or_default();
                url.starts_with("pkg:cargo/") && !url.contains("/stockade")
            };
            let without: Vec<String> = parts
                .iter()
                .filter(of_registry)
                .filter(|it| it["hashes"].is_null())
                .map(name)
                .collect();
            assert!(without.is_empty(), "without a digest: {without:?}");
            parts.iter().map(name).collect::<BTreeSet<String>>()
        };
        let (command, wheel) = (list(Product::Command), list(Product::Wheel));
        for name in
            ["tokio", "wasmtime", "stockade-hyperlight", GUEST, "dlmalloc", "componentize-py"]
        {
            assert!(command.contains(name) && wheel.contains(name), "{name}");
        }
        assert!(wheel.contains("pyo3") && wheel.contains("stockade") && !command.contains("pyo3"));
        for name in ["proptest", "libtest-mimic", "xtask", "stockade-testing"] {
            assert!(!command.contains(name) && !wheel.contains(name), "{name}");
        }
    }

    #[test]
    fn digests_are_those_of_packages_from_a_registry() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"5eed\"\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        let key = ("a".to_owned(), "1.0.0".to_owned());
        assert_eq!(digests(lock).unwrap(), Digests::from([(key, "5eed".to_owned())]));
        assert!(digests("x").is_err());
    }

    #[test]
    fn component_with_cpython_is_a_part_with_its_digest_and_its_tool() {
        let tools = "# What builds it\ncomponentize-py==0.25.1 \\\n    --hash=sha256:00\n";
        let [file, tool] = of_component(tools, "c0de").unwrap();
        assert_eq!(file["hashes"][0]["content"], "c0de");
        assert_eq!(tool["purl"], "pkg:pypi/componentize-py@0.25.1");
        assert!(of_component("# nothing\n", "c0de").is_err());
    }
}
