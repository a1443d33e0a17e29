//! Images: which one a sandbox starts from, and what it declares.

use bollard::models::ImageInspect;
use stockade_image::Pull;
use stockade_provider::{EntryProgram, Language, Root};

use crate::engine::Engine;
use crate::image_look::config;
use crate::pull::{self, Progress};
use crate::{DockerError, EngineFacts, HARDENED_IMAGE, hardened};

/// Whether the image must be the hardened one, if the caller names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hardened {
    /// It is used if the engine has it and it has the interpreter.
    #[default]
    Preferred,
    /// No other image is used.
    Required,
}

/// The image for code in a language, if the caller names none and the hardened one is not used.
fn standard(entry: &EntryProgram) -> &'static str {
    match entry {
        EntryProgram::Interpreter(Language::JavaScript) => "node:22-slim",
        EntryProgram::Interpreter(Language::Python | Language::Bash) | EntryProgram::Program(_) => {
            "python:3.11-slim"
        }
    }
}

/// Whether the hardened image has the interpreter of a program by default.
fn fits_hardened(entry: &EntryProgram) -> bool {
    match entry {
        EntryProgram::Interpreter(Language::JavaScript | Language::Bash) => false,
        EntryProgram::Interpreter(Language::Python) | EntryProgram::Program(_) => true,
    }
}

/// The reference of a request; `None` if it names no image.
pub(crate) fn reference(root: &Root) -> Result<Option<&str>, DockerError> {
    match root {
        Root::Standard => Ok(None),
        Root::Image(image) if image.disk.is_some() => Err(DockerError::Unsupported {
            what: "the disk of a machine",
            reason: "an engine starts containers from images".to_owned(),
            remedy: "use --provider qemu",
        }),
        Root::Image(image) => {
            check(&image.reference)?;
            Ok(Some(&image.reference))
        }
        Root::Directory(_) => Err(DockerError::Unsupported {
            what: "a directory as root",
            reason: "an engine starts containers from images".to_owned(),
            remedy: "make an image of it with `tar -C DIR -c . | docker import - NAME`, and name it \
                     with --image",
        }),
    }
}

/// An image of the engine by the name under which it was found.
pub(crate) struct Chosen {
    pub(crate) reference: String,
    pub(crate) found: ImageInspect,
}

/// Finds the image that the caller names, or else the default for a program. The hardened image is
/// built on this machine and never downloaded.
pub(crate) async fn choose(
    engine: &Engine,
    named: Option<&str>,
    entry: &EntryProgram,
    hardened: Hardened,
    pull: Pull,
    progress: Progress<'_>,
) -> Result<Chosen, DockerError> {
    let reference = match named {
        Some(named) => {
            check(named)?;
            named
        }
        None => {
            let is_wanted = hardened == Hardened::Required || fits_hardened(entry);
            let found = match (is_wanted, hardened) {
                (true, Hardened::Required) => hardened::find(engine).await?,
                // An image that only has the name is not the hardened one.
                (true, Hardened::Preferred) => match hardened::find(engine).await {
                    Err(DockerError::NotHardened { .. }) => None,
                    found => found?,
                },
                (false, _) => None,
            };
            if let Some(found) = found {
                return Ok(Chosen { reference: HARDENED_IMAGE.to_owned(), found });
            }
            if hardened == Hardened::Required {
                return Err(DockerError::NoHardened { image: HARDENED_IMAGE });
            }
            standard(entry)
        }
    };
    let found = pull::present(engine, reference, pull, progress).await?;
    Ok(Chosen { reference: reference.to_owned(), found })
}

/// Refuses a text that is not a plain reference. It becomes part of the path of a request.
pub(crate) fn check(image: &str) -> Result<(), DockerError> {
    const MOST_BYTES: usize = 300;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let starts = image.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let steps_up = image.split('/').any(|part| part.chars().all(|it| it == '.'));
    match starts && !steps_up && image.len() <= MOST_BYTES && image.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(DockerError::Image {
            image: image.escape_debug().take(MOST_BYTES).collect(),
            reason: "it is not a reference such as python:3.11-slim or name@sha256:…".to_owned(),
        }),
    }
}

/// An image on the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its id, a digest. The container starts from it, so that a moved tag changes nothing.
    pub(crate) id: String,
    /// The directories that it declares as volumes.
    pub(crate) volumes: Vec<String>,
    /// Its PATH.
    pub(crate) search_path: Option<String>,
    /// Whether stubs in it report denied commands.
    pub(crate) is_hardened: bool,
}

/// What the engine knows of an image.
pub(crate) async fn inspect(engine: &Engine, reference: &str) -> Result<ImageInspect, DockerError> {
    let missing = |error: &bollard::errors::Error| {
        matches!(error, bollard::errors::Error::DockerResponseServerError { status_code: 404, .. })
    };
    let inspected = engine
        .ask("find the image", async {
            match engine.docker.inspect_image(reference).await {
                Err(error) if missing(&error) => Ok(None),
                found => found.map(Some),
            }
        })
        .await?;
    inspected.ok_or_else(|| DockerError::NoImage { image: reference.to_owned() })
}

/// The architecture of this machine, as images name it.
fn our_machine() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Refuses an engine on which the guest does not run.
pub(crate) fn check_engine(facts: &EngineFacts, reference: &str) -> Result<(), DockerError> {
    if facts.architecture == std::env::consts::ARCH {
        return Ok(());
    }
    let (engine, guest) = (&facts.architecture, std::env::consts::ARCH);
    let reason = format!("the engine runs on {engine}, and the guest is for {guest}");
    Err(DockerError::Image { image: reference.to_owned(), reason })
}

/// The image for a container, if it is for the guest's machine.
pub(crate) fn of(found: &ImageInspect, reference: &str) -> Result<Image, DockerError> {
    let wrong = |reason: String| DockerError::Image { image: reference.to_owned(), reason };
    let (os, machine) = (found.os.as_deref(), found.architecture.as_deref());
    if os.is_some_and(|os| os != "linux") {
        return Err(wrong(format!("it is for {}", os.unwrap_or_default())));
    }
    let ours = our_machine();
    if machine.is_some_and(|machine| machine != ours) {
        let machine = machine.unwrap_or_default();
        return Err(wrong(format!("it is for {machine}, and the guest for {ours}")));
    }
    let id = found.id.clone().filter(|id| id.starts_with("sha256:"));
    let id = id.ok_or_else(|| wrong("the engine gives no digest of it".to_owned()))?;
    let volumes = found.config.as_ref().and_then(|config| config.volumes.clone());
    let volumes = volumes.unwrap_or_default();
    let config = config(found);
    let (search_path, is_hardened) = (config.search_path(), config.has_hardened_path());
    Ok(Image { id, volumes, search_path, is_hardened })
}

#[cfg(test)]
mod tests {
    use stockade_provider::ImageRoot;

    use super::*;

    #[test]
    fn reference_with_options_or_other_paths_is_refused() {
        let named = |image: &str| {
            let root = Root::Image(ImageRoot::named(image));
            reference(&root).map(|found| found.map(str::to_owned))
        };
        for plain in ["python:3.11-slim", "registry.test:5000/a/b@sha256:0f", "a_b.c"] {
            assert_eq!(named(plain).unwrap().as_deref(), Some(plain));
        }
        for wrong in [
            "",
            "--privileged",
            "-x",
            "a b",
            "a?fromImage=b",
            "../x",
            "a/../b",
            "a/./b",
            "a\n",
            "a#b",
        ] {
            let error = named(wrong).unwrap_err();
            assert!(matches!(error, DockerError::Image { .. }), "{wrong}: {error}");
        }
    }

    #[test]
    fn entry_selects_the_standard_image_and_a_directory_is_refused() {
        let of = |entry| (standard(&entry), fits_hardened(&entry));
        assert_eq!(of(EntryProgram::Interpreter(Language::Python)), ("python:3.11-slim", true));
        assert_eq!(of(EntryProgram::Interpreter(Language::Bash)), ("python:3.11-slim", false));
        assert_eq!(of(EntryProgram::Interpreter(Language::JavaScript)), ("node:22-slim", false));
        assert_eq!(of(EntryProgram::Program("ls".to_owned())), ("python:3.11-slim", true));
        assert_eq!(reference(&Root::Standard).unwrap(), None);
        let error = reference(&Root::Directory("/srv/image".into())).unwrap_err();
        assert!(error.to_string().contains("a directory as root"), "{error}");
    }

    #[test]
    fn image_of_another_machine_is_refused() {
        let facts = EngineFacts {
            architecture: std::env::consts::ARCH.to_owned(),
            ..crate::host::example()
        };
        let image = ImageInspect {
            id: Some("sha256:00".to_owned()),
            os: Some("linux".to_owned()),
            ..ImageInspect::default()
        };
        assert_eq!(of(&image, "x").unwrap().id, "sha256:00");
        assert!(check_engine(&facts, "x").is_ok());
        for wrong in [
            ImageInspect { os: Some("windows".to_owned()), ..image.clone() },
            ImageInspect { architecture: Some("s390x".to_owned()), ..image.clone() },
            ImageInspect { id: None, ..image.clone() },
        ] {
            assert!(matches!(of(&wrong, "x"), Err(DockerError::Image { .. })));
        }
        let elsewhere = EngineFacts { architecture: "s390x".to_owned(), ..facts };
        assert!(check_engine(&elsewhere, "x").is_err());
    }
}
