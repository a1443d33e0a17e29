//! The files of a release: static binaries, a Debian package, the wheel, their parts and checksums.

mod deb;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sbom::Product;

use crate::component::{self, ComponentOptions};
use crate::program::{cargo, executable, finish, on_path};
use crate::progress;
use crate::suites::python;

/// What to make, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DistOptions {
    pub(crate) profile: String,
    pub(crate) out: PathBuf,
    pub(crate) wheel: bool,
}

impl Default for DistOptions {
    fn default() -> DistOptions {
        DistOptions {
            profile: "dist".to_owned(),
            out: PathBuf::from("target/release-files"),
            wheel: true,
        }
    }
}

/// An architecture, as Rust, Debian and the C compiler of another one name it.
struct Architecture {
    rust: &'static str,
    debian: &'static str,
    linker: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { rust: "x86_64", debian: "amd64", linker: "x86_64-linux-gnu-gcc" },
    Architecture { rust: "aarch64", debian: "arm64", linker: "aarch64-linux-gnu-gcc" },
];

/// Makes the files, and returns their names.
pub(crate) fn make(root: &Path, options: &DistOptions) -> Result<Vec<String>> {
    let out = root.join(&options.out);
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    // Files of an older release would be among the checksums.
    ensure!(fs::read_dir(&out)?.next().is_none(), "{} is not empty: remove it", out.display());
    let version = env!("CARGO_PKG_VERSION");
    let component = component::build(root, &ComponentOptions::python())?;
    for architecture in &ARCHITECTURES {
        if let Some(why) = missing(architecture)? {
            progress::note(&format!("no binary for {}: {why}", architecture.rust));
            continue;
        }
        let built = build(root, architecture, &options.profile, &component)?;
        let name = format!("stockade-{version}-{}-linux", architecture.rust);
        fs::copy(&built, out.join(name)).context("cannot copy the binary")?;
        deb::make(root, &built, architecture.debian, version, &out)?;
    }
    let write_parts = |product, name: String| -> Result<()> {
        let parts = sbom::parts(root, product, std::env::consts::ARCH, version)?;
        let text = serde_json::to_string_pretty(&parts)?;
        fs::write(out.join(&name), text).with_context(|| format!("cannot write {name}"))
    };
    write_parts(Product::Command, format!("stockade-{version}.cdx.json"))?;
    if options.wheel {
        python::wheel(root, &out, &options.profile)?;
        write_parts(Product::Wheel, format!("stockade-{version}-wheel.cdx.json"))?;
    }
    let mut names: Vec<String> = fs::read_dir(&out)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    let mut sums = Command::new("sha256sum");
    sums.current_dir(&out).arg("--").args(&names);
    let sums = finish(sums)?;
    ensure!(sums.success, "sha256sum fails: {}", sums.output);
    fs::write(out.join("SHA256SUMS"), sums.output)?;
    names.push("SHA256SUMS".to_owned());
    Ok(names)
}

/// What is missing to build for an architecture.
fn missing(architecture: &Architecture) -> Result<Option<String>> {
    if architecture.rust == std::env::consts::ARCH {
        return Ok(None);
    }
    if on_path(&[architecture.linker]).is_none() {
        let package = format!("gcc-{}-linux-gnu", architecture.rust.replace('_', "-"));
        return Ok(Some(format!("no {}; apt install {package}", architecture.linker)));
    }
    let mut sysroot = Command::new("rustc");
    sysroot.args(["--print", "sysroot"]);
    let sysroot = finish(sysroot)?.output;
    // The command is linked with glibc, the guest with musl.
    for environment in ["gnu", "musl"] {
        let target = format!("{}-unknown-linux-{environment}", architecture.rust);
        if !Path::new(sysroot.trim()).join("lib/rustlib").join(&target).is_dir() {
            return Ok(Some(format!("no standard library; rustup target add {target}")));
        }
    }
    Ok(None)
}

/// Builds the command, statically linked, and returns its path.
fn build(
    root: &Path,
    architecture: &Architecture,
    profile: &str,
    component: &Path,
) -> Result<PathBuf> {
    let mut build = cargo(root);
    build.args(["build", "--locked", "--package", "stockade", "--bin", "stockade"]);
    build.args(["--features", "hyperlight"]).env(component::EMBEDDED, component);
    build.args(["--profile", profile, "--message-format", "json-render-diagnostics"]);
    if architecture.rust != std::env::consts::ARCH {
        let target = format!("{}-unknown-linux-gnu", architecture.rust);
        let variable = target.to_uppercase().replace('-', "_");
        build.env(format!("CARGO_TARGET_{variable}_LINKER"), architecture.linker);
        build.args(["--target", &target]);
    }
    let built = finish(build)?;
    if !built.success {
        bail!("cargo cannot build for {}: {}", architecture.rust, built.output);
    }
    executable(&built.output, "stockade")
}
