//! Questions to the name server, and their answers. Pure: bytes in, bytes out.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use stockade_policy::{Host, HostName};

use crate::words::harmless;

/// The TTL of an answer. An address always stands for the same name, so only a refusal can be out
/// of date.
const TTL_SECONDS: u32 = 5;
/// The most bytes of an explanation: with it an answer fits into 512 bytes.
const MAX_EXPLANATION: usize = 190;
/// The largest message that the server announces.
const MAX_PAYLOAD: u16 = 1232;
/// The option for an extended error, RFC 8914.
const EXTENDED_ERROR: u16 = 15;

/// A parsed question.
#[derive(Debug)]
pub(crate) struct Question {
    id: u16,
    recursion_desired: bool,
    query: Query,
    has_edns: bool,
    /// Its subject.
    pub(crate) asked: Asked,
}

/// The subject of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A name that may have an address.
    Name(HostName),
    /// `localhost`: the sandbox itself.
    Localhost,
    /// The name of an address.
    Reverse,
    /// A service of a name: `_https._tcp.example.org`.
    Service(HostName),
    /// A name that is not a host name.
    NoHost(String),
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The synthetic address of the name.
    Address(Ipv4Addr),
    /// The loopback addresses.
    Localhost,
    /// The name exists but has no record of this type.
    Nothing,
    /// The name does not exist; an extended error gives the code and the reason.
    Refused(u16, String),
}

/// Parses a question, or builds the answer to a malformed one.
pub(crate) fn read_question(bytes: &[u8]) -> Result<Question, Vec<u8>> {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let malformed = || error(id, OpCode::Query, ResponseCode::FormErr);
    let message = Message::from_vec(bytes).map_err(|_| malformed())?;
    if message.metadata.message_type != MessageType::Query {
        return Err(malformed());
    }
    if message.metadata.op_code != OpCode::Query {
        return Err(error(id, message.metadata.op_code, ResponseCode::NotImp));
    }
    let [query] = message.queries.as_slice() else {
        return Err(malformed());
    };
    if query.query_class() != DNSClass::IN {
        return Err(error(id, OpCode::Query, ResponseCode::Refused));
    }
    Ok(Question {
        id,
        recursion_desired: message.metadata.recursion_desired,
        asked: asked(query.name()),
        query: query.clone(),
        has_edns: message.edns.is_some(),
    })
}

impl Question {
    /// The whole name, as asked.
    pub(crate) fn name(&self) -> String {
        self.query.name().to_ascii()
    }
}

/// Writes the answer to a question.
pub(crate) fn answer(question: &Question, reply: &Reply) -> Vec<u8> {
    let mut message = Message::response(question.id, OpCode::Query);
    message.metadata.recursion_desired = question.recursion_desired;
    message.metadata.recursion_available = true;
    message.add_query(question.query.clone());
    let mut record = |data: RData| {
        let name = question.query.name().clone();
        message.add_answer(Record::from_rdata(name, TTL_SECONDS, data));
    };
    match (reply, question.query.query_type()) {
        (Reply::Address(address), RecordType::A) => record((*address).into()),
        (Reply::Localhost, RecordType::A) => record(Ipv4Addr::LOCALHOST.into()),
        (Reply::Localhost, RecordType::AAAA) => record(Ipv6Addr::LOCALHOST.into()),
        (Reply::Address(_) | Reply::Localhost | Reply::Nothing, _) => {}
        (Reply::Refused(..), _) => message.metadata.response_code = ResponseCode::NXDomain,
    }
    if question.has_edns {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_PAYLOAD);
        if let Reply::Refused(code, words) = reply {
            let mut option = code.to_be_bytes().to_vec();
            option.extend_from_slice(bounded(words).as_bytes());
            edns.options_mut().insert(EdnsOption::Unknown(EXTENDED_ERROR, option));
        }
        message.set_edns(edns);
    }
    let failed = || error(question.id, OpCode::Query, ResponseCode::ServFail);
    message.to_vec().unwrap_or_else(|_| failed())
}

/// An answer with only a response code.
fn error(id: u16, op_code: OpCode, code: ResponseCode) -> Vec<u8> {
    let written = Message::error_msg(id, op_code, code).to_vec();
    // Writing a header cannot fail; if it ever did, the program would get an empty answer.
    written.unwrap_or_default()
}

fn bounded(words: &str) -> String {
    let mut words = harmless(words, MAX_EXPLANATION);
    while words.len() > MAX_EXPLANATION {
        words.pop();
    }
    words
}

/// The subject of a name in a question, by the single parser of host names.
fn asked(name: &Name) -> Asked {
    let labels: Vec<&[u8]> = name.iter().collect();
    let Some(text) = text_of(&labels) else {
        return Asked::NoHost(name.to_ascii());
    };
    let lower = text.to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        return Asked::Localhost;
    }
    if lower.ends_with(".in-addr.arpa") || lower.ends_with(".ip6.arpa") {
        return Asked::Reverse;
    }
    let services = labels.iter().take_while(|label| label.starts_with(b"_")).count();
    let host = text_of(&labels[services..]).and_then(|text| Host::parse(&text).ok());
    match host {
        Some(Host::Name(name)) if services == 0 => Asked::Name(name),
        Some(Host::Name(name)) => Asked::Service(name),
        Some(Host::Address(_)) | None => Asked::NoHost(text),
    }
}

/// Labels as text, unless a label has a dot or a byte that text would hide.
fn text_of(labels: &[&[u8]]) -> Option<String> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b'.';
    if labels.is_empty() || !labels.iter().all(|label| label.iter().all(plain)) {
        return None;
    }
    let parts: Vec<&str> =
        labels.iter().filter_map(|label| std::str::from_utf8(label).ok()).collect();
    Some(parts.join("."))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
