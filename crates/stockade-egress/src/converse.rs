//! A connection to one host: its first bytes decide how it goes on.

use std::time::Duration;

use stockade_policy::{Control, Denial, Host, Protocol};
use stockade_record::Inspection;
use tokio::time::timeout;

use crate::account::Account;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::http::{Authority, Refusal, answer_denied, exchange, linger};
use crate::relay::relay;
use crate::rules::{Rules, Spoken};
use crate::side::{Incoming, Side};
use crate::tls::{ACCESS_DENIED, ClientHello, HelloError, HelloReader};
use crate::words::harmless_bytes;

/// The longest method of a request.
const MAX_METHOD_BYTES: usize = 32;

/// What the first bytes of a program are.
#[derive(Debug)]
enum First {
    /// A whole ClientHello, or something that only begins like one.
    Tls(Result<ClientHello, HelloError>),
    /// The beginning of a request.
    Http,
    /// Anything else.
    Other,
    /// Nothing came in time.
    Silence,
    /// The program went away.
    Gone,
}

/// Serves a connection to a host, dialled already or not. Nothing is dialled for a program before
/// its first bytes are known to be allowed, except for a tunnel, which it must see open first.
pub(crate) async fn converse(
    connection: &Connection,
    mut inside: Side,
    target: &Target,
    dialled: Option<Dialled>,
) {
    let mut account = connection.request_account();
    account.target(&target.host, Some(target.port));
    let rules = connection.shared.rules();
    let verdict = rules.judge_host(&target.host, target.port);
    let refusal = verdict.denial().or_else(|| connection.overfull(target));
    let address = dialled.as_ref().map(|dialled| dialled.address);
    let anything = rules.protocol(&target.host, target.port, address) == Some(Protocol::Tcp);
    if refusal.is_none() && anything && !rules.is_learning() {
        return pass(connection, inside, (target, dialled), account, Spoken::Bytes).await;
    }
    let times = &connection.shared.settings.times;
    let is_patient = refusal.is_none() && !rules.is_learning();
    let patience = if is_patient { times.first_bytes } else { times.brief };
    let first = first_bytes(&mut inside.incoming, patience, times.head).await;
    if matches!(first, First::Http) {
        account.forget();
        let authority = Authority::Fixed(target.clone());
        exchange(connection, &mut inside, &authority, dialled).await;
        return;
    }
    if matches!(first, First::Gone) && refusal.is_none() {
        account.allowed(&verdict);
        return account.failed("the program went away before it said anything");
    }
    if matches!(first, First::Tls(_)) {
        account.inspected(Inspection::ServerName);
    }
    match refusal.map_or_else(|| speech(&rules, target, address, &first), Err) {
        Ok(spoken) => pass(connection, inside, (target, dialled), account, spoken).await,
        Err(denial) => refuse(connection, inside, account, denial, &first).await,
    }
}

/// Refuses a connection to an address that stands for nothing.
pub(crate) async fn refuse_unknown(connection: &Connection, mut inside: Side, denial: Denial) {
    let mut account = connection.request_account();
    account.no_host(&denial.target);
    let times = &connection.shared.settings.times;
    let first = first_bytes(&mut inside.incoming, times.brief, times.head).await;
    refuse(connection, inside, account, denial, &first).await;
}

/// What is spoken, or why it may not be.
fn speech(
    rules: &Rules,
    target: &Target,
    address: Option<std::net::IpAddr>,
    first: &First,
) -> Result<Spoken, Denial> {
    let (spoken, fault) = match first {
        First::Tls(hello) => (Spoken::Tls, check_name(target, hello).err()),
        First::Http => (Spoken::Http, None),
        First::Other | First::Silence | First::Gone => (Spoken::Bytes, None),
    };
    match (fault, rules.is_learning()) {
        (None, _) => match rules.judge_speech(&target.host, target.port, address, spoken) {
            Some(denial) => Err(denial),
            None => Ok(spoken),
        },
        // It would need an entry for any bytes, and that is what is learned.
        (Some(_), true) => Ok(Spoken::Bytes),
        (Some(why), false) => Err(wrong_name(target, why)),
    }
}

/// Compares the server name of a ClientHello with the host that was allowed. A literal address has
/// no server name: RFC 6066 forbids it.
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

/// Dials unless that was done, and passes bytes both ways.
async fn pass(
    connection: &Connection,
    mut inside: Side,
    (target, dialled): (&Target, Option<Dialled>),
    mut account: Account,
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
            return refuse(connection, inside, account, denial, &first).await;
        }
        Err(DialError::Unresolved(why) | DialError::Unreachable(why) | DialError::TooSlow(why)) => {
            return account.failed(why);
        }
    };
    account.allowed(&dialled.verdict);
    account.dialled(dialled.address);
    let protocol = if spoken == Spoken::Bytes { Protocol::Tcp } else { Protocol::Web };
    connection.learn(target, protocol);
    connection.meter.touch();
    let place = (dialled.address, dialled.is_own);
    tokio::select! {
        biased;
        denial = shared.refused(seen, &target.host, target.port, place, spoken) => {
            account.denied(&denial);
        }
        () = connection.meter.silent_for(shared.settings.times.idle) => {
            account.failed("nothing was sent or received for too long");
        }
        result = relay(&mut inside, &mut dialled.outside) => {
            if let Err(error) = result {
                account.failed(format!("the connection broke: {error}"));
            }
        }
    }
}

fn first_of(spoken: Spoken) -> First {
    match spoken {
        Spoken::Tls => First::Tls(Err(HelloError::NotTls)),
        Spoken::Http => First::Http,
        Spoken::Bytes => First::Other,
    }
}

/// Tells a program why, in what it speaks.
async fn refuse(
    connection: &Connection,
    mut inside: Side,
    mut account: Account,
    denial: Denial,
    first: &First,
) {
    account.denied(&denial);
    match first {
        First::Tls(_) => {
            let _ = inside.outgoing.send(&ACCESS_DENIED).await;
        }
        First::Http => {
            account.status(403);
            answer_denied(&mut inside, &Refusal::forbidden(denial), false).await;
        }
        First::Other | First::Silence | First::Gone => {}
    }
    // Told before the wait, so that nobody waits for the event.
    drop(account);
    linger(&mut inside, connection.shared.settings.times.linger).await;
}

/// Looks at the first bytes and leaves them where they are.
async fn first_bytes(incoming: &mut Incoming, patience: Duration, whole: Duration) -> First {
    if incoming.held().is_empty() {
        match timeout(patience, incoming.fill()).await {
            Err(_) => return First::Silence,
            Ok(Err(_) | Ok(0)) => return First::Gone,
            Ok(Ok(_)) => {}
        }
    }
    // A beginning that does not go on is no better than another.
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

/// Whether it begins with a word of capital letters and a space, as every request does.
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
