//! New state for the kernel's random generator.
#![expect(unsafe_code, reason = "the generator is seeded through ioctl(2)")]
// UNSAFETY: two ioctl(2) calls on a descriptor of our own, one with a structure of the right type.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The most bytes of one call.
const MOST: usize = 128;
/// `_IOW('R', 0x03, int[2])` and `_IO('R', 0x07)` of linux/random.h, which libc lacks.
const ADD_ENTROPY: u64 = 0x4008_5203;
const RESEED: u64 = 0x5207;

/// The `rand_pool_info` of linux/random.h with its buffer.
#[repr(C)]
struct Pool {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    buffer: [u8; MOST],
}

/// Adds up to 128 random bytes to the kernel's generator and makes it derive its key from them at
/// once, so that nothing that it produced before predicts what follows. See random(4); needs
/// CAP_SYS_ADMIN.
pub fn reseed_kernel_random(bytes: &[u8]) -> io::Result<()> {
    let bytes = &bytes[..bytes.len().min(MOST)];
    let length = libc::c_int::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut pool = Pool { entropy_bits: length * 8, bytes: length, buffer: [0; MOST] };
    pool.buffer[..bytes.len()].copy_from_slice(bytes);
    let device = File::options().write(true).open("/dev/urandom")?;
    // SAFETY: RNDADDENTROPY reads the two numbers and as many bytes of the buffer as the second
    // names, which is at most its size; `pool` lives through the call.
    let added = unsafe { libc::ioctl(device.as_raw_fd(), ADD_ENTROPY as _, &raw const pool) };
    if added != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: RNDRESEEDCRNG takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), RESEED as _) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_takes_more_bytes_than_it_has_room_for_unless_the_caller_lacks_the_right() {
        let bytes = crate::random_bytes::<{ MOST + 1 }>().unwrap();
        // Root of a container or a user namespace lacks it too.
        let error = reseed_kernel_random(&bytes).err().and_then(|error| error.raw_os_error());
        assert!(error.is_none_or(|errno| errno == libc::EPERM), "{error:?}");
    }
}
