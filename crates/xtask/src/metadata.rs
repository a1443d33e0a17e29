//! The packages of a workspace, from `cargo metadata`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One package with its direct dependencies.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The manifest's path, relative to the root.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// The names of its executables.
    pub(crate) executables: Vec<String>,
}

/// One entry of a dependency table.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: DependencyKind,
}

/// The table that lists a dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    Normal,
    Build,
    Development,
}

/// The packages of the workspace whose root manifest is in `folder`, without resolving
/// dependencies.
pub(crate) fn packages(folder: &Path) -> Result<Vec<Package>> {
    let mut cargo = crate::program::cargo(folder);
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = cargo.output().context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    list(&metadata, "packages")?.iter().map(|package| read_package(package, folder)).collect()
}

fn read_package(package: &Value, folder: &Path) -> Result<Package> {
    let path = Path::new(text(package, "manifest_path")?);
    let relative = path.strip_prefix(folder.canonicalize()?).unwrap_or(path);
    let executables = list(package, "targets")?
        .iter()
        .filter(|target| target["kind"][0] == "bin")
        .map(|target| text(target, "name").map(str::to_owned))
        .collect::<Result<_>>()?;
    let dependencies =
        list(package, "dependencies")?.iter().map(read_dependency).collect::<Result<_>>()?;
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        manifest: relative.display().to_string(),
        dependencies,
        executables,
    })
}

fn read_dependency(dependency: &Value) -> Result<Dependency> {
    let kind = match &dependency["kind"] {
        Value::Null => DependencyKind::Normal,
        kind if kind == "build" => DependencyKind::Build,
        kind if kind == "dev" => DependencyKind::Development,
        other => bail!("cargo metadata names an unknown kind of dependency: {other}"),
    };
    Ok(Dependency { name: text(dependency, "name")?.to_owned(), kind })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no text {key}"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list {key}"))
}
