//! Images of virtual machines: `image build --vm`, `image rm --vm`, and their lines in `image ls`.

use serde_json::json;
use stockade_backends::{
    BootImageError, BootStore, BuildRequest, Kept, Manifest, Source, build_machine_image,
    machine_images,
};
use stockade_image::{Limits, Listed};
use stockade_provider::chain;

use crate::args::{MachineArgs, Root};
use crate::render::{self, Output};
use crate::run::image::{problem as of_image, store as of_containers};
use crate::{Problem, load};

/// Builds an image.
pub(super) fn build(name: &str, args: &MachineArgs, output: Output) -> anyhow::Result<u8> {
    let here = load::here()?;
    let source = match &args.from {
        Root::Debian => Source::Debian,
        Root::Directory(path) => {
            let origin = format!("dir:{}", path.display());
            Source::Tree { path: here.join(path), origin }
        }
        Root::Archive(file) => {
            let images = of_containers()?;
            let imported = images.import(&here.join(file), None, Limits::default());
            let imported = imported.map_err(|error| of_image(&error))?;
            let found = images.find(&imported.id).map_err(|error| of_image(&error))?;
            let origin = format!("oci:{}", imported.id);
            let tree = found.root.clone();
            // This process uses the image until it exits.
            std::mem::forget(found);
            Source::Tree { path: tree, origin }
        }
    };
    let kernel = args.kernel.as_ref().map(|path| here.join(path));
    let request = BuildRequest { name: name.to_owned(), source, kernel };
    let say = |doing: &str| render::talk(&format!("image: {doing}"));
    let built = build_machine_image(&store()?, &request, say).map_err(|error| problem(&error))?;
    match output {
        Output::Json => render::json(&Kept { name: name.to_owned(), manifest: built })?,
        Output::Text => {
            let Manifest { kernel, from, bytes, .. } = built;
            let size = crate::sessions::table::size(bytes);
            render::talk(&format!("image: Linux {kernel}, root from {from}, {size}"));
            render::text(&format!("{name}\n"))?;
        }
    }
    Ok(0)
}

/// Removes images.
pub(super) fn remove(names: &[String], output: Output) -> anyhow::Result<u8> {
    let store = store()?;
    let mut removed = Vec::new();
    for name in names {
        let id = store.remove(name).map_err(|error| problem(&error))?;
        removed.push(json!({ "image": name, "id": id }));
    }
    match output {
        Output::Json => render::json(&removed)?,
        Output::Text => render::text(&(names.join("\n") + "\n"))?,
    }
    Ok(0)
}

/// Every image, as `image ls` shows it.
pub(super) fn listed() -> Result<Vec<Listed>, Problem> {
    let Some(store) = machine_images() else { return Ok(Vec::new()) };
    let kept = store.list().map_err(|error| problem(&error))?;
    let listed = |Kept { name, manifest }: Kept| Listed {
        id: manifest.id,
        names: vec![name],
        bytes: manifest.bytes,
        layers: None,
        created: Some(manifest.created),
    };
    Ok(kept.into_iter().map(listed).collect())
}

fn store() -> Result<BootStore, Problem> {
    machine_images().ok_or_else(|| {
        let message = "there is no directory for images: neither XDG_DATA_HOME nor HOME is set";
        Problem::new(message, "set HOME")
    })
}

fn problem(error: &BootImageError) -> Problem {
    Problem::new(chain(error), error.remedy())
}
