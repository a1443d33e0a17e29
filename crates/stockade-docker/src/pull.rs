//! Downloads an image to the engine, if the caller allows it.

use std::time::{Duration, Instant};

use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use stockade_image::Pull;
use stockade_policy::is_harmless;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::{DockerError, image};

/// Receives lines about something that takes long.
pub type Progress<'p> = &'p (dyn Fn(&str) + Sync);

/// How long the engine may be silent while it downloads or builds.
pub(crate) const SILENCE: Duration = Duration::from_secs(120);

/// How often the size of a download is reported.
const OFTEN: Duration = Duration::from_secs(1);

/// The most layers whose sizes are added up.
const MOST_LAYERS: usize = 1024;

/// The most characters of a message of the engine that are shown.
const MOST_SHOWN: usize = 400;

/// What the engine knows of an image, which is downloaded if `pull` says so. A failed download is
/// an error, also if the engine has an older image of that name.
pub(crate) async fn present(
    engine: &Engine,
    reference: &str,
    pull: Pull,
    progress: Progress<'_>,
) -> Result<ImageInspect, DockerError> {
    let download = match pull {
        Pull::Never => false,
        Pull::Always => true,
        Pull::Missing => match image::inspect(engine, reference).await {
            Err(DockerError::NoImage { .. }) => true,
            found => return found,
        },
    };
    if download {
        fetch(engine, reference, progress).await?;
    }
    image::inspect(engine, reference).await
}

/// Downloads an image. If the caller goes away, the engine stops.
async fn fetch(
    engine: &Engine,
    reference: &str,
    progress: Progress<'_>,
) -> Result<(), DockerError> {
    const DOING: &str = "download an image";
    let failed =
        |reason: &str| DockerError::Pull { image: reference.to_owned(), reason: shown(reason) };
    progress(&format!("pulling {reference}"));
    let options = CreateImageOptionsBuilder::new().from_image(&complete(reference)).build();
    let mut steps = std::pin::pin!(engine.docker.create_image(Some(options), None, None));
    let mut sizes = Sizes::default();
    let mut reported = Instant::now();
    loop {
        let step = match timeout(SILENCE, steps.next()).await {
            Ok(Some(Ok(step))) => step,
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                let address = engine.endpoint.to_string();
                return Err(match DockerError::of(DOING, &address, SILENCE, error) {
                    DockerError::Engine { message, .. } => failed(&message),
                    other => other,
                });
            }
            Err(_) => return Err(DockerError::Slow { doing: DOING, limit: SILENCE }),
        };
        if let Some(detail) = &step.error_detail {
            return Err(failed(detail.message.as_deref().unwrap_or("it gives no reason")));
        }
        sizes.add(&step);
        if reported.elapsed() >= OFTEN {
            reported = Instant::now();
            progress(&format!("pulling {reference}: {sizes}"));
        }
    }
    progress(&format!("pulled {reference}: {sizes}"));
    Ok(())
}

/// A reference with a tag or a digest: without one the engine would download every tag.
fn complete(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or_default();
    match reference.contains('@') || last.contains(':') {
        true => reference.to_owned(),
        false => format!("{reference}:latest"),
    }
}

/// How much of each layer was downloaded.
#[derive(Debug, Default)]
struct Sizes(std::collections::BTreeMap<String, (u64, u64)>);

impl Sizes {
    /// Adds a message of the engine. Its later messages about a layer count unpacked bytes.
    fn add(&mut self, step: &CreateImageInfo) {
        let (Some(id), Some("Downloading")) = (&step.id, step.status.as_deref()) else { return };
        let Some(detail) = &step.progress_detail else { return };
        let bytes = |count: Option<i64>| u64::try_from(count.unwrap_or(0)).unwrap_or(0);
        let (done, total) = (bytes(detail.current), bytes(detail.total));
        if self.0.len() < MOST_LAYERS || self.0.contains_key(id) {
            self.0.insert(id.clone(), (done.min(total), total));
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let add = |sum: (u64, u64), (done, total): &(u64, u64)| {
            (sum.0.saturating_add(*done), sum.1.saturating_add(*total))
        };
        let (done, total) = self.0.values().fold((0, 0), add);
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(f, "{:.1} of {:.1} MB", megabytes(done), megabytes(total))
    }
}

/// A message of the engine or a registry, short and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let plain = |it: char| if is_harmless(it) { it } else { ' ' };
    text.trim().chars().map(plain).take(MOST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use bollard::models::ProgressDetail;

    use super::*;

    #[test]
    fn reference_without_a_tag_is_one_image() {
        for (reference, expected) in [
            ("python", "python:latest"),
            ("127.0.0.1:5000/a/python", "127.0.0.1:5000/a/python:latest"),
            ("python:3.11-slim", "python:3.11-slim"),
            ("127.0.0.1:5000/python:1", "127.0.0.1:5000/python:1"),
            ("python@sha256:00", "python@sha256:00"),
        ] {
            assert_eq!(complete(reference), expected);
        }
    }

    #[test]
    fn sizes_are_the_sum_of_all_layers_and_ignore_nonsense() {
        let step = |id: &str, status: &str, current: i64, total: i64| CreateImageInfo {
            id: Some(id.to_owned()),
            status: Some(status.to_owned()),
            progress_detail: Some(ProgressDetail { current: Some(current), total: Some(total) }),
            error_detail: None,
        };
        let mut sizes = Sizes::default();
        for step in [
            step("a", "Downloading", 500_000, 2_000_000),
            step("a", "Downloading", 1_500_000, 2_000_000),
            step("b", "Downloading", 9_000_000, 1_000_000),
            step("b", "Extracting", 5, 5),
            step("c", "Downloading", -1, -1),
        ] {
            sizes.add(&step);
        }
        assert_eq!(sizes.to_string(), "2.5 of 3.0 MB");
    }

    #[test]
    fn message_of_a_registry_cannot_control_a_terminal() {
        assert_eq!(shown("no\u{1b}[2J such\nimage "), "no [2J such image");
        assert_eq!(shown(&"x".repeat(1000)).len(), MOST_SHOWN);
    }
}
