//! Logs the packets that arrive from the machine, before any server answers them.
//!
//! Only packets that start something are logged: the first packet of a TCP connection, datagrams,
//! ICMP except IPv6 neighbour discovery, and every other protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with, sockopt,
};

use crate::log::{Log, LogEntry};
use crate::world::MACHINE_HARDWARE;

/// The receive buffer; large, so that no packet is lost in a burst.
const BUFFER_BYTES: usize = 32 << 20;
/// Enough for the headers and the first bytes of the payload.
const LOOKED_AT_BYTES: usize = 512;
const ETHERNET_BYTES: usize = 14;

/// Starts a thread that logs packets.
pub(super) fn watch(log: Log) -> io::Result<()> {
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, Some(eth::ALL))?;
    // Only the host's root may exceed the host's limit; other users get that limit.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    }
    std::thread::Builder::new().name("packets".to_owned()).spawn(move || {
        let mut frame = [0; LOOKED_AT_BYTES];
        loop {
            // The link goes down once, when the machine ends.
            let Ok((length, _)) = recv(&socket, &mut frame, RecvFlags::empty()) else { continue };
            if let Some(entry) = entry(&frame[..length]) {
                log.add(&entry);
            }
        }
    })?;
    Ok(())
}

/// The entry for a frame, if it is from the machine and starts something.
fn entry(frame: &[u8]) -> Option<LogEntry> {
    if frame.get(6..12)? != MACHINE_HARDWARE {
        return None;
    }
    let packet = &frame[ETHERNET_BYTES..];
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 => four(packet),
        0x86dd => six(packet),
        // ARP only asks the router for its hardware address.
        0x0806 => None,
        other => Some(LogEntry::new("packet", &format!("ethernet {other:#06x}"))),
    }
}

fn four(packet: &[u8]) -> Option<LogEntry> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let address = |at: usize| {
        let bytes: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(bytes)))
    };
    // Only the first fragment has the transport header.
    let first = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff == 0;
    inside(*packet.get(9)?, address(12)?, address(16)?, packet.get(header..)?, first)
}

fn six(packet: &[u8]) -> Option<LogEntry> {
    let address = |at: usize| {
        let bytes: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bytes)))
    };
    let (mut protocol, mut rest) = (*packet.get(6)?, packet.get(40..)?);
    // Multicast listener reports have hop-by-hop options before the ICMPv6 header.
    if protocol == 0 {
        protocol = *rest.first()?;
        rest = rest.get((usize::from(*rest.get(1)?) + 1) * 8..)?;
    }
    inside(protocol, address(8)?, address(24)?, rest, true)
}

fn inside(protocol: u8, from: IpAddr, to: IpAddr, rest: &[u8], first: bool) -> Option<LogEntry> {
    let ports = || {
        let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
        Some((SocketAddr::new(from, port(0)?), SocketAddr::new(to, port(2)?)))
    };
    let text = |at: usize| String::from_utf8_lossy(rest.get(at..).unwrap_or_default()).into_owned();
    let plain = |event: &str| {
        let entry = LogEntry::new("packet", event);
        LogEntry { from: from.to_string(), to: to.to_string(), ..entry }
    };
    match protocol {
        _ if !first => Some(plain("fragment")),
        6 => {
            let (from, to) = ports()?;
            let flags = *rest.get(13)?;
            let begins = flags & 0x02 != 0 && flags & 0x10 == 0;
            begins.then(|| LogEntry::new("packet", "tcp").between(from, to))
        }
        17 => {
            let (from, to) = ports()?;
            let entry = LogEntry::new("packet", "udp").between(from, to).with(&text(8));
            let asked = (to.port() == 53).then(|| asked_name(rest.get(20..)?)).flatten();
            Some(entry.named(&asked.unwrap_or_default()))
        }
        1 => Some(plain("icmp").with(&format!("type {} {}", rest.first()?, text(8)))),
        58 if (130..=137).contains(rest.first()?) || *rest.first()? == 143 => None,
        58 => Some(plain("icmp6").with(&format!("type {} {}", rest.first()?, text(8)))),
        other => Some(plain(&format!("protocol {other}"))),
    }
}

/// The name in a DNS query, in lower case.
fn asked_name(mut question: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    loop {
        let (length, rest) = question.split_first()?;
        match usize::from(*length) {
            0 => return Some(labels.join(".")),
            length => {
                let label = rest.get(..length)?;
                labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
                question = &rest[length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame from the machine, without options, with this payload.
    fn frame(protocol: u8, inside: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 6];
        frame.extend(MACHINE_HARDWARE);
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([192, 168, 77, 2, 93, 184, 1, 1]);
        frame.extend(inside);
        frame
    }

    fn tcp(flags: u8) -> Vec<u8> {
        let mut header = vec![0xc0, 0x00, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50];
        header.extend([flags, 0, 0, 0, 0, 0, 0]);
        header
    }

    #[test]
    fn first_packet_of_a_connection_is_logged_and_later_ones_are_not() {
        let logged = entry(&frame(6, &tcp(0x02))).unwrap();
        assert_eq!((logged.event.as_str(), logged.to.as_str()), ("tcp", "93.184.1.1:443"));
        assert_eq!(entry(&frame(6, &tcp(0x10))), None);
        assert_eq!(entry(&frame(6, &tcp(0x12))), None);
    }

    #[test]
    fn datagrams_icmp_and_unknown_protocols_are_logged() {
        let datagram = [0xc0, 0, 0, 9, 0, 10, 0, 0, b'h', b'i'];
        assert_eq!(entry(&frame(17, &datagram)).unwrap().detail, "hi");
        assert_eq!(entry(&frame(1, &[8, 0, 0, 0, 0, 1, 0, 1])).unwrap().event, "icmp");
        assert_eq!(entry(&frame(132, &[0; 8])).unwrap().event, "protocol 132");
    }

    #[test]
    fn dns_query_is_logged_with_its_name() {
        let mut datagram = vec![0xc0, 0, 0, 53, 0, 40, 0, 0, 0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        datagram.extend(*b"\x05Files\x04test\0\0\x01\0\x01");
        assert_eq!(entry(&frame(17, &datagram)).unwrap().name, "files.test");
        assert_eq!(entry(&frame(17, &datagram[..24])).unwrap().name, "");
    }

    #[test]
    fn packets_of_other_senders_and_truncated_packets_are_not_logged() {
        let mut other = frame(6, &tcp(0x02));
        other[6..12].copy_from_slice(&[0; 6]);
        assert_eq!(entry(&other), None);
        assert_eq!(entry(&frame(6, &[])), None);
        assert_eq!(entry(&[0; 4]), None);
    }
}
