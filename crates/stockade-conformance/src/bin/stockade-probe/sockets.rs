//! Connecting to servers, and the socket families that can be created.

use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::time::Duration;

use stockade_conformance::Tried;
use stockade_sys::probe::{Argument, raw_call};

use crate::{Act, number, word};

pub(crate) const ACTS: &[(&str, Act)] = &[
    ("abstract-socket", abstract_socket),
    ("socket-files", socket_files),
    ("make-socket", make_socket),
    ("loopback", loopback),
    ("families", families),
    ("netlink", netlink),
    ("interfaces", interfaces),
];

const PATIENCE: Duration = Duration::from_millis(500);

fn hear(mut stream: impl Read) -> io::Result<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn abstract_socket(words: &[&str]) -> Tried {
    let address = UnixAddress::from_abstract_name(word(words, 0));
    let stream = address.and_then(|address| UnixStream::connect_addr(&address));
    Tried::one(stream.and_then(hear))
}

fn socket_files(words: &[&str]) -> Tried {
    let mut tried = Tried::default();
    for path in words {
        tried.add(path, UnixStream::connect(path).and_then(hear));
    }
    tried
}

/// Makes a socket, and removes it again.
fn make_socket(words: &[&str]) -> Tried {
    let path = word(words, 0);
    // One of an earlier trial may be there.
    let _ = std::fs::remove_file(path);
    let made = UnixListener::bind(path);
    let _ = std::fs::remove_file(path);
    Tried::one(made.map(|_| String::new()))
}

/// Contacts servers on the loopback addresses, over TCP and UDP.
fn loopback(words: &[&str]) -> Tried {
    let port = u16::try_from(number(words, 0)).unwrap_or(0);
    let mut tried = Tried::default();
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    for address in addresses {
        let stream = TcpStream::connect_timeout(&address, PATIENCE);
        tried.add(&format!("tcp {}", address.ip()), stream.and_then(hear));
        let own: SocketAddr = match address.is_ipv4() {
            true => (Ipv4Addr::UNSPECIFIED, 0).into(),
            false => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let ask = || -> io::Result<String> {
            let socket = UdpSocket::bind(own)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(address)?;
            socket.send(b"?")?;
            let mut bytes = [0; 64];
            let length = socket.recv(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
        };
        tried.add(&format!("udp {}", address.ip()), ask());
    }
    tried
}

/// Tries to create a socket of every family and type.
fn families(_: &[&str]) -> Tried {
    let mut found = Vec::new();
    for family in 0..=45 {
        for kind in [1, 2, 3, 5] {
            let numbers = [family, kind, 0].map(Argument::Number);
            if raw_call(libc::SYS_socket, &mut { numbers }).is_ok() {
                found.push(format!("{family}/{kind}"));
            }
        }
    }
    Tried::one(Ok(found.join(" ")))
}

/// Tries to open every netlink protocol.
fn netlink(_: &[&str]) -> Tried {
    let mut found = Vec::new();
    for protocol in 0..=22 {
        let numbers = [libc::AF_NETLINK as u32, 3, protocol].map(Argument::Number);
        if raw_call(libc::SYS_socket, &mut { numbers }).is_ok() {
            found.push(protocol.to_string());
        }
    }
    Tried::one(Ok(found.join(" ")))
}

/// The network interfaces, by name.
fn interfaces(_: &[&str]) -> Tried {
    let text = std::fs::read_to_string("/proc/net/dev");
    let names = text.map(|text| {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(name, _)| name.trim().to_owned()).collect::<Vec<_>>().join(" ")
    });
    Tried::one(names)
}
