//! Request after request on one connection, each judged anew.

use stockade_policy::{Denial, Method, Protocol, UrlPath, Verdict};

use super::answer::{Refusal, answer_denied, answer_failed, linger};
use super::forward::{Ended, ForwardError, forward};
use super::head::HeadError;
use super::read::{ReadError, read_head};
use super::request::{Aim, RequestHead, parse_request};
use crate::account::Account;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::relay::relay;
use crate::rules::Spoken;
use crate::side::Side;

/// Whom requests may be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The one host that was dialled.
    Fixed(Target),
    /// Any: this is the proxy.
    Proxy,
}

/// Why there are no more requests to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The connection is over.
    Ended,
    /// The program asked the proxy for a tunnel.
    Tunnel(Target),
}

/// A server that was dialled for a host.
struct Server {
    target: Target,
    dialled: Dialled,
}

/// Serves requests until one ends the connection.
pub(crate) async fn exchange(
    connection: &Connection,
    inside: &mut Side,
    authority: &Authority,
    dialled: Option<Dialled>,
) -> Leaving {
    let mut server = match (authority, dialled) {
        (Authority::Fixed(target), Some(dialled)) => {
            Some(Server { target: target.clone(), dialled })
        }
        _ => None,
    };
    loop {
        let Some(head) = next_request(connection, inside, authority).await else {
            return Leaving::Ended;
        };
        let (target, path) = match aimed_at(connection, &head, authority) {
            Ok(Aimed::Tunnel(target)) => return Leaving::Tunnel(target),
            Ok(Aimed::Resource(target, path)) => (target, path),
            Err(refusal) => {
                refuse(connection, inside, account_for(connection, authority), refusal).await;
                return Leaving::Ended;
            }
        };
        match serve_one(connection, inside, (&head, &target, &path), &mut server).await {
            Ended::Kept => {}
            Ended::Over | Ended::WebSocket => return Leaving::Ended,
        }
    }
}

/// The next request, or nothing where there is none that can be served.
async fn next_request(
    connection: &Connection,
    inside: &mut Side,
    authority: &Authority,
) -> Option<RequestHead> {
    let times = &connection.shared.settings.times;
    let error = match read_head(&mut inside.incoming, times.idle, times.head).await {
        Ok(Some(bytes)) => match parse_request(&bytes) {
            Ok(head) => return Some(head),
            Err(error) => error,
        },
        Ok(None) | Err(ReadError::Ended | ReadError::Broken(_)) => return None,
        Err(ReadError::Head(error)) => error,
        Err(ReadError::TooSlow) => {
            let mut refusal = Refusal::unreadable(whom(authority), &HeadError::Malformed);
            refusal.status = 408;
            refusal.denial.why = "the head of the request did not come in time".to_owned();
            refuse(connection, inside, account_for(connection, authority), refusal).await;
            return None;
        }
    };
    let refusal = Refusal::unreadable(whom(authority), &error);
    refuse(connection, inside, account_for(connection, authority), refusal).await;
    None
}

/// The account of a request of which nothing can be said but where it came in.
fn account_for(connection: &Connection, authority: &Authority) -> Account {
    let mut account = connection.request_account();
    match authority {
        Authority::Fixed(target) => account.target(&target.host, Some(target.port)),
        Authority::Proxy => account.no_host(&whom(authority)),
    }
    account
}

fn whom(authority: &Authority) -> String {
    match authority {
        Authority::Fixed(Target { host, port }) => format!("{host}:{port}"),
        Authority::Proxy => "the proxy".to_owned(),
    }
}

/// What a request asks for here.
enum Aimed {
    Tunnel(Target),
    Resource(Target, String),
}

fn aimed_at(
    connection: &Connection,
    head: &RequestHead,
    authority: &Authority,
) -> Result<Aimed, Refusal> {
    let unreadable = |error: HeadError| Refusal::unreadable(whom(authority), &error);
    let forbidden = Refusal::forbidden;
    match (authority, head.aim.clone()) {
        (Authority::Proxy, Aim::Tunnel { host, port }) => {
            connection.target(host, port).map(Aimed::Tunnel).map_err(forbidden)
        }
        (Authority::Proxy, Aim::Absolute { host, port, path }) => {
            let target = connection.target(host, port).map_err(forbidden)?;
            Ok(Aimed::Resource(target, path))
        }
        (Authority::Proxy, Aim::Origin { .. }) => Err(unreadable(HeadError::Target)),
        (Authority::Fixed(_), Aim::Tunnel { .. }) => Err(unreadable(HeadError::Method)),
        (Authority::Fixed(target), Aim::Absolute { host, port, path })
            if (&host, port) == (&target.host, target.port) =>
        {
            Ok(Aimed::Resource(target.clone(), path))
        }
        (Authority::Fixed(target), Aim::Origin { host, port, path })
            if host == target.host && port.unwrap_or(80) == target.port =>
        {
            Ok(Aimed::Resource(target.clone(), path))
        }
        (Authority::Fixed(_), Aim::Absolute { .. } | Aim::Origin { .. }) => {
            Err(unreadable(HeadError::OtherHost))
        }
    }
}

/// Judges one request and has it answered.
async fn serve_one(
    connection: &Connection,
    inside: &mut Side,
    (head, target, path): (&RequestHead, &Target, &str),
    server: &mut Option<Server>,
) -> Ended {
    let shared = &connection.shared;
    let mut account = connection.request_account();
    account.target(&target.host, Some(target.port));
    account.request(&head.method, path);
    let seen = shared.rules.subscribe();
    let verdict = match judge(connection, head, target, path) {
        Ok(verdict) => verdict,
        Err(refusal) => {
            refuse(connection, inside, account, refusal).await;
            return Ended::Over;
        }
    };
    account.allowed(&verdict);
    let mut used = match reach(connection, target, server.take()).await {
        Ok(used) => used,
        Err(error) => {
            fail(connection, inside, account, error).await;
            return Ended::Over;
        }
    };
    account.dialled(used.dialled.address);
    connection.learn(target, Protocol::Web);
    let place = (used.dialled.address, used.dialled.is_own);
    let times = &shared.settings.times;
    connection.meter.touch();
    let outside = &mut used.dialled.outside;
    let result = tokio::select! {
        biased;
        denial = shared.refused(seen, &target.host, target.port, place, Spoken::Http) => {
            account.denied(&denial);
            return Ended::Over;
        }
        () = connection.meter.silent_for(times.idle) => {
            account.failed("nothing was sent or received for too long");
            return Ended::Over;
        }
        result = async {
            let request = (head, target, path);
            let ended = forward(inside, outside, request, times, &mut account).await?;
            if ended == Ended::WebSocket {
                // Whatever follows belongs to this host and is no request any more.
                let _ = relay(inside, outside).await;
            }
            Ok(ended)
        } => result,
    };
    match result {
        Ok(Ended::Kept) => {
            *server = Some(used);
            Ended::Kept
        }
        Ok(ended) => ended,
        Err(error) => {
            broken(connection, inside, account, error).await;
            Ended::Over
        }
    }
}

/// Asks the policy about the connection, what is spoken on it, and the request.
fn judge(
    connection: &Connection,
    head: &RequestHead,
    target: &Target,
    path: &str,
) -> Result<Verdict, Refusal> {
    let Target { host, port } = target;
    let rules = connection.shared.rules();
    let verdict = rules.judge_host(host, *port);
    if let Some(denial) = verdict.denial() {
        return Err(Refusal::forbidden(denial));
    }
    if let Some(denial) = rules.judge_speech(host, *port, None, Spoken::Http) {
        return Err(Refusal::forbidden(denial));
    }
    if let Some(denial) = connection.overfull(target) {
        return Err(Refusal { status: 503, denial });
    }
    match (Method::parse(&head.method), UrlPath::parse(path)) {
        (Ok(method), Ok(read)) => {
            let verdict = rules.judge_request(host, *port, &method, &read);
            verdict.denial().map_or(Ok(verdict), |denial| Err(Refusal::forbidden(denial)))
        }
        // A path that servers read in two ways passes only where no rule is about paths.
        (Ok(_), Err(_)) if !rules.judges_requests(host, *port) => Ok(verdict),
        (Ok(_), Err(error)) => {
            let mut refusal = Refusal::unreadable(format!("{host}:{port}"), &HeadError::Malformed);
            refusal.denial.why = error.to_string();
            Err(refusal)
        }
        (Err(_), _) => Err(Refusal::unreadable(format!("{host}:{port}"), &HeadError::Method)),
    }
}

/// The server of the request before, if it is the same and still there; else a new one.
async fn reach(
    connection: &Connection,
    target: &Target,
    before: Option<Server>,
) -> Result<Server, DialError> {
    if let Some(mut server) = before
        && server.target == *target
        && server.dialled.outside.incoming.is_quiet().await
    {
        let (Target { host, port }, address) = (target, server.dialled.address);
        let rules = connection.shared.rules();
        return match rules.judge_speech(host, *port, Some(address), Spoken::Http) {
            Some(denial) => Err(DialError::Denied(denial)),
            None => Ok(server),
        };
    }
    let dialled = dial(&connection.shared, target, Some(Spoken::Http), &connection.meter).await?;
    Ok(Server { target: target.clone(), dialled })
}

async fn refuse(
    connection: &Connection,
    inside: &mut Side,
    mut account: Account,
    refusal: Refusal,
) {
    account.denied(&refusal.denial);
    account.status(refusal.status);
    answer_denied(inside, &refusal, false).await;
    // Told before the wait, so that nobody waits for the event.
    drop(account);
    linger(inside, connection.shared.settings.times.linger).await;
}

async fn fail(connection: &Connection, inside: &mut Side, mut account: Account, error: DialError) {
    let (status, why) = match error {
        DialError::Denied(denial) => return deny(connection, inside, account, denial).await,
        DialError::Unresolved(why) | DialError::Unreachable(why) => (502, why),
        DialError::TooSlow(why) => (504, why),
    };
    account.status(status);
    account.failed(why.clone());
    answer_failed(inside, status, &why).await;
    drop(account);
    linger(inside, connection.shared.settings.times.linger).await;
}

async fn deny(connection: &Connection, inside: &mut Side, account: Account, denial: Denial) {
    refuse(connection, inside, account, Refusal::forbidden(denial)).await;
}

async fn broken(
    connection: &Connection,
    inside: &mut Side,
    mut account: Account,
    error: ForwardError,
) {
    let why = error.to_string();
    account.failed(why.clone());
    let status = match error {
        ForwardError::NoAnswer(_) => 502,
        ForwardError::Request(_) => 400,
        // Another head would be read as part of the answer.
        ForwardError::Midway(_) => return,
    };
    account.status(status);
    answer_failed(inside, status, &why).await;
    drop(account);
    linger(inside, connection.shared.settings.times.linger).await;
}
