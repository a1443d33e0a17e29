//! The addresses of this machine's network interfaces.
#![expect(unsafe_code, reason = "getifaddrs(3) returns a linked list of C structures")]
// UNSAFETY: one list from getifaddrs(3) is walked and freed; each address is read according to its
// family field.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every address of every interface in the caller's network namespace. See getifaddrs(3).
pub fn interface_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes one pointer to `first`, which is ours; freeifaddrs below frees it.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut entry = first;
    while !entry.is_null() {
        // SAFETY: `entry` is an element of the list that getifaddrs made, which no other code
        // changes.
        let held = unsafe { &*entry };
        if let Some(address) = address_of(held.ifa_addr) {
            found.push(address);
        }
        entry = held.ifa_next;
    }
    // SAFETY: `first` came from getifaddrs, is freed once, and no reference to it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null and getifaddrs made it point to a socket address, which
    // always has a family field.
    let family = unsafe { (*address).sa_family };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of family AF_INET is a sockaddr_in; it is read by value.
            let internet = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(internet.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of family AF_INET6 is a sockaddr_in6; it is read by value.
            let internet = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(internet.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_include_loopback() {
        let addresses = interface_addresses().unwrap();
        assert!(addresses.contains(&Ipv4Addr::LOCALHOST.into()), "{addresses:?}");
    }
}
