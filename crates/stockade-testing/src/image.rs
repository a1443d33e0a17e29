//! Archives with images, also wrong ones.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
pub use tar::EntryType;
use tar::Header;

use crate::program::finish;

/// A layer: a tar archive, entry by entry.
#[derive(Clone, Debug, Default)]
pub struct Layer(pub Vec<u8>);

impl Layer {
    /// Adds an entry.
    #[must_use]
    pub fn entry(self, name: &str, kind: EntryType, target: &str, content: &[u8]) -> Layer {
        self.owned(name, kind, target, content, 0o755, 0)
    }

    /// Adds an entry with a mode and an owner.
    #[must_use]
    pub fn owned(
        mut self,
        name: &str,
        kind: EntryType,
        target: &str,
        content: &[u8],
        mode: u32,
        owner: u64,
    ) -> Layer {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(1_700_000_000);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Adds a file of mode 0755.
    #[must_use]
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Layer {
        self.entry(name, EntryType::Regular, "", content.as_ref())
    }

    /// Adds a directory.
    #[must_use]
    pub fn directory(self, name: &str) -> Layer {
        self.entry(name, EntryType::Directory, "", b"")
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(self, name: &str, target: &str) -> Layer {
        self.entry(name, EntryType::Symlink, target, b"")
    }

    /// Adds a program of this host at its own path, with its shared libraries.
    #[must_use]
    pub fn program(self, path: &str) -> Layer {
        let listed = finish(Command::new("ldd").arg(path));
        let words = listed.stdout.split_whitespace().filter(|word| word.starts_with('/'));
        let mut layer = self;
        for path in [path].into_iter().chain(words) {
            let content = std::fs::read(path).expect("a program of this host can be read");
            layer = layer.file(path.trim_start_matches('/'), content);
        }
        layer
    }
}

/// An image: its layers and its configuration.
#[derive(Clone, Debug)]
pub struct Image {
    /// Lowest first, without compression.
    pub layers: Vec<Vec<u8>>,
    /// The configuration.
    pub config: Value,
    /// Its name.
    pub name: String,
    /// The annotations that name it in a layout.
    pub annotations: Value,
}

impl Image {
    /// An image for this machine. `run` is its `config`: ENTRYPOINT and the rest.
    pub fn new(name: &str, layers: Vec<Layer>, run: Value) -> Image {
        let layers: Vec<Vec<u8>> = layers.into_iter().map(|layer| layer.0).collect();
        let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": "2026-01-02T03:04:05Z",
            "config": run,
            "rootfs": { "type": "layers", "diff_ids": ids },
        });
        let (repository, tag) = name.rsplit_once(':').unwrap_or((name, "latest"));
        // As `docker save` writes them: the whole name, and only the tag.
        let annotations = json!({
            "io.containerd.image.name": format!("docker.io/library/{repository}:{tag}"),
            "org.opencontainers.image.ref.name": tag,
        });
        Image { layers, config, name: name.to_owned(), annotations }
    }

    /// The digest of its configuration.
    pub fn id(&self) -> String {
        digest(self.config.to_string().as_bytes())
    }

    /// The archive that `docker save` writes.
    pub fn saved(&self) -> Vec<u8> {
        let config = format!("{}.json", hex(self.config.to_string().as_bytes()));
        let names: Vec<String> =
            (0..self.layers.len()).map(|number| format!("{number}/layer.tar")).collect();
        let manifest =
            json!([{ "Config": config, "RepoTags": [self.name], "Layers": names }]).to_string();
        let mut archive = Layer::default().file(&config, self.config.to_string());
        for (name, layer) in names.iter().zip(&self.layers) {
            archive = archive.file(name, layer);
        }
        archive.file("manifest.json", manifest).0
    }

    /// An OCI layout; `compress` turns a layer into its blob, of this media type.
    pub fn layout(&self, media_type: &str, compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let mut archive = Layer::default().file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        let mut blob = |content: Vec<u8>, media_type: &str| {
            let name = format!("blobs/sha256/{}", hex(&content));
            let descriptor = json!({
                "mediaType": media_type, "digest": digest(&content), "size": content.len(),
            });
            archive = std::mem::take(&mut archive).file(&name, content);
            descriptor
        };
        let config = self.config.to_string().into_bytes();
        let config = blob(config, "application/vnd.oci.image.config.v1+json");
        let layers: Vec<Value> =
            self.layers.iter().map(|layer| blob(compress(layer), media_type)).collect();
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
        let manifest = manifest.to_string().into_bytes();
        let mut manifest = blob(manifest, "application/vnd.oci.image.manifest.v1+json");
        manifest["annotations"] = self.annotations.clone();
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        archive.file("index.json", index.to_string()).0
    }

    /// The same image for another machine, in the words of images.
    pub fn for_machine(mut self, architecture: &str) -> Image {
        self.config["architecture"] = architecture.into();
        self
    }

    /// An OCI layout as builders write it: `depth` indexes inside each other, and in the innermost
    /// the manifest of each image with its machine, each with an attestation of how it was built.
    pub fn nested_layout(images: &[Image], media_type: &str, depth: usize) -> Vec<u8> {
        const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
        const INDEX: &str = "application/vnd.oci.image.index.v1+json";
        let mut archive = Layer::default().file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        let mut blob = |content: Vec<u8>, media_type: &str| {
            let name = format!("blobs/sha256/{}", hex(&content));
            let descriptor = json!({
                "mediaType": media_type, "digest": digest(&content), "size": content.len(),
            });
            archive = std::mem::take(&mut archive).file(&name, content);
            descriptor
        };
        let mut manifests = Vec::new();
        for image in images {
            let config = image.config.to_string().into_bytes();
            let config = blob(config, "application/vnd.oci.image.config.v1+json");
            let layers: Vec<Value> =
                image.layers.iter().map(|layer| blob(layer.clone(), media_type)).collect();
            let manifest = json!({ "schemaVersion": 2, "config": config, "layers": layers });
            let mut manifest = blob(manifest.to_string().into_bytes(), MANIFEST);
            manifest["platform"] =
                json!({ "os": "linux", "architecture": image.config["architecture"] });
            let statement = json!({ "schemaVersion": 2, "of": manifest["digest"] });
            let mut attestation = blob(statement.to_string().into_bytes(), MANIFEST);
            attestation["platform"] = json!({ "os": "unknown", "architecture": "unknown" });
            attestation["annotations"] = json!({
                "vnd.docker.reference.type": "attestation-manifest",
                "vnd.docker.reference.digest": manifest["digest"],
            });
            manifests.extend([manifest, attestation]);
        }
        let mut index = json!({ "schemaVersion": 2, "manifests": manifests });
        for _ in 1..depth {
            let mut inner = blob(index.to_string().into_bytes(), INDEX);
            inner["annotations"] =
                images.first().map_or_else(|| json!({}), |image| image.annotations.clone());
            index = json!({ "schemaVersion": 2, "manifests": [inner] });
        }
        archive.file("index.json", index.to_string()).0
    }

    /// Writes the archive of `docker save` to a file.
    pub fn save(&self, path: &Path) {
        std::fs::write(path, self.saved()).expect("an archive can be written");
    }
}

/// `sha256:` and the digits.
pub fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
