//! `stockade image …`.

use serde_json::json;
use stockade_image::{Imported, Limits, Listed, Reference};

use crate::args::{ImageArgs, ImageCommand, ImportArgs};
use crate::render::{self, Output};
use crate::run::image::{problem, store};
use crate::sessions::table;

pub(crate) fn run(args: ImageArgs, output: Output) -> anyhow::Result<u8> {
    match args.command {
        ImageCommand::Import(args) => import(&args, output),
        ImageCommand::Ls => list(output),
        ImageCommand::Rm(args) => remove(&args.images, output),
    }
}

fn import(args: &ImportArgs, output: Output) -> anyhow::Result<u8> {
    let name = args.name.as_deref().map(Reference::parse).transpose();
    let name = name.map_err(|error| problem(&error))?;
    let mut limits = Limits::default();
    if let Some(size) = &args.max_size {
        limits.bytes = size.value;
    }
    let imported = store()?.import(&args.file, name.as_ref(), limits);
    let imported = imported.map_err(|error| problem(&error))?;
    match output {
        Output::Json => render::json(&imported)?,
        Output::Text => {
            report(&imported);
            let named = imported.names.first().unwrap_or(&imported.id);
            render::text(&format!("{named}\n"))?;
        }
    }
    Ok(0)
}

/// Prints what an import changed of the image.
fn report(imported: &Imported) {
    let Imported { left_out, set_ids, owners, .. } = imported;
    for (count, what) in [
        (left_out, "entries were left out: devices, FIFOs, or files of a union file system"),
        (set_ids, "files lost their set-id bits"),
        (owners, "files belong to 65534, because no sandbox has the id of their owner"),
    ] {
        if *count > 0 {
            render::talk(&format!("image: {count} {what}"));
        }
    }
    for example in &imported.examples {
        render::talk(&format!("  {example}"));
    }
}

fn list(output: Output) -> anyhow::Result<u8> {
    let images = store()?.list().map_err(|error| problem(&error))?;
    match output {
        Output::Json => render::json(&images)?,
        Output::Text => {
            let titles = ["IMAGE", "DIGEST", "SIZE", "AGE"].map(str::to_owned).to_vec();
            let rows = images.iter().map(row);
            let rows: Vec<Vec<String>> = [titles].into_iter().chain(rows).collect();
            render::text(&table::table(&rows))?;
        }
    }
    Ok(0)
}

fn row(image: &Listed) -> Vec<String> {
    let names = match image.names.is_empty() {
        true => "-".to_owned(),
        false => image.names.join(", "),
    };
    let age = image.created.and_then(|created| u64::try_from(created).ok()).map(table::since);
    let digest = image.id.chars().take("sha256:".len() + 12).collect();
    vec![names, digest, table::size(image.bytes), age.unwrap_or_else(|| "-".to_owned())]
}

fn remove(images: &[String], output: Output) -> anyhow::Result<u8> {
    let store = store()?;
    let mut removed = Vec::new();
    for image in images {
        let id = store.remove(image).map_err(|error| problem(&error))?;
        removed.push(json!({ "image": image, "id": id.to_string() }));
    }
    match output {
        Output::Json => render::json(&removed)?,
        Output::Text => render::text(&(images.join("\n") + "\n"))?,
    }
    Ok(0)
}
