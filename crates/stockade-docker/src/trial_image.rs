//! An empty image for trial starts, so that a trial needs no image of the user.

use bollard::body_full;
use bollard::errors::Error as ClientError;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;
use tar::{Builder, EntryType, Header};

use crate::DockerError;
use crate::engine::Engine;

/// Its name. The tag changes with its content.
pub(crate) const NAME: &str = "stockade-trial";
const TAG: &str = "1";

/// The image's id. Creates it if the engine does not have it.
pub(crate) async fn find(engine: &Engine) -> Result<String, DockerError> {
    const DOING: &str = "create the image of a trial start";
    let reference = format!("{NAME}:{TAG}");
    if let Ok(found) = engine.ask("find an image", engine.docker.inspect_image(&reference)).await
        && let Some(id) = found.id
    {
        return Ok(id);
    }
    let content = content()
        .map_err(|source| DockerError::Prepare { doing: "pack an empty image", source })?;
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(NAME)
        .tag(TAG)
        .platform("linux")
        .build();
    engine
        .ask(DOING, async {
            let body = body_full(content.into());
            let mut progress =
                std::pin::pin!(engine.docker.create_image(Some(options), Some(body), None));
            while let Some(step) = progress.next().await {
                step?;
            }
            Ok::<(), ClientError>(())
        })
        .await?;
    let found = engine.ask(DOING, engine.docker.inspect_image(&reference)).await?;
    found.id.ok_or_else(|| DockerError::Engine {
        doing: DOING,
        message: "it gives no digest of it".to_owned(),
    })
}

/// A directory for each place where something is mounted.
fn content() -> std::io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for place in ["dev", "etc", "proc", "run", "sys", "tmp", "var", "workspace"] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        header.set_mtime(0);
        builder.append_data(&mut header, format!("{place}/"), std::io::empty())?;
    }
    builder.into_inner()
}
