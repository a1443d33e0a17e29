//! Bringing up the loopback interface of a network namespace.
#![expect(unsafe_code, reason = "interface flags are set through ioctl(2)")]
// UNSAFETY: two ioctl(2) calls on a socket of our own, each with a structure of the right type.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType};

/// Sets the loopback interface of the caller's network namespace up. See netdevice(7).
pub fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: an all-zero ifreq is a valid value of that plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    let address = &raw mut request;
    // SAFETY: SIOCGIFFLAGS reads the name and writes the flags of the ifreq behind `address`, which
    // is ours and lives through the call.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, address) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the union holds the flags that the call above has just written.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    let address = &raw mut request;
    // SAFETY: SIOCSIFFLAGS reads the name and the flags of the same structure.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, address) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
