//! What the guest arranges itself in a wall without our launcher: mainly its listeners.
//!
//! Nothing redirects connections there, so the guest binds listeners at each synthetic address
//! before the DNS answer with that address reaches the program.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use stockade_wire::{NAME_SERVER, Opening, PROXY, TOOL_SOCKET};

use crate::acceptor::{Acceptor, Origin, Slots};
use crate::opener::Opener;
use crate::reactor::Reactor;

/// What the guest arranges itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The ports on which programs reach hosts without the proxy. `None` means no network.
    pub ports: Option<Vec<u16>>,
    /// Loopback addresses at which programs reach services of the host, without the proxy.
    pub literals: Vec<SocketAddrV4>,
    /// Where to open the tool socket. `None` means no tools.
    pub tools: Option<PathBuf>,
    /// Where to open the socket for reports of denied commands. `None` means that no program of the
    /// image reports any.
    pub denials: Option<PathBuf>,
    /// The descriptor limit of programs, if it differs from the guest's.
    pub program_files: Option<u64>,
    /// Whether to write the kernel's release and version to standard error first.
    pub names_kernel: bool,
}

impl Own {
    /// Parses the command line: `network=80,443`, `literals=127.0.0.1:5432`, `tools` or
    /// `tools=PATH`, `denials=PATH`, `files=1024` and `kernel`, each at most once.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Option<Own> {
        let mut own = Own::default();
        for word in words {
            match word.split_once('=') {
                Some(("network", list)) if own.ports.is_none() => own.ports = Some(ports(list)?),
                Some(("literals", list)) if own.literals.is_empty() => {
                    own.literals = literals(list)?;
                }
                Some(("tools", path)) if own.tools.is_none() && path.starts_with('/') => {
                    own.tools = Some(PathBuf::from(path));
                }
                Some(("denials", path)) if own.denials.is_none() && path.starts_with('/') => {
                    own.denials = Some(PathBuf::from(path));
                }
                Some(("files", number)) if own.program_files.is_none() => {
                    own.program_files = Some(number.parse().ok()?);
                }
                None if word == "tools" && own.tools.is_none() => {
                    own.tools = Some(PathBuf::from(TOOL_SOCKET));
                }
                None if word == "kernel" && !own.names_kernel => own.names_kernel = true,
                _ => return None,
            }
        }
        Some(own)
    }
}

/// Parses at most [`MOST_PORTS`] ports. With an empty list only the proxy has a network.
fn ports(list: &str) -> Option<Vec<u16>> {
    let words = list.split(',').filter(|word| !word.is_empty());
    let ports: Vec<u16> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    (ports.len() <= MOST_PORTS && !ports.contains(&0)).then_some(ports)
}

/// Parses at least one and at most [`MOST_LITERALS`] loopback addresses.
fn literals(list: &str) -> Option<Vec<SocketAddrV4>> {
    let literals: Vec<SocketAddrV4> =
        list.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let is_possible = |place: &SocketAddrV4| place.ip().is_loopback() && place.port() != 0;
    (literals.len() <= MOST_LITERALS && literals.iter().all(is_possible)).then_some(literals)
}

const MOST_PORTS: usize = 16;
const MOST_LITERALS: usize = 64;
/// The maximum number of listeners at synthetic addresses. Each costs a descriptor; the proxy needs
/// only its own.
const MOST_LISTENERS: usize = 512;

/// The listeners of the name server, of the proxy and of services of the host.
pub(crate) struct NetworkListeners {
    pub(crate) connections: Vec<TcpListener>,
    pub(crate) datagrams: UdpSocket,
    pub(crate) ports: Vec<u16>,
}

impl NetworkListeners {
    pub(crate) fn open(ports: Vec<u16>, literals: &[SocketAddrV4]) -> io::Result<NetworkListeners> {
        let listen = |place: &SocketAddrV4| TcpListener::bind(place).map_err(about(place));
        let places = [NAME_SERVER, PROXY];
        let connections =
            places.iter().chain(literals).map(listen).collect::<io::Result<Vec<_>>>()?;
        let datagrams = UdpSocket::bind(NAME_SERVER).map_err(about(NAME_SERVER))?;
        Ok(NetworkListeners { connections, datagrams, ports })
    }
}

/// Opens a Unix socket. Any program inside may connect.
pub(crate) fn open_socket(path: &Path) -> io::Result<UnixListener> {
    let open = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(listener)
    };
    open().map_err(about(path.display()))
}

fn about(place: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot listen at {place}: {error}"))
}

/// Binds listeners at the synthetic addresses that the name server returns.
pub(crate) struct SyntheticListeners {
    ports: Vec<u16>,
    bound: RefCell<HashSet<SocketAddrV4>>,
    slots: Rc<Slots>,
    opener: Opener,
    reactor: Reactor,
}

impl SyntheticListeners {
    pub(crate) fn new(
        ports: Vec<u16>,
        slots: &Rc<Slots>,
        opener: &Opener,
        reactor: &Reactor,
    ) -> Rc<SyntheticListeners> {
        Rc::new(SyntheticListeners {
            ports,
            bound: RefCell::default(),
            slots: Rc::clone(slots),
            opener: opener.clone(),
            reactor: reactor.clone(),
        })
    }

    /// Binds listeners at the addresses in a DNS answer. Where a program has bound the port
    /// already, or the limit is reached, programs must use the proxy.
    pub(crate) fn answered(&self, answer: &[u8]) {
        for address in synthetic_addresses(answer) {
            for port in &self.ports {
                let place = SocketAddrV4::new(address, *port);
                let mut bound = self.bound.borrow_mut();
                if bound.len() < MOST_LISTENERS
                    && !bound.contains(&place)
                    && self.listen(place).is_ok()
                {
                    bound.insert(place);
                }
            }
        }
    }

    fn listen(&self, place: SocketAddrV4) -> io::Result<()> {
        let listener = TcpListener::bind(place)?;
        let slots = Rc::clone(&self.slots);
        let acceptor =
            Acceptor::new(listener.into(), Origin::Direct, slots, &self.opener, &self.reactor)?;
        self.reactor.spawn(async move { acceptor.serve().await });
        Ok(())
    }
}

/// Parses the answers of the name server on one stream.
pub(crate) struct Answers {
    listeners: Rc<SyntheticListeners>,
    bytes: Vec<u8>,
}

impl Answers {
    pub(crate) fn new(listeners: Rc<SyntheticListeners>) -> Answers {
        Answers { listeners, bytes: Vec::new() }
    }

    /// Parses the next bytes: a length of two bytes, then an answer.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        while let Some((length, rest)) = self.bytes.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(answer) = rest.get(..length) else { break };
            self.listeners.answered(answer);
            self.bytes.drain(..2 + length);
        }
    }
}

/// The synthetic addresses in an answer; empty for malformed answers.
fn synthetic_addresses(answer: &[u8]) -> Vec<Ipv4Addr> {
    let is_synthetic = |address: &Ipv4Addr| {
        matches!(Opening::of(SocketAddrV4::new(*address, 0)), Some(Opening::Connection { .. }))
    };
    addresses(answer).unwrap_or_default().into_iter().filter(is_synthetic).collect()
}

/// The A records of a DNS message, RFC 1035 section 4.
fn addresses(message: &[u8]) -> Option<Vec<Ipv4Addr>> {
    const HEADER: usize = 12;
    const QUESTION: usize = 4;
    const RECORD: usize = 10;
    let number = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    let (questions, answers) = (number(4)?, number(6)?);
    let mut at = HEADER;
    for _ in 0..questions {
        at = after_name(message, at)? + QUESTION;
    }
    let mut found = Vec::new();
    for _ in 0..answers {
        let record = after_name(message, at)?;
        let (kind, length) = (number(record)?, usize::from(number(record + 8)?));
        at = record + RECORD + length;
        let content = message.get(record + RECORD..at)?;
        if let (1, Ok(address)) = (kind, <[u8; 4]>::try_from(content)) {
            found.push(Ipv4Addr::from(address));
        }
    }
    Some(found)
}

/// The offset after the name that starts at `at`.
fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            // A compression pointer ends the name, RFC 1035 section 4.1.4.
            192.. => return Some(at + 2),
            64..=191 => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(words: &[&str]) -> Option<Own> {
        Own::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn listener_arguments_are_parsed_and_any_other_is_refused() {
        assert_eq!(own(&[]), Some(Own::default()));
        let socket = |path: &str| Some(PathBuf::from(path));
        let both = Own { ports: Some(vec![80, 443]), tools: socket(TOOL_SOCKET), ..Own::default() };
        assert_eq!(own(&["network=80,443", "tools"]), Some(both));
        assert_eq!(own(&["network="]), Some(Own { ports: Some(vec![]), ..Own::default() }));
        let rest = Own {
            ports: None,
            literals: vec!["127.0.0.1:5432".parse().unwrap(), "127.0.0.2:80".parse().unwrap()],
            tools: socket("/run/x/tools.sock"),
            denials: socket("/run/x/denials.sock"),
            program_files: Some(1024),
            names_kernel: true,
        };
        let words = [
            "literals=127.0.0.1:5432,127.0.0.2:80",
            "tools=/run/x/tools.sock",
            "denials=/run/x/denials.sock",
            "files=1024",
            "kernel",
        ];
        assert_eq!(own(&words), Some(rest));
        for wrong in [
            "network",
            "network=x",
            "network=0",
            "network=65536",
            "literals",
            "literals=",
            "literals=localhost:80",
            "literals=10.0.0.1:80",
            "literals=127.0.0.1:0",
            "literals=[::1]:80",
            "tool",
            "tools=here",
            "denials",
            "denials=here",
            "files=",
            "files=-1",
            "kernel=6",
            "",
        ] {
            assert_eq!(own(&[wrong]), None, "{wrong}");
        }
        assert_eq!(own(&["tools", "tools"]), None);
        assert_eq!(own(&["kernel", "kernel"]), None);
        assert_eq!(own(&["network=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"]), None);
    }

    /// An answer to one query with these records: type and data.
    fn answer(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut message = vec![0, 1, 0x81, 0x80, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        message.extend(b"\x04name\x04test\x00\x00\x01\x00\x01");
        for (kind, content) in records {
            message.extend([0xc0, 12, 0, *kind, 0, 1, 0, 0, 0, 60, 0, content.len() as u8]);
            message.extend(*content);
        }
        message
    }

    #[test]
    fn listeners_bind_only_the_synthetic_addresses_of_an_answer() {
        let records: [(u8, &[u8]); 4] = [
            (1, &[127, 64, 0, 1]),
            (1, &[10, 0, 0, 1]),
            (28, &[127, 64, 0, 3]),
            (1, &[127, 64, 0, 2]),
        ];
        let found = synthetic_addresses(&answer(&records));
        assert_eq!(found, [Ipv4Addr::new(127, 64, 0, 1), Ipv4Addr::new(127, 64, 0, 2)]);
    }

    #[test]
    fn truncated_or_malformed_answer_yields_no_address() {
        let whole = answer(&[(1, &[127, 64, 0, 1])]);
        for end in 0..whole.len() {
            assert_eq!(synthetic_addresses(&whole[..end]), [] as [Ipv4Addr; 0], "{end}");
        }
        let mut broken = whole;
        broken[12] = 0x80;
        assert_eq!(synthetic_addresses(&broken), [] as [Ipv4Addr; 0]);
    }
}
