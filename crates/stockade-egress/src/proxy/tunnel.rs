//! Tunnels through the proxy, opened by CONNECT or by SOCKS.

use stockade_policy::{Control, Denial};
use stockade_record::SecretAct;
use tokio::time::timeout;

use super::socks::{SocksError, SocksRequest, read_greeting, read_request};
use crate::connection::Connection;
use crate::converse::converse;
use crate::dial::{DialError, Dialled, Target, dial};
use crate::egress_record::EgressRecord;
use crate::http::{Answers, Refusal, answer_denied, answer_failed, linger};
use crate::side::Side;

/// The response that opens a CONNECT tunnel.
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Opens the tunnel of a CONNECT and sends the success response, or the reason of a refusal.
pub(super) async fn connect(
    connection: &Connection,
    inside: &mut Side,
    target: &Target,
) -> Option<Dialled> {
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    let error = match open(connection, target, &mut record).await {
        Ok(dialled) => {
            return establish(inside, dialled, record, ESTABLISHED).await;
        }
        Err(error) => error,
    };
    let (status, why) = match error {
        DialError::Denied(denial) => {
            let status = if connection.overfull(target).is_some() { 503 } else { 403 };
            record.denied(&denial);
            record.status(status);
            let refusal = Refusal { status, denial: Box::new(denial) };
            answer_denied(inside, &refusal, Answers::Connect).await;
            drop(record);
            linger(inside, connection.shared.settings.times.linger).await;
            return None;
        }
        DialError::Unresolved(why) | DialError::Unreachable(why) => (502, why),
        DialError::TooSlow(why) => (504, why),
    };
    record.allowed(&connection.shared.rules().judge_host(&target.host, target.port));
    record.status(status);
    record.failed(why.clone());
    answer_failed(inside, status, &why, Answers::Connect).await;
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
    None
}

/// Serves SOCKS 5: one greeting, one request, one tunnel.
pub(super) async fn socks5(connection: &Connection, mut inside: Side) {
    let times = connection.shared.settings.times;
    let asked = timeout(times.head, handshake(&mut inside)).await;
    let asked = match asked.unwrap_or(Ok(None)) {
        Ok(Some(request)) => request,
        Ok(None) => return,
        Err(error) => {
            let denial = malformed(&error);
            return refuse(connection, &mut inside, "SOCKS 5", error.code(), denial).await;
        }
    };
    let shown = format!("{}:{}", asked.host, asked.port);
    let target = match connection.target(asked.host, asked.port) {
        Ok(target) => target,
        Err(denial) => return refuse(connection, &mut inside, &shown, 2, denial).await,
    };
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    let error = match open(connection, &target, &mut record).await {
        Ok(dialled) => {
            if let Some(dialled) = establish(&mut inside, dialled, record, &reply(0)).await {
                converse(connection, inside, &target, Some(dialled)).await;
            }
            return;
        }
        Err(error) => error,
    };
    let (code, why) = match error {
        DialError::Denied(denial) => {
            record.denied(&denial);
            return answer(connection, &mut inside, record, 2).await;
        }
        DialError::Unresolved(why) => (4, why),
        DialError::Unreachable(why) => (5, why),
        DialError::TooSlow(why) => (6, why),
    };
    record.allowed(&connection.shared.rules().judge_host(&target.host, target.port));
    record.failed(why);
    answer(connection, &mut inside, record, code).await;
}

/// Sends the reply that a tunnel is open. If the program is gone by then, the connection is still
/// recorded: the name was resolved and the host dialled.
async fn establish(
    inside: &mut Side,
    dialled: Dialled,
    mut record: EgressRecord,
    word: &[u8],
) -> Option<Dialled> {
    if inside.outgoing.send(word).await.is_ok() {
        record.forget();
        return Some(dialled);
    }
    record.allowed(&dialled.verdict);
    record.dialled(dialled.address);
    record.failed("the program went away before the tunnel was open");
    None
}

/// Judges a tunnel and dials its host. Its protocol is checked later.
async fn open(
    connection: &Connection,
    target: &Target,
    record: &mut EgressRecord,
) -> Result<Dialled, DialError> {
    let host = target.host.to_string();
    let secrets = &connection.shared.settings.secrets;
    if let Some((secret, denial)) = secrets.in_host_name(&host, &record.destination()) {
        record.secret(secret, SecretAct::Misplaced);
        return Err(DialError::Denied(denial));
    }
    let verdict = connection.shared.rules().judge_host(&target.host, target.port);
    if let Some(denial) = verdict.denial().or_else(|| connection.overfull(target)) {
        return Err(DialError::Denied(denial));
    }
    dial(&connection.shared, target, None, &connection.meter).await
}

/// Answers the greeting and reads the request; `None` if the client disconnects or requires
/// authentication.
async fn handshake(inside: &mut Side) -> Result<Option<SocksRequest>, SocksError> {
    let greeting = loop {
        if let Some(greeting) = read_greeting(inside.incoming.held())? {
            break greeting;
        }
        if !more(inside).await {
            return Ok(None);
        }
    };
    inside.incoming.used(greeting.bytes);
    let method = if greeting.without_authentication { 0 } else { 0xff };
    if inside.outgoing.send(&[5, method]).await.is_err() || !greeting.without_authentication {
        return Ok(None);
    }
    loop {
        if let Some(request) = read_request(inside.incoming.held())? {
            inside.incoming.used(request.bytes);
            return Ok(Some(request));
        }
        if !more(inside).await {
            return Ok(None);
        }
    }
}

async fn more(inside: &mut Side) -> bool {
    matches!(inside.incoming.fill().await, Ok(read) if read > 0)
}

async fn refuse(
    connection: &Connection,
    inside: &mut Side,
    target: &str,
    code: u8,
    denial: Denial,
) {
    let mut record = connection.request_account();
    record.no_host(target);
    record.denied(&denial);
    answer(connection, inside, record, code).await;
}

async fn answer(connection: &Connection, inside: &mut Side, record: EgressRecord, code: u8) {
    let _ = inside.outgoing.send(&reply(code)).await;
    drop(record);
    linger(inside, connection.shared.settings.times.linger).await;
}

fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn malformed(error: &SocksError) -> Denial {
    Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: "built in: SOCKS 5 opens connections to hosts, nothing else".to_owned(),
        target: "SOCKS 5".to_owned(),
        why: error.to_string(),
        how_to_allow: "nothing: ask for a connection to a host by its plain name".to_owned(),
    }
}
