//! Builds the components of the WebAssembly wall.
//!
//! The build of one version has the same bytes everywhere; their digest is in the tree. So a
//! component in the cache is used if it has this digest, by any builder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cache;
use crate::program::{finish, on_path};
use crate::progress;
use crate::scratch::Scratch;

/// The languages that have a component.
pub(crate) const LANGUAGES: [&str; 1] = ["python"];

/// The folder of the component's sources.
const SOURCES: &str = "components/python";

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComponentOptions {
    pub(crate) language: String,
    /// Builds it even if the cache has it, and writes its digest into the tree.
    pub(crate) is_update: bool,
}

impl ComponentOptions {
    /// CPython, from the cache if it is there.
    pub(crate) fn python() -> ComponentOptions {
        ComponentOptions { language: "python".to_owned(), is_update: false }
    }

    /// Parses the words after `component`.
    pub(crate) fn parse(words: &[&str]) -> Result<ComponentOptions> {
        let (language, is_update) = match words {
            [language] => (language, false),
            [language, "--update"] => (language, true),
            _ => bail!("name a component: {}", LANGUAGES.join(", ")),
        };
        ensure!(
            LANGUAGES.contains(language),
            "there is no component of {language}; there is one of {}",
            LANGUAGES.join(", ")
        );
        Ok(ComponentOptions { language: (*language).to_owned(), is_update })
    }
}

/// The variable that names the component which a released build embeds.
pub(crate) const EMBEDDED: &str = "STOCKADE_COMPONENT";

/// Builds a component, unless the cache has it, and returns its path.
pub(crate) fn build(root: &Path, options: &ComponentOptions) -> Result<PathBuf> {
    let sources = root.join(SOURCES);
    let pinned = sources.join("component.sha256");
    let expected = fs::read_to_string(&pinned).unwrap_or_default().trim().to_owned();
    if !options.is_update {
        let kept = place(&expected)?;
        if kept.is_file() && digest(&kept)? == expected {
            return Ok(kept);
        }
    }
    progress::note("building the CPython component, in about half a minute");
    let scratch = Scratch::new("component")?;
    let built = compose(&sources, scratch.path())?;
    let found = digest(&built)?;
    if options.is_update {
        fs::write(&pinned, format!("{found}\n")).context("cannot write the digest")?;
    } else {
        ensure!(
            found == expected,
            "the component has the digest {found}, and {SOURCES}/component.sha256 names {expected}; \
             after a change of {SOURCES} run `cargo xtask component python --update`"
        );
    }
    let place = place(&found)?;
    fs::create_dir_all(place.parent().context("a file has a folder")?)?;
    let aside = place.with_extension(format!("{}", std::process::id()));
    fs::copy(&built, &aside).context("cannot copy the component")?;
    fs::rename(&aside, &place).context("cannot place the component")?;
    Ok(place)
}

/// Where the wall looks for a component with a digest.
fn place(digest: &str) -> Result<PathBuf> {
    ensure!(digest.len() == 64, "{SOURCES}/component.sha256 has no digest");
    Ok(cache::folder()?.join("wasm").join(format!("python-{}.wasm", &digest[..16])))
}

/// Builds the component in a scratch folder, with the time, the randomness and the file times of
/// every other build.
fn compose(sources: &Path, scratch: &Path) -> Result<PathBuf> {
    ensure!(
        std::env::consts::ARCH == "x86_64",
        "components are built on x86_64 only; their bytes run everywhere, so copy one from there"
    );
    let python = on_path(&["python3"]).context("no python3; apt install python3-venv")?;
    let compiler = on_path(&["cc", "gcc", "clang"]).context("no C compiler; apt install gcc")?;
    let environment = installed(sources, &python)?;
    let library = scratch.join("steady.so");
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(sources.join("steady.c"));
    succeed(compile, "compile steady.c")?;
    // A fresh copy: what Python keeps next to its sources would be part of the component.
    let guest = scratch.join("guest");
    fs::create_dir(&guest)?;
    for entry in fs::read_dir(sources.join("guest"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, guest.join(name))?;
        }
    }
    // Where componentize-py looks for packages of the person who builds.
    let empty = scratch.join("empty");
    fs::create_dir_all(empty.join("lib/python3/site-packages"))?;
    let output = scratch.join("python.wasm");
    let mut build = Command::new(environment.join("bin/python"));
    build.env_clear().env("PATH", "/usr/bin:/bin").env("TMPDIR", scratch);
    build.env("VIRTUAL_ENV", &empty).env("LD_PRELOAD", &library);
    build.arg(sources.join("build.py")).arg(&library).arg(sources.join("wit"));
    build.arg(&guest).arg(&output);
    succeed(build, "build the component")?;
    Ok(output)
}

/// A virtual environment with componentize-py, kept between builds.
fn installed(sources: &Path, python: &Path) -> Result<PathBuf> {
    let wanted = sources.join("requirements.txt");
    let name = digest(&wanted)?;
    let folder = cache::tool_folder(&format!("componentize-py-{}", &name[..16]))?;
    if folder.join("complete").is_file() {
        return Ok(folder);
    }
    let mut create = Command::new(python);
    create.args(["-m", "venv", "--clear"]).arg(&folder);
    succeed(create, "make a virtual environment")?;
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r"]);
    install.arg(&wanted);
    succeed(install, "install componentize-py")?;
    fs::write(folder.join("complete"), "")?;
    Ok(folder)
}

fn succeed(command: Command, what: &str) -> Result<()> {
    let finished = finish(command)?;
    ensure!(finished.success, "cannot {what}: {}", finished.output);
    Ok(())
}

pub(crate) fn digest(file: &Path) -> Result<String> {
    let mut sum = Command::new("sha256sum");
    sum.arg("--").arg(file);
    let sum = finish(sum)?;
    ensure!(sum.success, "sha256sum fails: {}", sum.output);
    Ok(sum.output.split_whitespace().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_of_another_language_is_refused_by_name() {
        let error = ComponentOptions::parse(&["ruby"]).unwrap_err().to_string();
        assert_eq!(error, "there is no component of ruby; there is one of python");
        assert!(ComponentOptions::parse(&[]).is_err());
        let options = ComponentOptions::parse(&["python", "--update"]).unwrap();
        assert!(options.is_update);
    }
}
