//! Connections that end at the gate: TLS with a certificate of the session's authority inside, and
//! verified TLS to the server outside.
//!
//! ```text
//! program ── TLS ──▶ gate: each request parsed, judged, written anew ── TLS ──▶ server
//!        certificate of the session          certificate verified by this machine
//! ```

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stockade_policy::{Control, Denial};
use stockade_record::Inspection;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::dial::{DialError, Dialled, Target};
use crate::egress_record::EgressRecord;
use crate::http::{Authority, exchange};
use crate::http2;
use crate::settings::GateError;
use crate::side::Side;
use crate::tls::{HTTP2, Protocols, SessionAuthority, Trust, Upstream, unverified};

/// The certificates that the gate presents to programs in place of the servers'.
#[derive(Debug)]
pub(crate) struct Opening {
    authority: SessionAuthority,
    upstream: Upstream,
}

impl Opening {
    pub(crate) fn new(trust: &Trust) -> Result<Opening, GateError> {
        Ok(Opening { authority: SessionAuthority::new()?, upstream: Upstream::new(trust)? })
    }

    /// The certificates that programs inside trust.
    pub(crate) fn authorities(&self) -> String {
        let mut all = String::from("# The authority of this sandbox, and those of its host.\n");
        all.push_str(self.authority.pem().replace("\r\n", "\n").trim_end());
        all.push('\n');
        for root in self.upstream.roots() {
            all.push_str("-----BEGIN CERTIFICATE-----\n");
            let text = STANDARD.encode(root);
            for line in text.as_bytes().chunks(64) {
                all.push_str(&String::from_utf8_lossy(line));
                all.push('\n');
            }
            all.push_str("-----END CERTIFICATE-----\n");
        }
        all
    }

    /// Starts verified TLS on a connection to the server of a host; also returns whether the server
    /// chose HTTP/2.
    pub(crate) async fn secure(
        &self,
        connection: &Connection,
        target: &Target,
        dialled: Dialled,
        protocols: Protocols,
    ) -> Result<(Dialled, bool), DialError> {
        let Dialled { outside, address, is_own, verdict } = dialled;
        let Target { host, port } = target;
        let most = connection.shared.settings.times.connect;
        let stream = outside.into_stream();
        let secured = match timeout(most, self.upstream.connect(host, protocols, stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let failed = || DialError::Unreachable(format!("no TLS with {host}: {error}"));
                let denial = unverified(host, *port, &error);
                return Err(denial.map_or_else(failed, DialError::Denied));
            }
            Err(_) => return Err(DialError::TooSlow(format!("{host} did not start TLS in time"))),
        };
        let is_two = secured.get_ref().1.alpn_protocol() == Some(HTTP2);
        let outside = Side::within_tls(secured, Some(Arc::clone(&connection.meter)));
        Ok((Dialled { outside, address, is_own, verdict }, is_two))
    }
}

/// Serves a connection to a host whose requests are read.
pub(crate) async fn serve(
    connection: &Connection,
    opening: &Opening,
    inside: Side,
    (target, dialled): (&Target, Option<Dialled>),
    mut record: EgressRecord,
) {
    record.inspected(Inspection::Opened);
    let configuration = match opening.authority.configuration(&target.host) {
        Ok(configuration) => configuration,
        Err(error) => return record.failed(format!("no certificate for the host: {error}")),
    };
    let accepted = TlsAcceptor::from(configuration).accept(inside.into_stream());
    let most = connection.shared.settings.times.head;
    let stream = match timeout(most, accepted).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return record.denied(&not_trusted(target, &error.to_string())),
        Err(_) => return record.denied(&not_trusted(target, &slow(most))),
    };
    record.allowed(&connection.shared.rules().judge_host(&target.host, target.port));
    if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
        http2::serve(connection, stream, target, dialled).await;
    } else {
        let mut inside = Side::within_tls(stream, None);
        exchange(connection, &mut inside, &Authority::Opened(target.clone()), dialled).await;
    }
    if connection.has_asked() {
        // Each request has a record of its own.
        record.forget();
    } else {
        record.failed("the program closed the connection before it sent a request");
    }
}

fn slow(time: Duration) -> String {
    format!("it did not finish TLS within {} seconds", time.as_secs())
}

/// The denial of a program that refuses the certificate of the session.
fn not_trusted(target: &Target, why: &str) -> Denial {
    Denial {
        control: Control::NetworkRequests.as_str().into(),
        rule: "built in: the requests to this host are read, so TLS ends at the gate".to_owned(),
        target: format!("{}:{}", target.host, target.port),
        why: format!(
            "the program did not accept the certificate of this session's authority ({why}): it \
             pins the server's certificate, or does not trust the file in SSL_CERT_FILE"
        ),
        how_to_allow: format!(
            "let the program trust the file that SSL_CERT_FILE names inside, or remove methods, \
             paths and inspect from the entry of {}, and its secrets",
            target.host
        ),
    }
}
