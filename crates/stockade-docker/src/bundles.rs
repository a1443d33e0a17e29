//! The bundles of certificates in an image, which programs trust that read no variable.
//!
//! The root of a container is read-only, and an engine fills only volumes before the start. So the
//! directory of a bundle becomes a volume, into which the engine copies what the image has there.
//!
//! A volume is on the engine's disk, without a limit, and the image is not trusted. So its directory
//! is read first: one that is large, or in which anyone but root can write, stays as it is.

use std::path::Path;

use bollard::models::{ContainerCreateBody, HostConfig};
use stockade_archive::{ArchiveEntry, Entries, EntryKind};

use crate::DockerError;
use crate::engine::Engine;
use crate::image::Image;
use crate::owner::Labels;
use crate::start::{Container, created};
use crate::volumes::{Volumes, in_memory, resolved};

/// Where systems keep their bundle.
const BUNDLES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most bytes of the archive of a bundle's directory.
const MOST_BYTES: usize = 16 << 20;

/// The file of a bundle, without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// Its directory, which becomes a volume.
    pub(crate) directory: String,
    /// Its name.
    pub(crate) name: String,
}

/// The bundles of an image, without those that the caller or another volume covers, and those whose
/// directory is large or open.
pub(crate) async fn find(
    engine: &Engine,
    image: &Image,
    volumes: &Volumes,
) -> Result<Vec<Bundle>, DockerError> {
    let container = never_started(engine, &image.id, &image.volumes).await?;
    let mut found = Vec::new();
    for path in BUNDLES {
        let (path, exists) = resolved(engine, &container.id, Path::new(path)).await?;
        let bundle = of(&path).filter(|it| exists && !volumes.covers(Path::new(&it.directory)));
        let Some(bundle) = bundle.filter(|it| !found.contains(it)) else { continue };
        let archive = container.download(&bundle.directory, MOST_BYTES).await?;
        if archive.len() <= MOST_BYTES && is_closed(&archive) {
            found.push(bundle);
        }
    }
    container.remove().await?;
    Ok(found)
}

/// The bundle at a path. A link of the image must not lead to a large directory, which the engine
/// would copy.
fn of(path: &Path) -> Option<Bundle> {
    let directory = path.parent()?;
    let is_settings = directory.starts_with("/etc") && directory != Path::new("/etc");
    let (directory, name) = (directory.to_str()?, path.file_name()?.to_str()?);
    is_settings.then(|| Bundle { directory: directory.to_owned(), name: name.to_owned() })
}

/// Whether the archive of a directory is whole, and only root can write to what is in it.
fn is_closed(archive: &[u8]) -> bool {
    /// What ends every archive.
    const END: [u8; 1024] = [0; 1024];
    let mut entries = Entries::new(archive);
    loop {
        match entries.next_entry() {
            Ok(Some(entry)) if is_roots(&entry) => {}
            Ok(None) => return archive.ends_with(&END),
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

fn is_roots(entry: &ArchiveEntry) -> bool {
    let only_root_writes =
        entry.attributes.user == Some(0) && entry.attributes.mode.is_some_and(|it| it & 0o022 == 0);
    match entry.kind {
        // Its owner cannot change it, only the owner of its directory.
        EntryKind::Link { .. } => true,
        EntryKind::Special => false,
        EntryKind::File { .. } | EntryKind::Directory | EntryKind::HardLink { .. } => {
            only_root_writes
        }
    }
}

/// A container of an image, for a look at its files.
pub(crate) async fn never_started(
    engine: &Engine,
    image: &str,
    volumes: &[String],
) -> Result<Container, DockerError> {
    let labels = Labels::new()?;
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/never-started".to_owned()]),
        labels: Some(labels.labels),
        network_disabled: Some(true),
        host_config: Some(HostConfig { tmpfs: Some(in_memory(volumes)), ..HostConfig::default() }),
        ..ContainerCreateBody::default()
    };
    created(engine, &labels.name, body).await
}

#[cfg(test)]
mod tests {
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// An archive as of an engine, with one more entry.
    fn archive(kind: EntryType, mode: u32, user: u64) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut append = |name: &str, kind, mode, user, content: &[u8]| {
            let mut header = Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_uid(user);
            header.set_gid(0);
            header.set_size(content.len() as u64);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("certs/a.crt").unwrap();
            }
            builder.append_data(&mut header, name, content).unwrap();
        };
        append("certs/", EntryType::Directory, 0o755, 0, b"");
        append("certs/a.crt", EntryType::Regular, 0o644, 0, &[b'x'; 700]);
        append("certs/more", kind, mode, user, b"");
        builder.into_inner().unwrap()
    }

    #[test]
    fn directory_in_which_anyone_but_root_can_write_is_no_bundle() {
        use EntryType::{Directory, Fifo, Link, Regular, Symlink};
        for (kind, mode, user) in [
            (Regular, 0o644, 0),
            (Directory, 0o755, 0),
            (Link, 0o644, 0),
            (Symlink, 0o777, 0),
            (Symlink, 0o777, 65534),
        ] {
            assert!(is_closed(&archive(kind, mode, user)), "{kind:?} {mode:o} {user}");
        }
        for (kind, mode, user) in [
            (Regular, 0o644, 65534),
            (Regular, 0o646, 0),
            (Regular, 0o664, 0),
            (Directory, 0o755, 65534),
            (Directory, 0o1777, 0),
            (Directory, 0o775, 0),
            (Link, 0o666, 0),
            (Fifo, 0o600, 0),
        ] {
            assert!(!is_closed(&archive(kind, mode, user)), "{kind:?} {mode:o} {user}");
        }
    }

    #[test]
    fn directory_that_is_cut_is_no_bundle() {
        let whole = archive(EntryType::Regular, 0o644, 0);
        assert!(is_closed(&whole));
        for bytes in (0..whole.len()).step_by(512) {
            assert!(!is_closed(&whole[..bytes]), "{bytes}");
        }
    }

    #[test]
    fn bundle_is_a_file_in_a_directory_of_settings() {
        let bundle = of(Path::new("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem")).unwrap();
        assert_eq!(bundle.directory, "/etc/pki/ca-trust/extracted/pem");
        assert_eq!(bundle.name, "tls-ca-bundle.pem");
        for elsewhere in ["/usr/lib/x.crt", "/etc/x.crt", "/x.crt", "/", "/output/x.crt"] {
            assert_eq!(of(Path::new(elsewhere)), None, "{elsewhere}");
        }
    }
}
