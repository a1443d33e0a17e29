//! Which user has the other end of a connection on loopback, from the kernel's tables.
//!
//! The tables list the peer's socket too, with its user, proc_pid_net(5). A socket that no process
//! has any longer has inode 0 and user 0 there, so such a line identifies no user.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// What is known about the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// It belongs to the owner.
    Owner,
    /// It belongs to another user.
    Other {
        /// The user.
        user: u32,
    },
    /// The kernel does not report the user.
    Unknown {
        /// Why.
        why: String,
    },
}

/// Finds the user of the other end of a connection that was accepted at `here`.
pub(super) fn peer(from: SocketAddr, here: SocketAddr, owner: u32) -> Peer {
    let mut tables = Vec::new();
    for name in ["tcp", "tcp6"] {
        match fs::read_to_string(format!("/proc/self/net/{name}")) {
            Ok(table) => tables.push(table),
            // A kernel without IPv6 has no second table.
            Err(_) if name == "tcp6" && from.is_ipv4() => {}
            Err(error) => return Peer::Unknown { why: format!("/proc/self/net/{name}: {error}") },
        }
    }
    let found = tables.iter().find_map(|table| user_in(table, from, here));
    let Some(user) = found else {
        return Peer::Unknown { why: "the kernel's table of connections lacks it".to_owned() };
    };
    match user {
        _ if user != owner => Peer::Other { user },
        _ if is_ambiguous(user) => Peer::Unknown {
            why: format!("user {user} stands for every user that this namespace does not have"),
        },
        _ => Peer::Owner,
    }
}

/// The user of the socket with these ends, if a table has it and a process still has the socket.
fn user_in(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let (local, remote) = (forms(local), forms(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (here, there) = (fields.nth(1)?, fields.next()?);
        if !local
            .iter()
            .zip(&remote)
            .any(|ends| (ends.0.as_str(), ends.1.as_str()) == (here, there))
        {
            return None;
        }
        let (user, inode) = (fields.nth(4)?, fields.nth(1)?);
        let inode: u64 = inode.parse().ok()?;
        (inode != 0).then(|| user.parse().ok())?
    })
}

/// An address as the tables write it: as it is, and as a socket of IPv6 has one of IPv4.
fn forms(address: SocketAddr) -> Vec<String> {
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).map(|word| {
            let word: [u8; 4] = word.try_into().expect("a chunk has four bytes");
            // The kernel prints each word as a number of this machine.
            format!("{:08X}", u32::from_ne_bytes(word))
        });
        words.collect()
    };
    let port = address.port();
    let with_port = |bytes: &[u8]| format!("{}:{port:04X}", words(bytes));
    match address.ip() {
        IpAddr::V4(ip) => vec![with_port(&ip.octets()), with_port(&ip.to_ipv6_mapped().octets())],
        IpAddr::V6(ip) => vec![with_port(&ip.octets())],
    }
}

/// Whether a user id stands for every user that this user namespace does not map,
/// user_namespaces(7).
fn is_ambiguous(user: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse::<u32>().ok());
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let maps_all = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    overflow.is_none_or(|overflow| overflow == user) && !maps_all
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Four connections: the client's end, the server's, one without a process, one of IPv6.
    #[cfg(target_endian = "little")]
    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 101 1
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 102 1
   3: 0100007F:C351 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 0 1
   4: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1F90 01 0:0 00:0 0  7 0 9 1
";

    #[cfg(target_endian = "little")]
    #[test]
    fn table_names_the_user_of_the_other_end_and_not_of_ours() {
        let user = |from: &str| user_in(TABLE, address(from), address("127.0.0.1:8080"));
        assert_eq!(user("127.0.0.1:50000"), Some(1000));
        assert_eq!(user("127.0.0.1:50001"), None, "no process has it, so user 0 means nothing");
        assert_eq!(user("127.0.0.1:50002"), Some(7), "a socket of IPv6");
        assert_eq!(user("127.0.0.1:50003"), None);
        assert_eq!(user("127.0.0.2:50000"), None);
    }

    #[test]
    fn malformed_lines_name_no_user() {
        for line in ["", "x", "1: 0100007F:C350", "1: 0100007F:C350 0100007F:1F90 01 a b c d e f"] {
            let table = format!("head\n{line}\n");
            let (from, here) = (address("127.0.0.1:50000"), address("127.0.0.1:8080"));
            assert_eq!(user_in(&table, from, here), None, "{line}");
        }
    }

    #[test]
    fn own_connections_of_both_families_are_the_owners() {
        let own = rustix::process::geteuid().as_raw();
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let here = listener.local_addr().unwrap();
            let client = TcpStream::connect(here).unwrap();
            let (_server, from) = listener.accept().unwrap();
            assert_eq!(peer(from, here, own), Peer::Owner, "{listen}");
            assert_eq!(peer(from, here, own + 1), Peer::Other { user: own });
            drop(client);
            // The server's end still has the connection, and no process has the client's.
            let found = peer(from, here, own);
            assert!(matches!(found, Peer::Unknown { .. }), "{found:?}");
        }
    }

    #[test]
    fn addresses_are_written_as_the_kernel_writes_them() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(forms(address("127.0.0.1:80"))[1], forms(SocketAddr::new(mapped.into(), 80))[0]);
        assert_eq!(
            forms(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 1)),
            [format!("{}:0001", "0".repeat(32))]
        );
    }
}
