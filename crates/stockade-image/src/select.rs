//! Finds the image in an archive: its configuration, its layers and its names.

use crate::digest::Hashed;
use crate::model::{
    Configuration, Descriptor, Index, MOST_DOCUMENT, Manifest, SavedImage, document,
};
use crate::parcel::Parcel;
use crate::{Digest, ImageError, Refusal};

/// The maximum number of layers; engines allow 127.
const MOST_LAYERS: usize = 256;
/// The maximum number of names in an archive.
const MOST_NAMES: usize = 64;
/// How many indexes may be inside each other.
const MOST_INDEXES: usize = 2;

/// The image of an archive.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The digest of the configuration.
    pub(crate) id: Digest,
    /// The configuration as it is in the archive.
    pub(crate) text: Vec<u8>,
    /// Lowest first.
    pub(crate) layers: Vec<Layer>,
    /// The names in the archive, not checked.
    pub(crate) names: Vec<String>,
}

/// One layer.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Its file in the archive.
    pub(crate) file: String,
    /// The digest of its content without compression.
    pub(crate) content: Digest,
}

/// Finds the only image of an archive, and checks every digest except the content of layers.
pub(crate) fn select(parcel: &Parcel) -> Result<Selected, ImageError> {
    match (parcel.has("oci-layout"), parcel.has("manifest.json")) {
        (true, _) => of_layout(parcel),
        (false, true) => of_saved(parcel),
        (false, false) => Err(refused("the archive", Refusal::Layout)),
    }
}

fn of_layout(parcel: &Parcel) -> Result<Selected, ImageError> {
    let name = "index.json";
    let mut index: Index = parsed(name, &parcel.document(name)?)?;
    let mut names = Vec::new();
    for _ in 0..=MOST_INDEXES {
        let chosen = choose(index)?;
        names.extend(name_of(&chosen).cloned());
        let (file, text) = blob(parcel, &chosen)?;
        if !is_index(&chosen.media_type) {
            let manifest: Manifest = parsed(&file, &text)?;
            return of_manifest(parcel, &manifest, names);
        }
        index = parsed(&file, &text)?;
    }
    Err(refused(name, Refusal::TooLarge))
}

/// The name in the annotations of a manifest. `docker save` writes the whole name into one and
/// only the tag into the other, where other tools write the whole name.
fn name_of(manifest: &Descriptor) -> Option<&String> {
    let whole = manifest.annotations.get("io.containerd.image.name");
    let other = manifest.annotations.get("org.opencontainers.image.ref.name");
    whole.or_else(|| other.filter(|name| name.contains([':', '/'])))
}

fn of_manifest(
    parcel: &Parcel,
    manifest: &Manifest,
    names: Vec<String>,
) -> Result<Selected, ImageError> {
    if manifest.layers.len() > MOST_LAYERS {
        return Err(refused("the manifest", Refusal::TooLarge));
    }
    let (file, text) = blob(parcel, &manifest.config)?;
    let mut files = Vec::new();
    for layer in &manifest.layers {
        let kind = &layer.media_type;
        let is_known = kind.contains("layer.v1.tar") || kind.contains("rootfs.diff.tar");
        if !is_known || kind.contains("foreign") || kind.contains("nondistributable") {
            let kind = format!("a layer of the kind {}", kind.escape_debug());
            return Err(refused(&layer.digest, Refusal::Kind { kind }));
        }
        files.push(checked_blob(parcel, layer)?);
    }
    selected(&file, text, files, names)
}

fn of_saved(parcel: &Parcel) -> Result<Selected, ImageError> {
    let name = "manifest.json";
    let mut images: Vec<SavedImage> = parsed(name, &parcel.document(name)?)?;
    let (Some(image), true) = (images.pop(), images.is_empty()) else {
        return Err(refused(name, Refusal::Several));
    };
    if image.layers.len() > MOST_LAYERS {
        return Err(refused(name, Refusal::TooLarge));
    }
    let text = parcel.document(&image.config)?;
    // `docker save` names the file by its digest: `0123….json` or `blobs/sha256/0123…`.
    let hex = image.config.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    if Digest::from_hex(hex) != Some(Digest::of(&text)) {
        return Err(refused(&image.config, Refusal::Digest));
    }
    selected(&image.config, text, image.layers, image.repo_tags.unwrap_or_default())
}

/// Joins the configuration with the files of its layers.
fn selected(
    file: &str,
    text: Vec<u8>,
    files: Vec<String>,
    names: Vec<String>,
) -> Result<Selected, ImageError> {
    if names.len() > MOST_NAMES {
        return Err(refused("its names", Refusal::Names));
    }
    let configuration: Configuration = parsed(file, &text)?;
    let (system, ours) = (machine(&configuration), format!("linux/{}", architecture()));
    if system != ours {
        return Err(refused(file, Refusal::Machine { found: system, ours }));
    }
    let contents = &configuration.rootfs.diff_ids;
    if contents.len() != files.len() {
        return Err(refused(file, Refusal::Layers));
    }
    let mut layers = Vec::new();
    for (file, content) in files.into_iter().zip(contents) {
        let content = Digest::parse(content).map_err(|refusal| refused(&file, refusal))?;
        layers.push(Layer { file, content });
    }
    Ok(Selected { id: Digest::of(&text), text, layers, names })
}

/// The manifest for this machine.
fn choose(index: Index) -> Result<Descriptor, ImageError> {
    let is_ours = |one: &Descriptor| match &one.platform {
        Some(platform) => platform.os == "linux" && platform.architecture == architecture(),
        None => true,
    };
    // Attestations are listed as manifests of an unknown machine.
    let is_image = |one: &Descriptor| !one.annotations.contains_key("vnd.docker.reference.type");
    let all: Vec<Descriptor> = index.manifests.into_iter().filter(is_image).collect();
    let first = all.first().cloned();
    let mut ours = all.into_iter().filter(is_ours);
    match (ours.next(), ours.next(), first) {
        (Some(one), None, _) => Ok(one),
        (Some(_), Some(_), _) => Err(refused("index.json", Refusal::Several)),
        (None, _, Some(Descriptor { platform: Some(platform), .. })) => {
            let (found, ours) = (
                format!("{}/{}", platform.os.escape_debug(), platform.architecture.escape_debug()),
                format!("linux/{}", architecture()),
            );
            Err(refused("index.json", Refusal::Machine { found, ours }))
        }
        (None, ..) => Err(refused("index.json", Refusal::Absent)),
    }
}

fn is_index(media_type: &str) -> bool {
    media_type.contains("image.index") || media_type.contains("manifest.list")
}

/// A document by its descriptor: its file and content, with size and digest checked.
fn blob(parcel: &Parcel, descriptor: &Descriptor) -> Result<(String, Vec<u8>), ImageError> {
    if descriptor.size > MOST_DOCUMENT {
        return Err(refused(&descriptor.digest, Refusal::TooLarge));
    }
    let file = file_of(descriptor)?;
    let text = parcel.document(&file)?;
    match text.len() as u64 == descriptor.size && Digest::of(&text).to_string() == descriptor.digest
    {
        true => Ok((file, text)),
        false => Err(refused(&file, Refusal::Digest)),
    }
}

/// The file of a blob, with size and digest checked.
fn checked_blob(parcel: &Parcel, descriptor: &Descriptor) -> Result<String, ImageError> {
    let file = file_of(descriptor)?;
    let (source, bytes) = parcel.open_file(&file)?;
    if bytes != descriptor.size {
        return Err(refused(&file, Refusal::Digest));
    }
    let read = Hashed::new(source).finish();
    let (digest, _) =
        read.map_err(|source| ImageError::File { doing: "read", path: (&file).into(), source })?;
    match digest.to_string() == descriptor.digest {
        true => Ok(file),
        false => Err(refused(&file, Refusal::Digest)),
    }
}

fn file_of(descriptor: &Descriptor) -> Result<String, ImageError> {
    let digest = Digest::parse(&descriptor.digest);
    let digest = digest.map_err(|refusal| refused(&descriptor.digest, refusal))?;
    Ok(format!("blobs/sha256/{}", digest.hex()))
}

fn parsed<T: serde::de::DeserializeOwned>(file: &str, text: &[u8]) -> Result<T, ImageError> {
    document(text).map_err(|refusal| refused(file, refusal))
}

/// A refusal of a part of the image.
pub(crate) fn refused(part: &str, refusal: Refusal) -> ImageError {
    ImageError::Refused { part: part.escape_debug().take(300).collect(), refusal }
}

fn machine(configuration: &Configuration) -> String {
    let Configuration { os, architecture, .. } = configuration;
    format!("{}/{}", os.escape_debug(), architecture.escape_debug())
}

/// This machine in the words of images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
