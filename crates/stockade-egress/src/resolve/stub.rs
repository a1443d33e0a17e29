//! One query to the name servers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Edns, Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use stockade_policy::{Host, HostName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::files::Servers;
use super::{MAX_ADDRESSES, MAX_ALIASES, ResolveError};

/// The largest answer over UDP: it fits into one packet on every network.
const UDP_BYTES: u16 = 1232;
/// The largest answer over TCP that is read.
const TCP_BYTES: usize = 16 * 1024;

/// The parts of an answer that concern a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) aliases: Vec<HostName>,
    pub(super) addresses: Vec<IpAddr>,
    /// Whether the answer includes the end of the alias chain.
    pub(super) is_end: bool,
}

/// Queries each server in turn until one answers. Errors name `name`.
pub(super) async fn ask(
    servers: &Servers,
    name: &HostName,
    current: &HostName,
    kind: RecordType,
) -> Result<Step, ResolveError> {
    let bad = || ResolveError::BadAlias { name: name.clone() };
    let question = Name::from_ascii(format!("{current}.")).map_err(|_| bad())?;
    for _ in 0..servers.attempts {
        for server in &servers.addresses {
            let answer = exchange(*server, &question, kind);
            let Ok(Ok(message)) = tokio::time::timeout(servers.timeout, answer).await else {
                continue;
            };
            return match message.metadata.response_code {
                ResponseCode::NoError => read_step(&message, &question, kind).ok_or_else(bad),
                ResponseCode::NXDomain => Err(ResolveError::Unknown { name: name.clone() }),
                _ => continue,
            };
        }
    }
    Err(ResolveError::NoAnswer { name: name.clone() })
}

/// Follows the aliases of an answer. `None` if they cannot be followed.
fn read_step(message: &Message, question: &Name, kind: RecordType) -> Option<Step> {
    let mut step = Step::default();
    let mut owner = question.clone();
    loop {
        let records = || message.answers.iter().filter(|record| record.name == owner);
        let alias = records().find_map(|record| match &record.data {
            RData::CNAME(target) => Some(target.0.clone()),
            _ => None,
        });
        let addresses = records().filter_map(|record| match (&record.data, kind) {
            (RData::A(address), RecordType::A) => Some(IpAddr::from(address.0)),
            (RData::AAAA(address), RecordType::AAAA) => Some(IpAddr::from(address.0)),
            _ => None,
        });
        step.addresses.extend(addresses.take(MAX_ADDRESSES));
        match alias {
            Some(target) if step.aliases.len() < MAX_ALIASES => {
                step.aliases.push(host_name(&target)?);
                owner = target;
            }
            Some(_) => return None,
            None => {
                let is_asked_name = owner == *question;
                let known = message.answers.iter().any(|record| record.name == owner);
                step.is_end = is_asked_name || known || message.metadata.recursion_available;
                return Some(step);
            }
        }
    }
}

fn host_name(name: &Name) -> Option<HostName> {
    match Host::parse(&name.to_ascii()) {
        Ok(Host::Name(name)) => Some(name),
        Ok(Host::Address(_)) | Err(_) => None,
    }
}

/// One query over UDP, and over TCP if the answer is truncated.
async fn exchange(server: SocketAddr, name: &Name, kind: RecordType) -> io::Result<Message> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name.clone(), kind));
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_BYTES);
    message.set_edns(edns);
    let bytes = message.to_vec().map_err(io::Error::other)?;
    let answer = over_udp(server, &message, &bytes).await?;
    match answer.metadata.truncation {
        true => over_tcp(server, &message, &bytes).await,
        false => Ok(answer),
    }
}

async fn over_udp(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    // Connected: the kernel drops datagrams from other senders.
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; usize::from(UDP_BYTES)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(answer) = matching(&buffer[..length], question) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
    let length = usize::from(stream.read_u16().await?);
    if length > TCP_BYTES {
        return Err(io::Error::other("the answer is too long"));
    }
    let mut buffer = vec![0; length];
    stream.read_exact(&mut buffer).await?;
    matching(&buffer, question).ok_or_else(|| io::Error::other("the answer is to another question"))
}

/// The message, if it answers exactly this query.
fn matching(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let same = answer.metadata.id == question.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == question.queries
        && answer.queries.iter().all(|query| query.query_class() == DNSClass::IN);
    same.then_some(answer)
}

#[cfg(test)]
#[path = "stub_tests.rs"]
mod tests;
