//! The JSON documents of images, as far as they are used. Unknown fields are ignored, as the
//! formats ask.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Refusal;

/// The maximum size of a document.
pub(crate) const MOST_DOCUMENT: u64 = 4 << 20;

/// `index.json`, or an index that it names.
#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    pub(crate) manifests: Vec<Descriptor>,
}

/// A blob by its digest and size.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The machine of a manifest in an index.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// The manifest of one image.
#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// One image in `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SavedImage {
    pub(crate) config: String,
    #[serde(default)]
    pub(crate) repo_tags: Option<Vec<String>>,
    pub(crate) layers: Vec<String>,
}

/// The configuration of an image. Its digest is the image's id.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Configuration {
    pub(crate) architecture: String,
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) created: Option<String>,
    #[serde(default)]
    pub(crate) config: Option<RunSettings>,
    pub(crate) rootfs: RootFiles,
}

/// The image's settings for its program. Volumes, labels, ports and health checks are not read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct RunSettings {
    #[serde(default)]
    pub(crate) entrypoint: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) cmd: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) env: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) working_dir: Option<String>,
    #[serde(default)]
    pub(crate) user: Option<String>,
}

/// The digests of the layers, uncompressed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RootFiles {
    pub(crate) diff_ids: Vec<String>,
}

/// Parses a document.
pub(crate) fn document<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::Json { reason: error.to_string() })
}
