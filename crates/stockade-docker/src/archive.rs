//! The files that a container gets before its start, as an archive for the engine.

use std::io;

use stockade_carrier::guest_bytes;
use stockade_provider::{ToolAccess, java_store, java_store_path};
use tar::{Builder, EntryType, Header};

use crate::DockerError;

/// Where the guest's executable is in the container.
pub(crate) const GUEST: &str = "/run/stockade/guest";

/// Where the guest opens the tool socket. The directory of the archive belongs to root, and the
/// guest does not.
pub(crate) const SOCKET: &str = "/run/stockade-guest/tools.sock";

/// The certificates that programs must trust, if connections are opened.
pub(crate) const AUTHORITIES: &str = "/run/stockade/authorities.pem";
const AUTHORITIES_NAME: &str = "authorities.pem";

/// The maximum total size of all tool files, and their maximum number.
const MOST_BYTES: usize = 4 << 20;
const MOST_FILES: usize = 256;

/// The content of [`ToolAccess::DIRECTORY`]: the guest and, with tools, the files of programs. All
/// of it belongs to root, and no process in the container is root.
pub(crate) fn archive(
    tools: Option<&ToolAccess>,
    authorities: Option<&str>,
) -> Result<Vec<u8>, DockerError> {
    let guest = guest_bytes();
    if guest.is_empty() {
        return Err(DockerError::NoGuest);
    }
    if let Some(access) = tools {
        let bytes: usize = access.files.iter().map(|(_, content)| content.len()).sum();
        if bytes > MOST_BYTES || access.files.len() > MOST_FILES {
            let files = access.files.len();
            let reason = format!(
                "their descriptions are {bytes} bytes in {files} files, and at most {MOST_BYTES} in \
                 {MOST_FILES} can be shown"
            );
            return Err(DockerError::Tools { reason });
        }
    }
    packed(guest, tools, authorities).map_err(|source| {
        let doing = "pack the guest for the container";
        DockerError::Prepare { doing, source }
    })
}

/// A bundle of certificates, for the volume that covers its directory.
pub(crate) fn bundle(name: &str, authorities: &str) -> Result<Vec<u8>, DockerError> {
    let pack = || {
        let mut builder = Builder::new(Vec::new());
        let mut file = header(EntryType::Regular, 0o444, authorities.len());
        builder.append_data(&mut file, name, authorities.as_bytes())?;
        builder.into_inner()
    };
    pack().map_err(|source| DockerError::Prepare { doing: "pack certificates", source })
}

fn packed(
    guest: &[u8],
    tools: Option<&ToolAccess>,
    authorities: Option<&str>,
) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::with_capacity(guest.len() + (64 << 10)));
    let mut directory = header(EntryType::Directory, 0o755, 0);
    builder.append_data(&mut directory, "./", io::empty())?;
    let mut executable = header(EntryType::Regular, 0o555, guest.len());
    builder.append_data(&mut executable, "guest", guest)?;
    if let Some(content) = authorities {
        let mut file = header(EntryType::Regular, 0o444, content.len());
        builder.append_data(&mut file, AUTHORITIES_NAME, content.as_bytes())?;
        let store = java_store(content);
        let mut file = header(EntryType::Regular, 0o444, store.len());
        builder.append_data(&mut file, java_store_path(AUTHORITIES_NAME), store.as_slice())?;
    }
    let Some(access) = tools else { return builder.into_inner() };
    for (path, content) in &access.files {
        let mut file = header(EntryType::Regular, 0o444, content.len());
        builder.append_data(&mut file, path, content.as_slice())?;
    }
    let mut link = header(EntryType::Symlink, 0o777, 0);
    builder.append_link(&mut link, "bin/stockade-tool", "../guest")?;
    let mut link = header(EntryType::Symlink, 0o777, 0);
    builder.append_link(&mut link, "tools.sock", SOCKET)?;
    builder.into_inner()
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_the_archive_belongs_to_root_and_is_closed_to_others() {
        let access = ToolAccess {
            files: vec![("python/tools.py".to_owned(), b"pass".to_vec())],
            environment: Vec::new(),
        };
        let bytes = packed(b"guest", Some(&access), Some("pem")).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let listed: Vec<(String, u64, u32)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().uid().unwrap(), entry.header().mode().unwrap())
            })
            .collect();
        let entry = |path: &str, mode| (path.to_owned(), 0, mode);
        let expected = [
            entry("./", 0o755),
            entry("guest", 0o555),
            entry("authorities.pem", 0o444),
            entry("authorities.jks", 0o444),
            entry("python/tools.py", 0o444),
            entry("bin/stockade-tool", 0o777),
            entry("tools.sock", 0o777),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn too_many_or_too_large_tool_files_are_refused() {
        let file = |bytes: usize| ("x".to_owned(), vec![b'x'; bytes]);
        for files in [vec![file(MOST_BYTES + 1)], vec![file(0); MOST_FILES + 1]] {
            let access = ToolAccess { files, environment: Vec::new() };
            assert!(matches!(archive(Some(&access), None), Err(DockerError::Tools { .. })));
        }
    }
}
