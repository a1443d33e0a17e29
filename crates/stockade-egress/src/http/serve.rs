//! One request: judged, forwarded and answered.

use stockade_policy::{Denial, Method, UrlPath, Verdict};
use stockade_record::{Inspection, SecretAct};
use tokio::sync::watch;

use super::answer::{Refusal, answer_denied, answer_failed, linger};
use super::forward::{Ended, ForwardError, Request, forward, note_echoes};
use super::head::HeadError;
use super::request::RequestHead;
use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::egress_record::EgressRecord;
use crate::relay::relay_redacted;
use crate::rules::{Rules, Spoken};
use crate::secrets::place_all;
use crate::side::Side;
use crate::tls::Protocols;

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

/// The servers' side of a connection of a program.
pub(super) struct Servers {
    /// The connection that the previous request used.
    pub(super) kept: Option<Server>,
    /// A connection that no request used yet, without TLS.
    pub(super) spare: Option<Dialled>,
    /// What requests on it are.
    pub(super) spoken: Spoken,
}

/// A request as it is judged and sent.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) head: RequestHead,
    /// The path and query.
    pub(crate) path: String,
}

/// Judges one request and forwards it.
pub(super) async fn serve_one(
    connection: &Connection,
    inside: &mut Side,
    (head, target, path): (&RequestHead, &Target, &str),
    servers: &mut Servers,
) -> Ended {
    let shared = &connection.shared;
    let spoken = servers.spoken;
    connection.asked();
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    record.request(&head.method, path);
    if spoken == Spoken::Opened {
        record.inspected(Inspection::Opened);
    }
    let seen = shared.rules.subscribe();
    let judged = judge(connection, (head, target, path), spoken, &mut record);
    let Judged { verdict, head, path } = match judged {
        Ok(judged) => judged,
        Err(refusal) => {
            refuse(connection, inside, record, refusal).await;
            return Ended::Over;
        }
    };
    let (head, path) = (&head, path.as_str());
    record.allowed(&verdict);
    let (mut used, mut was_kept) = match reach(connection, target, servers).await {
        Ok(reached) => reached,
        Err(error) => {
            fail(connection, inside, record, error).await;
            return Ended::Over;
        }
    };
    let result = loop {
        record.dialled(used.dialled.address);
        let secrets = &shared.settings.secrets;
        let request = Request { head, target, path, spoken, secrets };
        match attempt(connection, inside, &mut used, &request, &seen, &mut record).await {
            Attempt::Stopped => return Ended::Over,
            // The idle server closed its connection while this request was on its way.
            Attempt::Ended(Err(ForwardError::Gone(_))) if was_kept && head.can_be_repeated() => {
                (used, was_kept) = match reach(connection, target, servers).await {
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
            servers.kept = Some(used);
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
    request: &Request<'_>,
    seen: &watch::Receiver<Rules>,
    record: &mut EgressRecord,
) -> Attempt {
    let shared = &connection.shared;
    let times = &shared.settings.times;
    let (target, spoken) = (request.target, request.spoken);
    connection.learn_request(target, &request.head.method, request.path);
    connection.meter.touch();
    let place = (used.dialled.address, used.dialled.is_own);
    let outside = &mut used.dialled.outside;
    tokio::select! {
        biased;
        denial = shared.refused(seen.clone(), &target.host, target.port, place, spoken) => {
            record.denied(&denial);
            Attempt::Stopped
        }
        () = connection.meter.silent_for(times.idle) => {
            record.failed("nothing was sent or received for too long");
            Attempt::Stopped
        }
        result = async {
            let ended = forward(inside, outside, request, times, record).await?;
            if ended == Ended::WebSocket {
                // What follows belongs to this host and is no longer HTTP.
                let mut redactor = request.secrets.redactor(&target.host);
                let _ = relay_redacted(inside, outside, &mut redactor).await;
                note_echoes(request.secrets, &redactor, record);
            }
            Ok(ended)
        } => Attempt::Ended(result),
    }
}

/// Judges a request, and puts secrets in their places.
pub(crate) fn judge(
    connection: &Connection,
    (head, target, path): (&RequestHead, &Target, &str),
    spoken: Spoken,
    record: &mut EgressRecord,
) -> Result<Judged, Refusal> {
    let secrets = &connection.shared.settings.secrets;
    let host = target.host.to_string();
    if let Some((secret, denial)) = secrets.in_host_name(&host, &record.destination()) {
        record.secret(secret, SecretAct::Misplaced);
        return Err(Refusal::forbidden(denial));
    }
    let (verdict, path) = judge_request(connection, (head, target, path), spoken)?;
    // Only a connection that was opened here is verified here.
    let may_send = spoken == Spoken::Opened;
    let placed = place_all(secrets, target, &head.fields, &path, may_send).map_err(|alarm| {
        record.secret(&alarm.secret, SecretAct::Misplaced);
        Refusal::forbidden(alarm.denial)
    })?;
    for name in &placed.sent {
        record.secret(name, SecretAct::Sent);
    }
    for name in &placed.dropped {
        record.secret(name, SecretAct::Dropped);
    }
    let mut head = RequestHead { fields: placed.fields, ..head.clone() };
    if may_send && !secrets.for_host(&target.host).is_empty() {
        head.fields.ask_for_plain_content();
    }
    Ok(Judged { verdict, head, path: placed.path })
}

/// Judges the connection, its protocol, and the request by the policy. Returns the path that is
/// sent.
fn judge_request(
    connection: &Connection,
    (head, target, path): (&RequestHead, &Target, &str),
    spoken: Spoken,
) -> Result<(Verdict, String), Refusal> {
    let Target { host, port } = target;
    let rules = connection.shared.rules();
    let verdict = rules.judge_host(host, *port);
    if let Some(denial) = verdict.denial() {
        return Err(Refusal::forbidden(denial));
    }
    if let Some(denial) = rules.judge_speech(host, *port, None, spoken) {
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
    match (Method::parse(&head.method), UrlPath::normalized(path)) {
        // No rule concerns paths, so the server gets the path that the program wrote.
        (Ok(_), _) if !rules.judges_requests(host, *port) => Ok((verdict, path.to_owned())),
        (Ok(method), Ok(read)) => {
            let verdict = rules.judge_request(host, *port, &method, &read);
            // The server gets the path that was judged.
            let query = path.find('?').map_or("", |at| &path[at..]);
            let sent = format!("{read}{query}");
            verdict.denial().map_or(Ok((verdict, sent)), |denial| Err(Refusal::forbidden(denial)))
        }
        (Ok(_), Err(error)) => {
            let mut refusal = Refusal::unreadable(format!("{host}:{port}"), &HeadError::Malformed);
            refusal.denial.why = format!("the path {error}");
            refusal.denial.how_to_allow = error.remedy();
            Err(refusal)
        }
        (Err(error), _) => {
            let mut refusal = Refusal::unreadable(format!("{host}:{port}"), &HeadError::Method);
            refusal.denial.how_to_allow = error.remedy();
            Err(refusal)
        }
    }
}

/// The server of the previous request if it is the same and still connected, otherwise a new one.
/// Also returns whether it was reused.
async fn reach(
    connection: &Connection,
    target: &Target,
    servers: &mut Servers,
) -> Result<(Server, bool), DialError> {
    let spoken = servers.spoken;
    if let Some(mut server) = servers.kept.take()
        && server.target == *target
        && server.dialled.outside.incoming.is_quiet().await
    {
        let (Target { host, port }, address) = (target, server.dialled.address);
        let rules = connection.shared.rules();
        return match rules.judge_speech(host, *port, Some(address), spoken) {
            Some(denial) => Err(DialError::Denied(denial)),
            None => Ok((server, true)),
        };
    }
    let shared = &connection.shared;
    let mut dialled = match servers.spare.take() {
        Some(spare) => spare,
        None => dial(shared, target, Some(spoken), &connection.meter).await?,
    };
    if let (Spoken::Opened, Some(opening)) = (spoken, &shared.opening) {
        (dialled, _) = opening.secure(connection, target, dialled, Protocols::One).await?;
    }
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
    answer_denied(inside, &refusal, record.answered()).await;
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
    answer_failed(inside, status, &why, record.answered()).await;
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
    if let ForwardError::Misplaced { secret, is_midway } = error {
        let secrets = &connection.shared.settings.secrets;
        let target = record.destination();
        let denial = secrets.misplaced(secret, "the body of a request", &target);
        record.secret(secrets.name(secret), SecretAct::Misplaced);
        record.denied(&denial);
        if !is_midway {
            refuse(connection, inside, record, Refusal::forbidden(denial)).await;
        }
        return;
    }
    let why = error.to_string();
    record.failed(why.clone());
    let status = match error {
        ForwardError::NoAnswer(_) | ForwardError::Gone(_) => 502,
        ForwardError::Request(_) => 400,
        // A second head would be read as part of the response.
        ForwardError::Midway(_) | ForwardError::Misplaced { .. } => return,
    };
    record.status(status);
    answer_failed(inside, status, &why, record.answered()).await;
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
}
