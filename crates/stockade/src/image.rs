//! `stockade image …`.

mod machines;

use serde::Serialize;
use serde_json::json;
use stockade_backends::{ContainerChoice, HardenedBuilt, HardenedChoice};
use stockade_image::{Imported, Limits, Listed, Pull, Reference, Store, Taken, store_directory};
use stockade_provider::chain;

use crate::args::{HardenedArgs, ImageArgs, ImageCommand, ImportArgs};
use crate::render::{self, Output};
use crate::run::image::{problem, store};
use crate::sessions::table;
use crate::{Problem, load};

pub(crate) fn run(args: ImageArgs, output: Output) -> anyhow::Result<u8> {
    match args.command {
        ImageCommand::Build(args) => match &args.machine.vm {
            Some(name) => machines::build(name, &args.machine, output),
            None => build(args.hardened, output),
        },
        ImageCommand::Import(args) => import(&args, output),
        ImageCommand::Ls => list(output),
        ImageCommand::Rm(args) if args.vm => machines::remove(&args.images, output),
        ImageCommand::Rm(args) => remove(&args.images, output),
    }
}

fn build(args: HardenedArgs, output: Output) -> anyhow::Result<u8> {
    let HardenedArgs { hardened: _, allow, base, name, pull, docker_url } = args;
    let is_between = |it: char| it == ',' || it.is_whitespace();
    let words = allow.iter().flat_map(|names| names.split(is_between));
    let words: Vec<String> = words.filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let allowed = (!allow.is_empty()).then_some(words);
    let choice = HardenedChoice { base, allowed, name, pull: when(pull.as_deref()) };
    let engine = ContainerChoice { url: docker_url, ..ContainerChoice::default() };
    let progress = |line: &str| render::talk(&format!("image: {line}"));
    let built = stockade_backends::build_hardened(&engine, choice, &progress);
    let built = load::waited(built)?.map_err(|error| {
        Problem::new(chain(&error), error.remedy().unwrap_or("name another image with --base"))
    })?;
    let HardenedBuilt { name, id, base, allowed, .. } = &built;
    match output {
        Output::Json => render::json(&built)?,
        Output::Text => {
            let programs = allowed.join(", ");
            render::talk(&format!("image: {name} is {id}, made from {base}, with {programs}"));
            render::text(&format!("{name}\n"))?;
        }
    }
    Ok(0)
}

/// When the engine may download an image.
pub(crate) fn when(pull: Option<&str>) -> Pull {
    // The parser of the arguments accepts no other words.
    pull.and_then(|word| word.parse().ok()).unwrap_or_default()
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
    for Taken { name, id } in &imported.taken {
        render::talk(&format!(
            "image: the name {name} stays with {id}; to move it, import with `--name {name}`"
        ));
    }
    for example in &imported.examples {
        render::talk(&format!("  {example}"));
    }
}

fn list(output: Output) -> anyhow::Result<u8> {
    let images = images()?;
    match output {
        Output::Json => render::json(&images)?,
        Output::Text => {
            let titles = ["IMAGE", "DIGEST", "SIZE", "AGE", "WALL"].map(str::to_owned).to_vec();
            let rows = images.iter().map(row);
            let rows: Vec<Vec<String>> = [titles].into_iter().chain(rows).collect();
            render::text(&table::table(&rows))?;
        }
    }
    Ok(0)
}

/// An image and the wall that can start from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Kept {
    #[serde(flatten)]
    pub(crate) image: Listed,
    pub(crate) provider: &'static str,
}

/// The images of the store, and of the engine if it answers.
pub(crate) fn images() -> Result<Vec<Kept>, Problem> {
    let directory = store_directory(|name| std::env::var_os(name));
    let store = directory.map(|directory| Store::existing(&directory)).transpose();
    let store = store.map_err(|error| problem(&error))?.flatten();
    let listed = store.map(|store| store.list()).transpose().map_err(|error| problem(&error))?;
    let of = |provider| move |image| Kept { image, provider };
    let mut images: Vec<Kept> = listed.into_iter().flatten().map(of("native")).collect();
    let engine = load::container_images().unwrap_or_default();
    images.extend(engine.into_iter().map(of("docker")));
    images.extend(machines::listed()?.into_iter().map(of("qemu")));
    Ok(images)
}

/// The warnings about images that are too old, one line each. `now` is in seconds since 1970.
pub(crate) fn old(images: &[Kept], now: i64) -> Vec<String> {
    const DAY: i64 = 86_400;
    const MOST_DAYS: i64 = 90;
    let line = |Kept { image, provider }: &Kept| {
        let days = now.checked_sub(image.created?)? / DAY;
        let name = image.names.first().unwrap_or(&image.id);
        (days > MOST_DAYS).then(|| {
            format!("the image {name} ({provider}) is {days} days old: build or pull it again")
        })
    };
    images.iter().filter_map(line).collect()
}

fn row(kept: &Kept) -> Vec<String> {
    let Kept { image, provider } = kept;
    let names = match image.names.is_empty() {
        true => "-".to_owned(),
        false => image.names.join(", "),
    };
    let age = image.created.and_then(|created| u64::try_from(created).ok()).map(table::since);
    let digest = image.id.chars().take("sha256:".len() + 12).collect();
    let age = age.unwrap_or_else(|| "-".to_owned());
    vec![names, digest, table::size(image.bytes), age, (*provider).to_owned()]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_older_than_ninety_days_are_named() {
        let now = 200 * 86_400;
        let image = |name: &str, created: Option<i64>| Kept {
            image: Listed {
                id: "sha256:00".to_owned(),
                names: vec![name.to_owned()],
                bytes: 1,
                layers: None,
                created,
            },
            provider: "native",
        };
        let images = [
            image("new:1", Some(now - 90 * 86_400)),
            image("old:1", Some(now - 91 * 86_400)),
            image("unknown:1", None),
            image("future:1", Some(now + 86_400)),
        ];
        let lines = old(&images, now);
        assert_eq!(lines, ["the image old:1 (native) is 91 days old: build or pull it again"]);
    }
}
