//! One stream: one request and its response.

use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use stockade_record::{Inspection, SecretAct};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::body::{Broken, Passing, Way, count, pump};
use super::message::{fields_of, headers_of, request_of};
use super::servers::{MAX_FIELDS, Sender, SharedServers};
use crate::connection::Connection;
use crate::dial::DialError;
use crate::egress_record::EgressRecord;
use crate::http::{Answers, Judged, Refusal, failure_body, judge, note_echoes};
use crate::rules::Spoken;
use crate::secrets::Screen;

/// Judges a request, passes it on, and returns its answer.
pub(super) async fn serve(
    connection: &Connection,
    servers: &SharedServers,
    request: Request<Incoming>,
) -> Response<Passing> {
    // Each stream counts its own bytes.
    let connection = Arc::new(connection.divided());
    connection.asked();
    let target = &servers.target;
    let mut record = connection.request_account();
    record.target(&target.host, Some(target.port));
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    record.request(parts.method.as_str(), path);
    record.inspected(Inspection::Opened);
    let (head, path) = match request_of(&parts, target, !body.is_end_stream()) {
        Ok(read) => read,
        Err(error) => {
            let whom = format!("{}:{}", target.host, target.port);
            return refused(record, &Refusal::unreadable(whom, &error));
        }
    };
    let judged = match judge(&connection, (&head, target, &path), Spoken::Opened, &mut record) {
        Ok(judged) => judged,
        Err(refusal) => return refused(record, &refusal),
    };
    record.allowed(&judged.verdict);
    connection.learn_request(target, &judged.head.method, &judged.path);
    let sender = match servers.reach(&connection).await {
        Ok(sender) => sender,
        Err(DialError::Denied(denial)) => return refused(record, &Refusal::forbidden(denial)),
        Err(DialError::Unresolved(why) | DialError::Unreachable(why)) => {
            return failed(record, 502, &why);
        }
        Err(DialError::TooSlow(why)) => return failed(record, 504, &why),
    };
    if let Some(address) = servers.address() {
        record.dialled(address);
    }
    let accepts_trailers = parts.headers.get(header::TE).is_some_and(|te| te == "trailers");
    forward(&connection, servers, sender, (judged, accepts_trailers, body), record).await
}

/// Sends a judged request, and begins to pass its answer.
async fn forward(
    connection: &Arc<Connection>,
    servers: &SharedServers,
    mut sender: Sender,
    (judged, accepts_trailers, body): (Judged, bool, Incoming),
    mut record: EgressRecord,
) -> Response<Passing> {
    let shared = &connection.shared;
    let (idle, secrets) = (shared.settings.times.idle, &shared.settings.secrets);
    let Some(mut request) = written(&judged, servers, sender.is_two(), accepts_trailers) else {
        return failed(record, 502, "the request cannot be written for the server");
    };
    let size = judged.path.len() + judged.head.fields.bytes();
    if let Err(why) = count(&connection.meter, Way::Out, size).await {
        return failed(record, 502, &why);
    }
    let (upload, mut stopped) = oneshot::channel();
    if body.is_end_stream() {
        stopped.close();
    } else {
        let (frames, piped) = mpsc::channel(1);
        *request.body_mut() = Passing::Piped(piped);
        let (meter, mut detector) = (Arc::clone(&connection.meter), secrets.detector());
        servers.tasks.start(async move {
            let passed = pump(body, frames, (meter, Way::Out), &mut detector, idle).await;
            if let Err(Broken::Misplaced(misplaced)) = passed {
                let _ = upload.send(misplaced);
            }
        });
    }
    let answer = timeout(idle, sender.send(request)).await;
    if let Ok(misplaced) = stopped.try_recv() {
        let target = record.destination();
        let denial = secrets.misplaced(misplaced.0, "the body of a request", &target);
        record.secret(secrets.name(misplaced.0), SecretAct::Misplaced);
        return refused(record, &Refusal::forbidden(denial));
    }
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let why = stockade_provider::chain(&error);
            let why = format!("the server gave no answer that can be passed on: {why}");
            return failed(record, 502, &why);
        }
        Err(_) => return failed(record, 504, "the server did not answer in time"),
    };
    let mut redactor = secrets.redactor(&servers.target.host);
    let (parts, body) = answer.into_parts();
    let Some((response, size)) = head_of(&parts, &body, &mut redactor) else {
        return failed(record, 502, "the response cannot be searched for secrets, or is malformed");
    };
    note_echoes(secrets, &redactor, &mut record);
    record.status(parts.status.as_u16());
    if let Err(why) = count(&connection.meter, Way::Back, size).await {
        return failed(record, 502, &why);
    }
    if body.is_end_stream() {
        servers.keep(sender).await;
        return response.map(|()| Passing::empty());
    }
    let (frames, piped) = mpsc::channel(1);
    let (own, servers) = (Arc::clone(connection), Arc::clone(servers));
    let tasks = servers.tasks.clone();
    tasks.start(async move {
        let meter = Arc::clone(&own.meter);
        let passed = pump(body, frames, (meter, Way::Back), &mut redactor, idle).await;
        note_echoes(&own.shared.settings.secrets, &redactor, &mut record);
        match passed {
            Ok(()) => servers.keep(sender).await,
            Err(Broken::Ended(why)) => record.failed(why),
            // Only a detector refuses.
            Err(Broken::Misplaced(_)) => {}
        }
    });
    response.map(|()| Passing::Piped(piped))
}

/// A request as the server gets it.
fn written(
    judged: &Judged,
    servers: &SharedServers,
    is_two: bool,
    accepts_trailers: bool,
) -> Option<Request<Passing>> {
    let target = &servers.target;
    let authority = match target.port {
        443 => target.host.to_string(),
        port => format!("{}:{port}", target.host),
    };
    let mut request = Request::new(Passing::empty());
    *request.method_mut() = hyper::Method::from_bytes(judged.head.method.as_bytes()).ok()?;
    *request.headers_mut() = headers_of(&judged.head.fields)?;
    let path = judged.path.as_str();
    if is_two {
        *request.version_mut() = Version::HTTP_2;
        let uri = Uri::builder().scheme("https").authority(authority).path_and_query(path);
        *request.uri_mut() = uri.build().ok()?;
        if accepts_trailers {
            request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
        }
    } else {
        *request.uri_mut() = path.parse().ok()?;
        let value = HeaderValue::from_str(&authority).ok()?;
        request.headers_mut().insert(header::HOST, value);
    }
    Some(request)
}

/// The head of a response as the program gets it, redacted, and its size; `None` if it has two
/// readings, or cannot be searched for secrets.
fn head_of(
    parts: &hyper::http::response::Parts,
    body: &Incoming,
    redactor: &mut Screen,
) -> Option<(Response<()>, usize)> {
    if parts.headers.len() > MAX_FIELDS {
        return None;
    }
    let fields = fields_of(&parts.headers);
    // hyper chooses one of two lengths; the gate passes no answer with two readings on.
    fields.length(u8::from(parts.version != Version::HTTP_10)).ok()?;
    let mut fields = fields.without_hops().ok()?;
    // HTTP/2 has frames of its own.
    fields.0.retain(|field| !field.is("transfer-encoding"));
    if !redactor.is_off() {
        let codings = fields.words("content-encoding");
        if !body.is_end_stream() && codings.iter().any(|coding| coding != "identity") {
            return None;
        }
        // A part may contain a part of a value.
        if parts.status == StatusCode::PARTIAL_CONTENT {
            return None;
        }
        redactor.fields(&mut fields).ok()?;
    }
    let mut response = Response::new(());
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers_of(&fields)?;
    Some((response, fields.bytes()))
}

fn refused(mut record: EgressRecord, refusal: &Refusal) -> Response<Passing> {
    record.denied(&refusal.denial);
    record.status(refusal.status);
    let body = serde_json::to_vec(&refusal.denial).unwrap_or_default();
    answer(refusal.status, body, record.answered())
}

fn failed(mut record: EgressRecord, status: u16, why: &str) -> Response<Passing> {
    record.status(status);
    record.failed(why);
    answer(status, failure_body(why), record.answered())
}

/// A response of the gate. That to a HEAD has the fields of a body, and none.
fn answer(status: u16, body: Vec<u8>, answers: Answers) -> Response<Passing> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(match answers {
        Answers::Head => Passing::empty(),
        Answers::Request | Answers::Connect => Passing::whole(body),
    });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
    response
}
