//! The initramfs: the image's modules and the guest.

use std::path::Path;

use stockade_bootimage::Cpio;
use stockade_carrier::guest_bytes;

use crate::QemuError;

/// Appends the guest of this version to the modules of an image.
pub(crate) fn initramfs(modules: Vec<u8>) -> Result<Vec<u8>, QemuError> {
    let guest = guest_bytes();
    if guest.is_empty() {
        return Err(QemuError::NoGuest);
    }
    let packed = || {
        let mut archive = Cpio::new(modules);
        archive.file(Path::new("init"), 0o755, guest)?;
        archive.finish()
    };
    packed().map_err(|source| QemuError::Prepare { doing: "pack the initramfs", source })
}
