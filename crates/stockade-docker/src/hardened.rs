//! The hardened image: PATH is one directory with a few programs, and a stub for each denied one.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::Path;

use bollard::models::ImageInspect;
use bollard::query_parameters::BuildImageOptionsBuilder;
use bollard::{body_full, errors::Error as ClientError};
use futures_util::StreamExt;
use stockade_image::{
    ALWAYS_ALLOWED, HARDENED_PATH, HARDENED_RECIPE as RECIPE, Pull, default_names, denied_names,
};
use tar::{Builder, EntryType, Header};
use tokio::time::timeout;

use crate::bundles::never_started;
use crate::engine::Engine;
use crate::image_look::{config, only_file};
use crate::pull::{self, Progress, SILENCE};
use crate::{DockerError, DockerOptions, image};

/// The name of the hardened image.
pub const HARDENED_IMAGE: &str = "agt-sandbox/python-minimal-path:3.11";

/// The image that it is built from by default.
pub const HARDENED_BASE: &str = "python:3.11-slim";

/// What the links of denied programs lead to.
const STUB: &str = "/usr/local/lib/sandbox/denied";

/// The label with the programs that the builder allowed.
const ALLOWED: &str = "stockade.allowed-programs";

/// The most bytes of an archive of the directory in PATH.
const MOST_BYTES: usize = 1 << 20;

/// The most names of programs that a caller may allow.
const MOST_NAMES: usize = 256;

/// How the hardened image is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardenedBuild {
    /// The image to build from; `None` is [`HARDENED_BASE`].
    pub base: Option<String>,
    /// The programs in PATH; `None` is the default of the recipe.
    pub allowed: Option<Vec<String>>,
    /// The name of the result; `None` is [`HARDENED_IMAGE`].
    pub name: Option<String>,
    /// Whether the base image may be downloaded.
    pub pull: Pull,
}

/// The hardened image that a build made.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HardenedImage {
    /// Its name.
    pub name: String,
    /// Its digest.
    pub id: String,
    /// The image that it was built from.
    pub base: String,
    /// The digest of that image.
    pub base_id: String,
    /// The programs in its PATH.
    pub allowed: Vec<String>,
}

/// The hardened image, if the engine has it.
pub(crate) async fn find(engine: &Engine) -> Result<Option<ImageInspect>, DockerError> {
    match image::inspect(engine, HARDENED_IMAGE).await {
        Ok(found) => {
            check(engine, &found, HARDENED_IMAGE).await?;
            Ok(Some(found))
        }
        Err(DockerError::NoImage { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses an image whose PATH has other programs than those that its recipe makes.
pub(crate) async fn check(
    engine: &Engine,
    found: &ImageInspect,
    name: &str,
) -> Result<(), DockerError> {
    let refused = || DockerError::NotHardened { image: name.to_owned() };
    let settings = found.config.as_ref();
    let label = settings.and_then(|it| it.labels.as_ref()).and_then(|labels| labels.get(ALLOWED));
    let (Some(allowed), true) = (label, config(found).has_hardened_path()) else {
        return Err(refused());
    };
    let image = image::of(found, name)?;
    let container = never_started(engine, &image.id, &image.volumes).await?;
    let directory = container.download(HARDENED_PATH, MOST_BYTES).await;
    let denied = container.download(STUB, MOST_BYTES).await;
    container.remove().await?;
    match is_as_made(&directory?, allowed) && only_file(&denied?) == stub() {
        true => Ok(()),
        false => Err(refused()),
    }
}

/// The text of the stub, from the recipe.
fn stub() -> String {
    let quoted =
        RECIPE.split_once("printf '%s\\n' '").and_then(|(_, rest)| rest.split_once("' > "));
    let lines = quoted.map_or("", |(lines, _)| lines).split("' \\\n");
    lines.map(|line| format!("{}\n", line.trim_start().trim_start_matches('\''))).collect()
}

/// Whether an archive of the directory in PATH has the allowed programs as links to files
/// elsewhere, the denied ones as links to the stub, and nothing else.
fn is_as_made(archive: &[u8], allowed: &str) -> bool {
    let allowed: BTreeSet<&str> = allowed.split([',', ' ']).chain([ALWAYS_ALLOWED]).collect();
    let denied: BTreeSet<&str> = denied_names().filter(|name| !allowed.contains(name)).collect();
    let mut stubs = BTreeSet::new();
    let mut entries = tar::Archive::new(archive);
    for entry in entries.entries().into_iter().flatten() {
        let Ok(entry) = entry else { return false };
        let (Ok(path), Ok(target)) = (entry.path(), entry.link_name()) else { return false };
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        match (entry.header().entry_type(), target) {
            (EntryType::Directory, _) if path.components().count() == 1 => {}
            (EntryType::Symlink, Some(target)) if target == Path::new(STUB) => {
                _ = stubs.insert(name.to_owned());
            }
            (EntryType::Symlink, Some(_)) if allowed.contains(name) => {}
            _ => return false,
        }
    }
    stubs.iter().map(String::as_str).eq(denied)
}

impl HardenedBuild {
    /// Builds the image on an engine, from the base image that the engine has.
    pub async fn build(
        &self,
        options: &DockerOptions,
        progress: Progress<'_>,
    ) -> Result<HardenedImage, DockerError> {
        let base = self.base.as_deref().unwrap_or(HARDENED_BASE);
        let name = self.name.as_deref().unwrap_or(HARDENED_IMAGE);
        image::check(base)?;
        image::check(name)?;
        let allowed = self.allowed.as_deref().map(checked).transpose()?;
        let engine = Engine::connect(options).await?;
        let found = pull::present(&engine, base, self.pull, progress).await?;
        let base_id = image::of(&found, base)?.id;
        self.send(&engine, base, name, allowed.as_deref(), progress).await?;
        let built = image::inspect(&engine, name).await?;
        check(&engine, &built, name).await?;
        let id = image::of(&built, name)?.id;
        let (name, base) = (name.to_owned(), base.to_owned());
        let allowed = allowed.unwrap_or_else(|| default_names().map(str::to_owned).collect());
        Ok(HardenedImage { name, id, base, base_id, allowed })
    }

    async fn send(
        &self,
        engine: &Engine,
        base: &str,
        name: &str,
        allowed: Option<&[String]>,
        progress: Progress<'_>,
    ) -> Result<(), DockerError> {
        const DOING: &str = "build the hardened image";
        let prepare = |source| DockerError::Prepare { doing: "pack a recipe", source };
        let mut arguments = HashMap::from([("BASE".to_owned(), base.to_owned())]);
        arguments.extend(allowed.map(|names| ("ALLOWED_BIN_NAMES".to_owned(), names.join(" "))));
        let options = BuildImageOptionsBuilder::new()
            .dockerfile("Dockerfile")
            .t(name)
            .buildargs(&arguments)
            .networkmode("none")
            .rm(true)
            .forcerm(true)
            .build();
        let body = body_full(packed().map_err(prepare)?.into());
        let mut steps = std::pin::pin!(engine.docker.build_image(options, None, Some(body)));
        // The recipe's last output has the reason.
        let mut said = String::new();
        loop {
            let step = match timeout(SILENCE, steps.next()).await {
                Ok(Some(Ok(step))) => step,
                Ok(None) => return Ok(()),
                Ok(Some(Err(ClientError::DockerStreamError { error }))) => {
                    return Err(failed(name, &said, &error));
                }
                Ok(Some(Err(error))) => {
                    let address = engine.endpoint.to_string();
                    return Err(DockerError::of(DOING, &address, SILENCE, error));
                }
                Err(_) => return Err(DockerError::Slow { doing: DOING, limit: SILENCE }),
            };
            if let Some(detail) = step.error_detail {
                return Err(failed(name, &said, &detail.message.unwrap_or_default()));
            }
            for line in step.stream.iter().flat_map(|text| text.lines()) {
                if line.starts_with("Step ") {
                    // The rest of the line is the recipe.
                    progress(line.split(" : ").next().unwrap_or_default());
                } else if let Some(line) = printed(line) {
                    said = line;
                }
            }
        }
    }
}

/// What a step printed; `None` for a line of the engine itself.
fn printed(line: &str) -> Option<String> {
    // The engine colours what a step prints on standard error.
    let plain = line.replace("\u{1b}[91m", "").replace("\u{1b}[0m", "");
    let is_own = ["Removing intermediate", " --->", "Successfully "];
    let is_own = is_own.iter().any(|start| plain.starts_with(start));
    (!is_own && !plain.trim().is_empty()).then_some(plain)
}

fn failed(image: &str, said: &str, error: &str) -> DockerError {
    let reason = match said.strip_prefix("Dockerfile.sandbox: ") {
        Some(said) => pull::shown(said),
        None => {
            // Without the command, which is the whole recipe.
            let end = error.rsplit("' ").next().unwrap_or(error);
            format!("{}; a step of the recipe {}", pull::shown(said), pull::shown(end))
        }
    };
    DockerError::Build { image: image.to_owned(), reason }
}

/// The recipe as a build context of one file.
fn packed() -> std::io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(RECIPE.len() as u64);
    header.set_mtime(0);
    builder.append_data(&mut header, "Dockerfile", RECIPE.as_bytes())?;
    builder.into_inner()
}

/// The names of programs to allow, each once, with the one that is always there first.
fn checked(names: &[String]) -> Result<Vec<String>, DockerError> {
    let mut checked = vec![ALWAYS_ALLOWED.to_owned()];
    for name in names {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        let starts = name.bytes().next().is_some_and(|byte| !b".-".contains(&byte));
        if !starts || !name.bytes().all(is_plain) || name.len() > 64 {
            return Err(DockerError::ProgramName { name: pull::shown(name) });
        }
        if !checked.contains(name) {
            checked.push(name.clone());
        }
    }
    match checked.len() {
        0..=MOST_NAMES => Ok(checked),
        _ => Err(DockerError::ProgramName { name: format!("{} names", checked.len()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory in PATH with links.
    fn directory(links: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        builder.append_data(&mut header, "sandbox-bin/", std::io::empty()).unwrap();
        for (name, target) in links {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, format!("sandbox-bin/{name}"), target).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn directory_with_another_program_is_not_what_the_recipe_makes() {
        let mut links: Vec<(&str, &str)> = denied_names().map(|name| (name, STUB)).collect();
        links.extend([("python3", "/usr/bin/python3"), ("cat", "/bin/cat")]);
        assert!(is_as_made(&directory(&links), "python3 cat"));
        assert!(is_as_made(&directory(&links), "cat"), "the interpreter is always allowed");
        let with = |name, target| {
            let mut links = links.clone();
            links.retain(|(known, _)| *known != name);
            links.push((name, target));
            is_as_made(&directory(&links), "python3 cat")
        };
        assert!(with("curl", STUB));
        assert!(!with("curl", "/usr/bin/curl"), "a denied program");
        assert!(!with("vi", "/usr/bin/vi"), "one that was not allowed");
        assert!(!with("vi", STUB), "one that the recipe does not deny");
        links.retain(|(name, _)| *name != "curl");
        assert!(!is_as_made(&directory(&links), "python3 cat"), "a stub is missing");
        assert!(is_as_made(&directory(&links), "python3,curl cat"), "the builder allowed it");
        assert!(!is_as_made(b"x", "cat") && !is_as_made(b"", "cat"));
    }

    #[test]
    fn stub_is_the_script_that_the_recipe_writes() {
        let text = stub();
        assert!(text.starts_with("#!/bin/sh\n# Stands for"), "{text}");
        assert!(text.ends_with("\necho \"$name: command not found\" >&2\nexit 127\n"), "{text}");
        assert_eq!(text.lines().count(), 7);
    }

    #[test]
    fn allowed_names_are_plain_and_always_include_the_interpreter() {
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(checked(&names(&["cat", "python3", "cat"])).unwrap(), ["python3", "cat"]);
        assert_eq!(checked(&[]).unwrap(), ["python3"]);
        for wrong in ["", "-x", ".", "../ls", "/bin/ls", "a b", "a;b", "$(id)", "a\nb", "a*"] {
            let error = checked(&names(&[wrong])).unwrap_err();
            assert!(matches!(error, DockerError::ProgramName { .. }), "{wrong}: {error}");
        }
        let many: Vec<String> = (0..MOST_NAMES).map(|number| format!("p{number}")).collect();
        assert!(checked(&many).is_err());
    }

    #[test]
    fn failed_build_says_what_the_recipe_printed_and_not_the_recipe() {
        let lines = [
            " ---> Running in 4fa56c0c2b04",
            "\u{1b}[91mDockerfile.sandbox: the base image has no program x\n\u{1b}[0m",
            "Removing intermediate container 4fa56c0c2b04",
        ];
        let said = lines.iter().rev().find_map(|line| printed(line)).unwrap();
        let error = "The command '/bin/sh -c set -eu' returned a non-zero code: 1";
        let shown = |said: &str| failed("a:1", said, error).to_string();
        let start = "cannot build the image a:1: ";
        assert_eq!(shown(said.trim()), format!("{start}the base image has no program x"));
        let expected = "sh: find: not found; a step of the recipe returned a non-zero code: 1";
        assert_eq!(shown("sh: find: not found"), format!("{start}{expected}"));
    }
}
