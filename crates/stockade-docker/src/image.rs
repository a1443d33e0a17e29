//! Images: which one a sandbox starts from, and what it declares.

use bollard::models::ImageInspect;
use stockade_provider::{Entry, Language, Root};

use crate::engine::Engine;
use crate::{DockerError, EngineFacts};

/// The image for code in a language, if the caller names none.
fn standard(entry: &Entry) -> &'static str {
    match entry {
        Entry::Interpreter(Language::JavaScript) => "node:22-slim",
        Entry::Interpreter(Language::Python | Language::Bash) | Entry::Program(_) => {
            "python:3.11-slim"
        }
    }
}

/// The image for a request.
pub(crate) fn reference(root: &Root, entry: &Entry) -> Result<String, DockerError> {
    match root {
        Root::Standard => Ok(standard(entry).to_owned()),
        Root::Image(image) => {
            check(&image.reference)?;
            Ok(image.reference.clone())
        }
        Root::Directory(_) => Err(DockerError::Unsupported {
            what: "a directory as root",
            reason: "an engine starts containers from images".to_owned(),
            remedy: "make an image of it with `tar -C DIR -c . | docker import - NAME`, and name it \
                     with --image",
        }),
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Its id, a digest. The container starts from it, so that a moved tag changes nothing.
    pub(crate) id: String,
    /// The directories that it declares as volumes.
    pub(crate) volumes: Vec<String>,
}

/// Finds an image. Never downloads one.
pub(crate) async fn find(
    engine: &Engine,
    facts: &EngineFacts,
    reference: &str,
) -> Result<Image, DockerError> {
    of(&inspect(engine, reference).await?, facts, reference)
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

/// The image for a container, if its machine is the engine's.
pub(crate) fn of(
    found: &ImageInspect,
    facts: &EngineFacts,
    reference: &str,
) -> Result<Image, DockerError> {
    let wrong = |reason: String| DockerError::Image { image: reference.to_owned(), reason };
    let (os, machine) = (found.os.as_deref(), found.architecture.as_deref());
    if os.is_some_and(|os| os != "linux") {
        return Err(wrong(format!("it is for {}", os.unwrap_or_default())));
    }
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    if machine.is_some_and(|machine| machine != ours) {
        let machine = machine.unwrap_or_default();
        return Err(wrong(format!("it is for {machine}, and the guest for {ours}")));
    }
    if facts.architecture != std::env::consts::ARCH {
        let (engine, guest) = (&facts.architecture, std::env::consts::ARCH);
        return Err(wrong(format!("the engine runs on {engine}, and the guest is for {guest}")));
    }
    let id = found.id.clone().filter(|id| id.starts_with("sha256:"));
    let id = id.ok_or_else(|| wrong("the engine gives no digest of it".to_owned()))?;
    let volumes = found.config.as_ref().and_then(|config| config.volumes.clone());
    let volumes = volumes.unwrap_or_default();
    Ok(Image { id, volumes })
}

#[cfg(test)]
mod tests {
    use stockade_provider::ImageRoot;

    use super::*;

    #[test]
    fn reference_with_options_or_other_paths_is_refused() {
        let named = |image: &str| {
            reference(&Root::Image(ImageRoot::named(image)), &Entry::Program("ls".to_owned()))
        };
        for plain in ["python:3.11-slim", "registry.test:5000/a/b@sha256:0f", "a_b.c"] {
            assert_eq!(named(plain).unwrap(), plain);
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
        let of = |entry| reference(&Root::Standard, &entry).unwrap();
        assert_eq!(of(Entry::Interpreter(Language::Python)), "python:3.11-slim");
        assert_eq!(of(Entry::Interpreter(Language::JavaScript)), "node:22-slim");
        assert_eq!(of(Entry::Program("ls".to_owned())), "python:3.11-slim");
        let root = Root::Directory("/srv/image".into());
        let error = reference(&root, &Entry::Program("ls".to_owned())).unwrap_err();
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
        assert_eq!(of(&image, &facts, "x").unwrap().id, "sha256:00");
        for wrong in [
            ImageInspect { os: Some("windows".to_owned()), ..image.clone() },
            ImageInspect { architecture: Some("s390x".to_owned()), ..image.clone() },
            ImageInspect { id: None, ..image.clone() },
        ] {
            assert!(matches!(of(&wrong, &facts, "x"), Err(DockerError::Image { .. })));
        }
        let elsewhere = EngineFacts { architecture: "s390x".to_owned(), ..facts };
        assert!(of(&image, &elsewhere, "x").is_err());
    }
}
