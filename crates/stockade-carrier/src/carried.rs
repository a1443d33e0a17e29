//! The bytes of the guest and the sealed file with them.

use std::os::fd::OwnedFd;

use stockade_sys::{SealedFileError, sealed_file};

static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stockade-guest"));

/// Why the sealed file of the guest could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// This build carries no guest.
    #[error("this build carries no guest: there was no linker for its target")]
    NotBuilt,
    /// Creating the in-memory file failed.
    #[error(transparent)]
    File(#[from] SealedFileError),
}

/// The guest executable; empty only in a build that cannot be linked into a program.
pub fn guest_bytes() -> &'static [u8] {
    GUEST
}

/// A sealed, executable in-memory file with the guest. It is close-on-exec.
pub fn guest_file() -> Result<OwnedFd, CarryError> {
    match GUEST {
        [] => Err(CarryError::NotBuilt),
        bytes => Ok(sealed_file("stockade-guest", bytes)?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;

    const EPERM: i32 = 1;

    #[test]
    fn guest_file_cannot_be_written_while_an_ordinary_file_can() {
        let path = std::env::temp_dir().join(format!("stockade-carried-{}", std::process::id()));
        let mut ordinary = File::create_new(&path).unwrap();
        fs::remove_file(&path).unwrap();
        ordinary.write_all(b"x").unwrap();

        let mut sealed = File::from(guest_file().unwrap());
        assert_eq!(sealed.write_all(b"x").unwrap_err().raw_os_error(), Some(EPERM));
        assert_eq!(sealed.set_len(0).unwrap_err().raw_os_error(), Some(EPERM));
    }

    #[test]
    fn guest_file_holds_the_carried_bytes() {
        let file = File::from(guest_file().unwrap());
        assert_eq!(file.metadata().unwrap().len(), guest_bytes().len() as u64);
    }
}
