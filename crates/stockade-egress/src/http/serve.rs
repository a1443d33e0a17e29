//! One request: judged, sent and answered.

use stockade_policy::{Denial, Method, Protocol, UrlPath, Verdict};
use tokio::sync::watch;

use super::answer::{Refusal, answer_denied, answer_failed, linger};
use super::forward::{Ended, ForwardError, forward};
use super::head::HeadError;
use super::request::RequestHead;
use crate::account::Account;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::relay::relay;
use crate::rules::{Rules, Spoken};
use crate::side::Side;

/// Fields by which some servers take another method or path than the request's own.
const OVERRIDES: [&str; 5] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// A server that was dialled for a host.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) dialled: Dialled,
}

/// Judges one request and has it answered.
pub(super) async fn serve_one(
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
    let (mut used, mut was_kept) = match reach(connection, target, server.take()).await {
        Ok(reached) => reached,
        Err(error) => {
            fail(connection, inside, account, error).await;
            return Ended::Over;
        }
    };
    let result = loop {
        account.dialled(used.dialled.address);
        let request = (head, target, path);
        match attempt(connection, inside, &mut used, request, &seen, &mut account).await {
            Attempt::Stopped => return Ended::Over,
            // It closed while nobody asked it anything; its end and this request met on the way.
            Attempt::Ended(Err(ForwardError::Gone(_))) if was_kept && head.can_be_repeated() => {
                (used, was_kept) = match reach(connection, target, None).await {
                    Ok(reached) => reached,
                    Err(error) => {
                        fail(connection, inside, account, error).await;
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
            // A stream that is let go before the program has ended it reaches the program as a
            // reset, which takes away what it has not read yet.
            drop((account, used));
            linger(inside, shared.settings.times.idle).await;
            Ended::Over
        }
        Ok(Ended::WebSocket) => Ended::WebSocket,
        Err(error) => {
            broken(connection, inside, account, error).await;
            Ended::Over
        }
    }
}

/// How an attempt to have a request answered went.
enum Attempt {
    /// To its end, or it failed.
    Ended(Result<Ended, ForwardError>),
    /// The rules or the time stopped it, and that is told.
    Stopped,
}

async fn attempt(
    connection: &Connection,
    inside: &mut Side,
    used: &mut Server,
    (head, target, path): (&RequestHead, &Target, &str),
    seen: &watch::Receiver<Rules>,
    account: &mut Account,
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
            account.denied(&denial);
            Attempt::Stopped
        }
        () = connection.meter.silent_for(times.idle) => {
            account.failed("nothing was sent or received for too long");
            Attempt::Stopped
        }
        result = async {
            let request = (head, target, path);
            let ended = forward(inside, outside, request, times, account).await?;
            if ended == Ended::WebSocket {
                // Whatever follows belongs to this host and is no request any more.
                let _ = relay(inside, outside).await;
            }
            Ok(ended)
        } => Attempt::Ended(result),
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
        return Err(Refusal { status: 503, denial: Box::new(denial) });
    }
    // Some servers read an underscore in the name of a field as a hyphen.
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

/// The server of the request before, if it is the same and still there; else a new one. Says
/// whether it was there before.
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
        ForwardError::NoAnswer(_) | ForwardError::Gone(_) => 502,
        ForwardError::Request(_) => 400,
        // Another head would be read as part of the answer.
        ForwardError::Midway(_) => return,
    };
    account.status(status);
    answer_failed(inside, status, &why).await;
    drop(account);
    linger(inside, connection.shared.settings.times.linger).await;
}
