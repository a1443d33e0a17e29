//! Request after request on one connection, each judged separately.

use super::answer::{Answers, Refusal};
use super::forward::Ended;
use super::forward::usual_port;
use super::head::HeadError;
use super::read::{ReadError, read_head};
use super::request::{RequestHead, RequestTarget, parse_request};
use super::serve::{Server, Servers, refuse, serve_one};
use crate::connection::Connection;
use crate::dial::{Dialled, Target};
use crate::egress_record::EgressRecord;
use crate::rules::Spoken;
use crate::side::Side;

/// Which hosts requests may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// Only the host that was dialled.
    Fixed(Target),
    /// Only the host that was dialled, in TLS that ends here.
    Opened(Target),
    /// Any host: this is the proxy.
    Proxy,
}

impl Authority {
    pub(super) fn spoken(&self) -> Spoken {
        match self {
            Authority::Opened(_) => Spoken::Opened,
            Authority::Fixed(_) | Authority::Proxy => Spoken::Http,
        }
    }

    /// The port of a Host field that names none.
    fn usual_port(&self) -> u16 {
        usual_port(self.spoken())
    }
}

/// Why no more requests follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The connection is over.
    Ended,
    /// The program asked the proxy for a tunnel.
    Tunnel(Target),
}

/// Serves requests until one ends the connection.
pub(crate) async fn exchange(
    connection: &Connection,
    inside: &mut Side,
    authority: &Authority,
    dialled: Option<Dialled>,
) -> Leaving {
    let mut servers = Servers { kept: None, spare: None, spoken: authority.spoken() };
    match (authority, dialled) {
        (Authority::Fixed(target), Some(dialled)) => {
            servers.kept = Some(Server { target: target.clone(), dialled });
        }
        (_, dialled) => servers.spare = dialled,
    }
    loop {
        let Some(head) = next_request(connection, inside, authority).await else {
            return Leaving::Ended;
        };
        let (target, path) = match aimed_at(connection, &head, authority) {
            Ok(Aimed::Tunnel(target)) => return Leaving::Tunnel(target),
            Ok(Aimed::Resource(target, path)) => (target, path),
            Err(refusal) => {
                let mut record = account_for(connection, authority);
                record.answers(Answers::request(format!("{} ", head.method).as_bytes()));
                refuse(connection, inside, record, refusal).await;
                return Leaving::Ended;
            }
        };
        match serve_one(connection, inside, (&head, &target, &path), &mut servers).await {
            Ended::Kept => {}
            Ended::Over | Ended::WebSocket => return Leaving::Ended,
        }
    }
}

/// The next request, or `None` if none can be served.
async fn next_request(
    connection: &Connection,
    inside: &mut Side,
    authority: &Authority,
) -> Option<RequestHead> {
    let times = &connection.shared.settings.times;
    let (error, answers) = match read_head(&mut inside.incoming, times.idle, times.head).await {
        Ok(Some(bytes)) => match parse_request(&bytes) {
            Ok(head) => return Some(head),
            Err(error) => (error, Answers::request(&bytes)),
        },
        Ok(None) | Err(ReadError::Ended | ReadError::Broken(_)) => return None,
        Err(ReadError::Head(error)) => (error, Answers::request(inside.incoming.held())),
        Err(ReadError::TooSlow) => {
            let mut refusal = Refusal::unreadable(whom(authority), &HeadError::Malformed);
            refusal.status = 408;
            refusal.denial.why = "the head of the request did not come in time".to_owned();
            refuse(connection, inside, account_for(connection, authority), refusal).await;
            return None;
        }
    };
    let refusal = Refusal::unreadable(whom(authority), &error);
    let mut record = account_for(connection, authority);
    record.answers(answers);
    refuse(connection, inside, record, refusal).await;
    None
}

/// The record of a request of which only the listener is known.
fn account_for(connection: &Connection, authority: &Authority) -> EgressRecord {
    let mut record = connection.request_account();
    match authority {
        Authority::Fixed(target) | Authority::Opened(target) => {
            record.target(&target.host, Some(target.port))
        }
        Authority::Proxy => record.no_host(&whom(authority)),
    }
    record
}

fn whom(authority: &Authority) -> String {
    match authority {
        Authority::Fixed(Target { host, port }) | Authority::Opened(Target { host, port }) => {
            format!("{host}:{port}")
        }
        Authority::Proxy => "the proxy".to_owned(),
    }
}

/// The target of a request on this connection.
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
        (Authority::Proxy, RequestTarget::Tunnel { host, port }) => {
            connection.target(host, port).map(Aimed::Tunnel).map_err(forbidden)
        }
        (Authority::Proxy, RequestTarget::Absolute { host, port, path }) => {
            let target = connection.target(host, port).map_err(forbidden)?;
            Ok(Aimed::Resource(target, path))
        }
        (Authority::Proxy, RequestTarget::Origin { .. }) => Err(unreadable(HeadError::Target)),
        (Authority::Fixed(_) | Authority::Opened(_), RequestTarget::Tunnel { .. }) => {
            Err(unreadable(HeadError::Method))
        }
        (Authority::Fixed(target), RequestTarget::Absolute { host, port, path })
            if (&host, port) == (&target.host, target.port) =>
        {
            Ok(Aimed::Resource(target.clone(), path))
        }
        (
            Authority::Fixed(target) | Authority::Opened(target),
            RequestTarget::Origin { host, port, path },
        ) if host == target.host && port.unwrap_or(authority.usual_port()) == target.port => {
            Ok(Aimed::Resource(target.clone(), path))
        }
        (
            Authority::Fixed(_) | Authority::Opened(_),
            RequestTarget::Absolute { .. } | RequestTarget::Origin { .. },
        ) => Err(unreadable(HeadError::OtherHost)),
    }
}
