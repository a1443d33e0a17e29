//! The loopback interface of a network namespace.
#![expect(unsafe_code, reason = "interface flags are set through ioctl(2)")]
// UNSAFETY: two ioctl(2) calls on a socket of our own, each with a structure of the right type.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketType};

use crate::netlink::{Act, Batch};

/// Brings up the loopback interface of the caller's network namespace. See netdevice(7).
pub fn bring_up_loopback() -> io::Result<()> {
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

/// Adds an address to the loopback interface of the caller's network namespace. See rtnetlink(7).
pub fn add_loopback_address(address: Ipv4Addr) -> io::Result<()> {
    const NEW_ADDRESS: u16 = 20;
    const IPV4: u8 = 2;
    const PREFIX: u8 = 8;
    /// RT_SCOPE_HOST: valid only inside this host.
    const SCOPE_HOST: u8 = 254;
    /// The index of the loopback interface in every network namespace.
    const INTERFACE: u32 = 1;
    let [a, b, c, d] = INTERFACE.to_ne_bytes();
    let mut batch = Batch::default();
    batch.message(
        NEW_ADDRESS,
        Act::Make,
        &[IPV4, PREFIX, 0, SCOPE_HOST, a, b, c, d],
        |attributes| {
            attributes.bytes(1, &address.octets());
            attributes.bytes(2, &address.octets());
        },
    );
    batch.send(None)
}
