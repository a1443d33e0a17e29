//! One request: judged, forwarded and answered.

use stockade_policy::{Denial, Method, Protocol, UrlPath, Verdict};
use tokio::sync::watch;

use super::answer::{Refusal, answer_denied, answer_failed, linger};
use super::forward::{Ended, ForwardError, forward};
use super::head::HeadError;
use super::request::RequestHead;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::egress_record::EgressRecord;
use crate::relay::relay;
use crate::rules::{Rules, Spoken};
use crate::side::Side;

/// Fields by which some servers replace the method or path of a request.
const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// A connection to the server of a host.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) dialled: Dialled,
}

/// Judges one request and forwards it.
pub(super) async fn serve_one(
    connection: &Connection,
    inside: &mut Side,
    (head, target, path): (&RequestHead, &Target, &str),
    server: &mut Option<Server>,
) -> Ended {
    let shared = &connection.shared;
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    record.request(&head.method, path);
    let seen = shared.rules.subscribe();
    let verdict = match judge(connection, head, target, path) {
        Ok(verdict) => verdict,
        Err(refusal) => {
            refuse(connection, inside, record, refusal).await;
            return Ended::Over;
        }
    };
    record.allowed(&verdict);
    let (mut used, mut was_kept) = match reach(connection, target, server.take()).await {
        Ok(reached) => reached,
        Err(error) => {
            fail(connection, inside, record, error).await;
            return Ended::Over;
        }
    };
    let result = loop {
        record.dialled(used.dialled.address);
        let request = (head, target, path);
        match attempt(connection, inside, &mut used, request, &seen, &mut record).await {
            Attempt::Stopped => return Ended::Over,
            // The idle server closed its connection while this request was on its way.
            Attempt::Ended(Err(ForwardError::Gone(_))) if was_kept && head.can_be_repeated() => {
                (used, was_kept) = match reach(connection, target, None).await {
                    Ok(reached) => reached,
                    Err(error) => {
                        fail(connection, inside, record, error).await;
                        return Ended::Over;
                    }
                };
            }
            Attempt::Ended(result) => break result,
        }
    };
    match result {
        Ok(Ended::Kept) => {
            *server = Some(used);
            Ended::Kept
        }
        Ok(Ended::Over) => {
            // Dropping a stream before the program has closed it resets it, and the program loses
            // unread bytes.
            drop((record, used));
            linger(inside, shared.settings.times.idle).await;
            Ended::Over
        }
        Ok(Ended::WebSocket) => Ended::WebSocket,
        Err(error) => {
            broken(connection, inside, record, error).await;
            Ended::Over
        }
    }
}

/// How an attempt to forward a request ended.
enum Attempt {
    /// It completed, or it failed.
    Ended(Result<Ended, ForwardError>),
    /// A rule or a timeout stopped it, and that is recorded.
    Stopped,
}

async fn attempt(
    connection: &Connection,
    inside: &mut Side,
    used: &mut Server,
    (head, target, path): (&RequestHead, &Target, &str),
    seen: &watch::Receiver<Rules>,
    record: &mut EgressRecord,
) -> Attempt {
    let shared = &connection.shared;
    let times = &shared.settings.times;
    connection.learn(target, Protocol::Web);
    connection.meter.touch();
    let place = (used.dialled.address, used.dialled.is_own);
    let outside = &mut used.dialled.outside;
    tokio::select! {
        biased;
        denial = shared.refused(seen.clone(), &target.host, target.port, place, Spoken::Http) => {
            record.denied(&denial);
            Attempt::Stopped
        }
        () = connection.meter.silent_for(times.idle) => {
            record.failed("nothing was sent or received for too long");
            Attempt::Stopped
        }
        result = async {
            let request = (head, target, path);
            let ended = forward(inside, outside, request, times, record).await?;
            if ended == Ended::WebSocket {
                // What follows belongs to this host and is no longer HTTP.
                let _ = relay(inside, outside).await;
            }
            Ok(ended)
        } => Attempt::Ended(result),
    }
}

/// Judges the connection, its protocol, and the request by the policy.
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
        return Err(Refusal { status: 503, denial: Box::new(denial) });
    }
    // Some servers treat an underscore in a field name as a hyphen.
    let is_override = |name: &str| OVERRIDES.iter().any(|one| name.eq_ignore_ascii_case(one));
    let is_disguised = head.fields.0.iter().any(|field| is_override(&field.name.replace('_', "-")));
    if is_disguised && rules.judges_requests(host, *port) {
        return Err(Refusal::unreadable(format!("{host}:{port}"), &HeadError::Override));
    }
    match (Method::parse(&head.method), UrlPath::parse(path)) {
        (Ok(method), Ok(read)) => {
            let verdict = rules.judge_request(host, *port, &method, &read);
            verdict.denial().map_or(Ok(verdict), |denial| Err(Refusal::forbidden(denial)))
        }
        // An ambiguous path passes only if no rule concerns paths.
        (Ok(_), Err(_)) if !rules.judges_requests(host, *port) => Ok(verdict),
        (Ok(_), Err(error)) => {
            let mut refusal = Refusal::unreadable(format!("{host}:{port}"), &HeadError::Malformed);
            refusal.denial.why = error.to_string();
            Err(refusal)
        }
        (Err(_), _) => Err(Refusal::unreadable(format!("{host}:{port}"), &HeadError::Method)),
    }
}

/// The server of the previous request if it is the same and still connected, otherwise a new one.
/// Also returns whether it was reused.
async fn reach(
    connection: &Connection,
    target: &Target,
    before: Option<Server>,
) -> Result<(Server, bool), DialError> {
    if let Some(mut server) = before
        && server.target == *target
        && server.dialled.outside.incoming.is_quiet().await
    {
        let (Target { host, port }, address) = (target, server.dialled.address);
        let rules = connection.shared.rules();
        return match rules.judge_speech(host, *port, Some(address), Spoken::Http) {
            Some(denial) => Err(DialError::Denied(denial)),
            None => Ok((server, true)),
        };
    }
    let dialled = dial(&connection.shared, target, Some(Spoken::Http), &connection.meter).await?;
    Ok((Server { target: target.clone(), dialled }, false))
}

pub(super) async fn refuse(
    connection: &Connection,
    inside: &mut Side,
    mut record: EgressRecord,
    refusal: Refusal,
) {
    record.denied(&refusal.denial);
    record.status(refusal.status);
    answer_denied(inside, &refusal, false).await;
    // Recorded before the wait, so that the event is not delayed.
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
}

async fn fail(
    connection: &Connection,
    inside: &mut Side,
    mut record: EgressRecord,
    error: DialError,
) {
    let (status, why) = match error {
        DialError::Denied(denial) => return deny(connection, inside, record, denial).await,
        DialError::Unresolved(why) | DialError::Unreachable(why) => (502, why),
        DialError::TooSlow(why) => (504, why),
    };
    record.status(status);
    record.failed(why.clone());
    answer_failed(inside, status, &why).await;
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
}

async fn deny(connection: &Connection, inside: &mut Side, record: EgressRecord, denial: Denial) {
    refuse(connection, inside, record, Refusal::forbidden(denial)).await;
}

async fn broken(
    connection: &Connection,
    inside: &mut Side,
    mut record: EgressRecord,
    error: ForwardError,
) {
    let why = error.to_string();
    record.failed(why.clone());
    let status = match error {
        ForwardError::NoAnswer(_) | ForwardError::Gone(_) => 502,
        ForwardError::Request(_) => 400,
        // A second head would be read as part of the response.
        ForwardError::Midway(_) => return,
    };
    record.status(status);
    answer_failed(inside, status, &why).await;
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
}
