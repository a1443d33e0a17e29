//! A connection to one host: its first bytes decide its protocol.

use std::time::Duration;

use stockade_policy::{Control, Denial, Host, Protocol};
use stockade_record::Inspection;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::egress_record::EgressRecord;
use crate::http::{Answers, Authority, Refusal, answer_denied, exchange, linger};
use crate::opening;
use crate::relay::relay;
use crate::rules::{Rules, Spoken};
use crate::side::{Incoming, Side};
use crate::tls::{ACCESS_DENIED, ClientHello, HelloError, HelloReader};
use crate::words::harmless_bytes;

/// The longest method of a request.
const MAX_METHOD_BYTES: usize = 32;

/// The first bytes that a program sent.
#[derive(Debug)]
enum First {
    /// A whole ClientHello, or bytes that only start like one.
    Tls(Result<ClientHello, HelloError>),
    /// The start of an HTTP request.
    Http,
    /// Anything else.
    Other,
    /// No bytes came in time.
    Silence,
    /// The program closed the connection.
    Gone,
}

/// Serves a connection to a host, dialled already or not. Dials only after the program's first
/// bytes are known to be allowed, except for a tunnel, which the program must see open first.
pub(crate) async fn converse(
    connection: &Connection,
    mut inside: Side,
    target: &Target,
    dialled: Option<Dialled>,
) {
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    let rules = connection.shared.rules();
    let verdict = match &connection.request {
        Some((method, path)) => {
            record.request(method.as_str(), path.as_str());
            rules.judge_request(&target.host, target.port, method, path)
        }
        None => rules.judge_host(&target.host, target.port),
    };
    let refusal = verdict.denial().or_else(|| connection.overfull(target));
    let address = dialled.as_ref().map(|dialled| dialled.address);
    let anything = rules.protocol(&target.host, target.port, address) == Some(Protocol::Tcp);
    let is_read = rules.reads_requests(&target.host, target.port);
    if refusal.is_none() && anything && !is_read && !rules.is_learning() {
        return pass(connection, inside, (target, dialled), record, Spoken::Bytes).await;
    }
    let times = &connection.shared.settings.times;
    let is_patient = refusal.is_none() && !rules.is_learning();
    let patience = if is_patient { times.first_bytes } else { times.brief };
    let first = first_bytes(&mut inside.incoming, patience, times.head).await;
    if matches!(first, First::Http) {
        record.forget();
        let authority = Authority::Fixed(target.clone());
        exchange(connection, &mut inside, &authority, dialled).await;
        return;
    }
    if matches!(first, First::Gone) && refusal.is_none() {
        record.allowed(&verdict);
        return record.failed("the program closed the connection before it sent anything");
    }
    if matches!(first, First::Tls(_)) && connection.request.is_none() {
        record.inspected(Inspection::ServerName);
    }
    let opening = connection.shared.opening.as_ref().filter(|_| is_read);
    let tls = match (&connection.request, opening) {
        (Some(_), _) => Spoken::Request,
        (None, Some(_)) => Spoken::Opened,
        (None, None) => Spoken::Tls,
    };
    match (refusal.map_or_else(|| speech(&rules, target, address, (&first, tls)), Err), opening) {
        (Ok(Spoken::Opened), Some(opening)) => {
            opening::serve(connection, opening, inside, (target, dialled), record).await;
        }
        (Ok(spoken), _) => pass(connection, inside, (target, dialled), record, spoken).await,
        (Err(denial), _) => refuse(connection, inside, record, denial, &first).await,
    }
}

/// Refuses a connection to a synthetic address that has no name.
pub(crate) async fn refuse_unknown(connection: &Connection, mut inside: Side, denial: Denial) {
    let mut record = connection.request_account();
    record.no_host(&denial.target);
    let times = &connection.shared.settings.times;
    let first = first_bytes(&mut inside.incoming, times.brief, times.head).await;
    refuse(connection, inside, record, denial, &first).await;
}

/// The protocol, or why it is not allowed; `tls` is what TLS is here.
fn speech(
    rules: &Rules,
    target: &Target,
    address: Option<std::net::IpAddr>,
    (first, tls): (&First, Spoken),
) -> Result<Spoken, Denial> {
    let (spoken, fault) = match first {
        First::Tls(hello) => (tls, check_name(target, hello).err()),
        First::Http => (Spoken::Http, None),
        First::Other | First::Silence | First::Gone => (Spoken::Bytes, None),
    };
    match (fault, rules.is_learning()) {
        (None, _) => match rules.judge_speech(&target.host, target.port, address, spoken) {
            Some(denial) => Err(denial),
            None => Ok(spoken),
        },
        // It would need an entry with `protocol: tcp`, and the gate learns exactly that.
        (Some(_), true) => Ok(Spoken::Bytes),
        (Some(why), false) => Err(wrong_name(target, why)),
    }
}

/// Compares the server name of a ClientHello with the allowed host. A literal address has no server
/// name: RFC 6066 forbids it.
fn check_name(target: &Target, hello: &Result<ClientHello, HelloError>) -> Result<(), String> {
    let hello = hello.as_ref().map_err(ToString::to_string)?;
    match (&hello.server_name, &target.host) {
        (None, Host::Address(_)) => Ok(()),
        (None, Host::Name(_)) => Err("the ClientHello has no server name".to_owned()),
        (Some(name), host) => match Host::parse_bytes(name) {
            Ok(named) if named == *host && matches!(host, Host::Name(_)) => Ok(()),
            _ => Err(format!("the server name is {}", harmless_bytes(name, 255))),
        },
    }
}

fn wrong_name(target: &Target, why: String) -> Denial {
    Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: "built in: the server name equals the host that was allowed".to_owned(),
        target: format!("{}:{}", target.host, target.port),
        why,
        how_to_allow: format!("connect to {} with its own name, or allow the other", target.host),
    }
}

/// Dials if needed, and relays bytes in both directions.
async fn pass(
    connection: &Connection,
    mut inside: Side,
    (target, dialled): (&Target, Option<Dialled>),
    mut record: EgressRecord,
    spoken: Spoken,
) {
    let shared = &connection.shared;
    let seen = shared.rules.subscribe();
    let dialled = match dialled {
        Some(dialled) => Ok(dialled),
        None => dial(shared, target, Some(spoken), &connection.meter).await,
    };
    let mut dialled = match dialled {
        Ok(dialled) => dialled,
        Err(DialError::Denied(denial)) => {
            let first = first_of(spoken);
            return refuse(connection, inside, record, denial, &first).await;
        }
        Err(DialError::Unresolved(why) | DialError::Unreachable(why) | DialError::TooSlow(why)) => {
            return record.failed(why);
        }
    };
    record.allowed(&dialled.verdict);
    record.dialled(dialled.address);
    let protocol = if spoken == Spoken::Bytes { Protocol::Tcp } else { Protocol::Web };
    connection.learn(target, protocol);
    connection.meter.touch();
    let place = (dialled.address, dialled.is_own);
    tokio::select! {
        biased;
        denial = shared.refused(seen, &target.host, target.port, place, spoken) => {
            record.denied(&denial);
        }
        () = connection.meter.silent_for(shared.settings.times.idle) => {
            record.failed("nothing was sent or received for too long");
        }
        result = relay(&mut inside, &mut dialled.outside) => {
            if let Err(error) = result {
                record.failed(format!("the connection broke: {error}"));
            }
        }
    }
}

fn first_of(spoken: Spoken) -> First {
    match spoken {
        Spoken::Tls | Spoken::Opened | Spoken::Request => First::Tls(Err(HelloError::NotTls)),
        Spoken::Http => First::Http,
        Spoken::Bytes => First::Other,
    }
}

/// Sends a program the reason in its own protocol.
async fn refuse(
    connection: &Connection,
    mut inside: Side,
    mut record: EgressRecord,
    denial: Denial,
    first: &First,
) {
    record.denied(&denial);
    match first {
        First::Tls(_) => {
            let _ = inside.outgoing.send(&ACCESS_DENIED).await;
        }
        First::Http => {
            record.status(403);
            let answers = Answers::request(inside.incoming.held());
            answer_denied(&mut inside, &Refusal::forbidden(denial), answers).await;
        }
        First::Other | First::Silence | First::Gone => {}
    }
    // Recorded before the wait, so that the event is not delayed.
    drop(record);
    linger(&mut inside, connection.shared.settings.times.linger).await;
}

/// Peeks at the first bytes without consuming them.
async fn first_bytes(incoming: &mut Incoming, patience: Duration, whole: Duration) -> First {
    if incoming.held().is_empty() {
        match timeout(patience, incoming.fill()).await {
            Err(_) => return First::Silence,
            Ok(Err(_) | Ok(0)) => return First::Gone,
            Ok(Ok(_)) => {}
        }
    }
    // An unfinished prefix is treated like any other bytes.
    match incoming.held().first() {
        Some(22) => First::Tls(
            timeout(whole, read_hello(incoming)).await.unwrap_or(Err(HelloError::Malformed)),
        ),
        Some(b'A'..=b'Z') => timeout(whole, read_method(incoming)).await.unwrap_or(First::Other),
        _ => First::Other,
    }
}

async fn read_hello(incoming: &mut Incoming) -> Result<ClientHello, HelloError> {
    let mut reader = HelloReader::default();
    loop {
        if let Some(hello) = reader.read(incoming.held())? {
            return Ok(hello);
        }
        match incoming.fill().await {
            Ok(read) if read > 0 => {}
            _ => return Err(HelloError::Malformed),
        }
    }
}

/// Whether it starts with a word of capital letters and a space, as every request does.
async fn read_method(incoming: &mut Incoming) -> First {
    loop {
        let held = incoming.held();
        let part = &held[..held.len().min(MAX_METHOD_BYTES)];
        match part.iter().find(|byte| !matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'-')) {
            Some(b' ') => return First::Http,
            Some(_) => return First::Other,
            None if part.len() == MAX_METHOD_BYTES => return First::Other,
            None => {}
        }
        match incoming.fill().await {
            Ok(read) if read > 0 => {}
            _ => return First::Gone,
        }
    }
}
