//! Checks whether bytes are a static executable for a machine. Shared with the build script.

use std::fmt;

/// Why bytes are not a static executable for the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStatic {
    /// Not a little-endian 64-bit ELF executable, or its tables exceed the file.
    NotElf,
    /// Built for another machine.
    Machine { wanted: u16, found: u16 },
    /// It requires a dynamic loader.
    Interpreter,
    /// It requires a shared library.
    SharedLibrary,
}

impl fmt::Display for NotStatic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStatic::NotElf => write!(formatter, "it is not a 64-bit ELF executable"),
            NotStatic::Machine { wanted, found } => {
                write!(formatter, "it is for ELF machine {found}, not {wanted}")
            }
            NotStatic::Interpreter => write!(formatter, "it needs a dynamic loader (PT_INTERP)"),
            NotStatic::SharedLibrary => write!(formatter, "it needs shared libraries (DT_NEEDED)"),
        }
    }
}

/// The ELF machine number of an architecture, by its Rust name.
pub(crate) fn machine_of(architecture: &str) -> Option<u16> {
    match architecture {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        _ => None,
    }
}

/// Checks that `image` runs without a loader or a library. See elf(5).
pub(crate) fn check_static(image: &[u8], machine: u16) -> Result<(), NotStatic> {
    const CLASS_64_LITTLE_ENDIAN: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
    const PROGRAM_HEADER_BYTES: u64 = 56;
    if !image.starts_with(&CLASS_64_LITTLE_ENDIAN) {
        return Err(NotStatic::NotElf);
    }
    let found = number(image, 18, 2)? as u16;
    if found != machine {
        return Err(NotStatic::Machine { wanted: machine, found });
    }
    let (table, entry_bytes, entries) =
        (number(image, 32, 8)?, number(image, 54, 2)?, number(image, 56, 2)?);
    if entry_bytes != PROGRAM_HEADER_BYTES || entries == 0 {
        return Err(NotStatic::NotElf);
    }
    (0..entries).try_for_each(|index| {
        let header = table.checked_add(index * entry_bytes).ok_or(NotStatic::NotElf)?;
        check_segment(image, header)
    })
}

fn check_segment(image: &[u8], header: u64) -> Result<(), NotStatic> {
    const DYNAMIC: u64 = 2;
    const INTERPRETER: u64 = 3;
    match number(image, header, 4)? {
        INTERPRETER => Err(NotStatic::Interpreter),
        DYNAMIC => {
            let start = number(image, header.saturating_add(8), 8)?;
            let bytes = number(image, header.saturating_add(32), 8)?;
            check_dynamic(image, start, bytes)
        }
        _ => Ok(()),
    }
}

fn check_dynamic(image: &[u8], start: u64, bytes: u64) -> Result<(), NotStatic> {
    const ENTRY_BYTES: u64 = 16;
    const END: u64 = 0;
    const NEEDED: u64 = 1;
    for index in 0..bytes / ENTRY_BYTES {
        match number(image, start.saturating_add(index * ENTRY_BYTES), 8)? {
            END => return Ok(()),
            NEEDED => return Err(NotStatic::SharedLibrary),
            _ => {}
        }
    }
    Ok(())
}

/// The little-endian number of `bytes` bytes at `offset`.
fn number(image: &[u8], offset: u64, bytes: usize) -> Result<u64, NotStatic> {
    let start = usize::try_from(offset).map_err(|_| NotStatic::NotElf)?;
    let end = start.checked_add(bytes).ok_or(NotStatic::NotElf)?;
    let field = image.get(start..end).ok_or(NotStatic::NotElf)?;
    Ok(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;
    use crate::guest_bytes;

    fn this_machine() -> u16 {
        machine_of(env::consts::ARCH).unwrap()
    }

    #[test]
    fn carried_guest_is_static() {
        assert_eq!(check_static(guest_bytes(), this_machine()), Ok(()));
    }

    #[test]
    fn dynamic_test_executable_is_not_static() {
        let image = fs::read(env::current_exe().unwrap()).unwrap();
        assert_eq!(check_static(&image, this_machine()), Err(NotStatic::Interpreter));
    }

    #[test]
    fn shared_library_need_is_found_without_an_interpreter() {
        let mut image = vec![0; 64 + 56 + 16];
        image[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        image[18] = 62;
        (image[32], image[54], image[56]) = (64, 56, 1);
        let segment = 64;
        (image[segment], image[segment + 8], image[segment + 32]) = (2, 120, 16);
        assert_eq!(check_static(&image, 62), Ok(()));
        image[120] = 1;
        assert_eq!(check_static(&image, 62), Err(NotStatic::SharedLibrary));
    }

    #[test]
    fn guest_for_another_machine_is_refused() {
        let other = if this_machine() == 62 { 183 } else { 62 };
        let refused = check_static(guest_bytes(), other);
        assert_eq!(refused, Err(NotStatic::Machine { wanted: other, found: this_machine() }));
    }

    #[test]
    fn every_truncation_of_the_headers_is_refused_without_a_panic() {
        for kept in 0..64 {
            let refused = check_static(&guest_bytes()[..kept], this_machine());
            assert_eq!(refused, Err(NotStatic::NotElf), "{kept} bytes");
        }
        assert_eq!(check_static(b"#!/bin/sh\n", 62), Err(NotStatic::NotElf));
    }
}
