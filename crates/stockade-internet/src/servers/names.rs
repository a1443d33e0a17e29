//! The name server.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StandardListener, UdpSocket as StandardSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::log::{Log, LogEntry};
use crate::world::{Answer, look_up};

/// The delay of the slow name: longer than most resolvers wait.
const SLOW: Duration = Duration::from_secs(6);
/// The largest reply in a datagram, unless the client announces more (EDNS).
const PLAIN_DATAGRAM_BYTES: u16 = 512;

/// The name server's state beyond its table: the names that were queried before.
pub(super) struct Names {
    log: Log,
    asked: Mutex<HashSet<String>>,
}

impl Names {
    /// A name server without earlier queries.
    pub(super) fn new(log: Log) -> Names {
        Names { log, asked: Mutex::default() }
    }

    /// The answer to a query, and whether it is delayed. `None` for a message that is not a query.
    fn answer(
        &self,
        question: &[u8],
        endpoints: (SocketAddr, SocketAddr),
    ) -> Option<(Message, bool)> {
        let question = Message::from_vec(question).ok()?;
        let asked = question.queries.first()?;
        let name = asked.name().to_lowercase().to_ascii();
        let name = name.trim_end_matches('.');
        let kind = asked.query_type();
        let entry = LogEntry::new("dns", "query").between(endpoints.0, endpoints.1);
        self.log.add(&entry.named(name).with(&kind.to_string()));

        let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.add_query(asked.clone());
        if let Some(extended) = &question.edns {
            let mut own = Edns::new();
            own.set_max_payload(extended.max_payload());
            answer.set_edns(own);
        }
        let found = look_up(name);
        let slow = matches!(found, Answer::Slow(_));
        self.fill(&mut answer, asked, asked.name().clone(), found);
        Some((answer, slow))
    }

    fn fill(&self, answer: &mut Message, asked: &Query, name: Name, found: Answer) {
        match found {
            Answer::Nothing => answer.metadata.response_code = ResponseCode::NXDomain,
            Answer::Addresses(addresses, seconds) => add(answer, asked, &name, &addresses, seconds),
            Answer::Slow(addresses) => add(answer, asked, &name, &addresses, 300),
            Answer::Rebinding(first, later) => {
                let whose = name.to_lowercase().to_ascii();
                let mut known = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                // Queries of other types do not use up the first answer.
                let new = asked.query_type() != RecordType::A || known.insert(whose);
                add(answer, asked, &name, if new { &first } else { &later }, 0);
            }
            Answer::Alias(target) => {
                let Ok(to) = Name::from_ascii(format!("{target}.")) else { return };
                answer.add_answer(Record::from_rdata(name, 300, RData::CNAME(CNAME(to.clone()))));
                self.fill(answer, asked, to, look_up(target));
            }
        }
    }
}

fn add(answer: &mut Message, asked: &Query, name: &Name, addresses: &[IpAddr], seconds: u32) {
    for address in addresses {
        let data = match (address, asked.query_type()) {
            (IpAddr::V4(four), RecordType::A) => RData::A(A(*four)),
            (IpAddr::V6(six), RecordType::AAAA) => RData::AAAA(AAAA(*six)),
            _ => continue,
        };
        answer.add_answer(Record::from_rdata(name.clone(), seconds, data));
    }
}

/// Answers queries over UDP.
pub(super) async fn by_datagram(socket: StandardSocket, names: Arc<Names>) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::from_std(socket)?);
    let to = socket.local_addr()?;
    let mut buffer = vec![0; 65_536];
    loop {
        // An error here belongs to an earlier reply that no socket received.
        let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
        let Some((answer, slow)) = names.answer(&buffer[..count], (from, to)) else { continue };
        let socket = Arc::clone(&socket);
        tokio::spawn(async move {
            wait_if(slow).await;
            let limit = answer.edns.as_ref().map_or(PLAIN_DATAGRAM_BYTES, Edns::max_payload);
            let fitting = match answer.to_vec() {
                Ok(bytes) if bytes.len() <= usize::from(limit.max(PLAIN_DATAGRAM_BYTES)) => bytes,
                _ => answer.truncate().to_vec().unwrap_or_default(),
            };
            let _ = socket.send_to(&fitting, from).await;
        });
    }
}

/// Answers queries over TCP, one after another.
pub(super) async fn by_stream(listener: StandardListener, names: Arc<Names>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, from) = listener.accept().await?;
        tokio::spawn(converse(stream, from, Arc::clone(&names)));
    }
}

async fn converse(mut stream: TcpStream, from: SocketAddr, names: Arc<Names>) -> io::Result<()> {
    let to = stream.local_addr()?;
    names.log.add(&LogEntry::new("dns", "connection").between(from, to));
    loop {
        let mut question = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut question).await?;
        let Some((answer, slow)) = names.answer(&question, (from, to)) else { return Ok(()) };
        wait_if(slow).await;
        let bytes = answer.to_vec().map_err(io::Error::other)?;
        let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], &bytes].concat()).await?;
    }
}

async fn wait_if(slow: bool) {
    if slow {
        tokio::time::sleep(SLOW).await;
    }
}
