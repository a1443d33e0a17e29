//! In-memory files that no process can change any more.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// Why the sealed file could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealedFileError {
    /// The kernel refused the file.
    #[error("cannot create the in-memory file {name}")]
    Create {
        /// The requested name.
        name: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The host forbids executable in-memory files.
    #[error("cannot create the in-memory file {name}: the sysctl vm.memfd_noexec is 2 here")]
    ExecutableForbidden {
        /// The requested name.
        name: String,
    },
    /// The kernel did not take all bytes.
    #[error("cannot write {bytes} bytes to the in-memory file {name}")]
    Write {
        /// The file.
        name: String,
        /// The number of bytes to write.
        bytes: usize,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The file could not be sealed; the caller does not get it.
    #[error("cannot seal the in-memory file {name}")]
    Seal {
        /// The file.
        name: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

/// Creates an executable in-memory file that no process can write, grow, shrink or unseal.
///
/// `/proc` shows the file as `name`. The descriptor closes on exec. See memfd_create(2).
pub fn sealed_file(name: &str, bytes: &[u8]) -> Result<OwnedFd, SealedFileError> {
    let mut file = File::from(create(name)?);
    file.write_all(bytes).map_err(|source| SealedFileError::Write {
        name: name.to_owned(),
        bytes: bytes.len(),
        source,
    })?;
    // After the last write: F_SEAL_WRITE refuses later ones. F_SEAL_SEAL forbids changing the
    // seals.
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)
        .map_err(|errno| SealedFileError::Seal { name: name.to_owned(), source: errno.into() })?;
    Ok(file.into())
}

fn create(name: &str) -> Result<OwnedFd, SealedFileError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux before 6.3 fails with EINVAL for MFD_EXEC and makes every memfd executable.
    let created = match memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        other => other,
    };
    created.map_err(|errno| creation_error(name, errno))
}

fn creation_error(name: &str, errno: Errno) -> SealedFileError {
    let name = name.to_owned();
    match errno {
        // EACCES has one cause: MFD_EXEC under vm.memfd_noexec=2, memfd_create(2).
        Errno::ACCESS => SealedFileError::ExecutableForbidden { name },
        errno => SealedFileError::Create { name, source: errno.into() },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use rustix::fs::{fcntl_get_seals, ftruncate};
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn sealed_file_refuses_what_its_unsealed_twin_allows() {
        let twin = create("twin").unwrap();
        let mut twin = File::from(twin);
        twin.write_all(b"before").unwrap();
        twin.write_all(b"and after").unwrap();
        ftruncate(&twin, 1).unwrap();
        ftruncate(&twin, 100).unwrap();
        fcntl_add_seals(&twin, SealFlags::WRITE).unwrap();

        let mut sealed = File::from(sealed_file("sealed", b"before").unwrap());
        let refused = sealed.write_all(b"x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::PERM.raw_os_error()));
        assert_eq!(ftruncate(&sealed, 1), Err(Errno::PERM));
        assert_eq!(ftruncate(&sealed, 100), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&sealed, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
        let mut text = String::new();
        sealed.seek(SeekFrom::Start(0)).unwrap();
        sealed.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before");
    }

    #[test]
    fn sealed_file_carries_all_four_seals_and_closes_on_exec() {
        let file = sealed_file("sealed", b"").unwrap();
        let wanted = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        assert!(fcntl_get_seals(&file).unwrap().contains(wanted));
        assert_eq!(fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
    }

    #[test]
    fn error_names_the_sysctl_that_forbids_executable_memfds() {
        let refused = creation_error("guest", Errno::ACCESS).to_string();
        assert!(refused.ends_with("the sysctl vm.memfd_noexec is 2 here"), "{refused}");
    }

    #[test]
    fn error_names_the_file_whose_name_the_kernel_refuses() {
        let long = "n".repeat(300);
        let refused = sealed_file(&long, b"").unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot create the in-memory file {long}"));
    }
}
