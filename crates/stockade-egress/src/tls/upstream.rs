//! TLS to the servers of opened hosts, verified as this machine does.

use std::io;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use stockade_policy::{Control, Denial, Host};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority::{HTTP1, HTTP2};

/// The authorities by which the gate verifies servers.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of this machine, and of the file that `SSL_CERT_FILE` names.
    #[default]
    System,
    /// These alone.
    Only(Vec<CertificateDer<'static>>),
}

/// Why servers cannot be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There are no authorities.
    #[error("this machine has no certificates of authorities; install ca-certificates")]
    Empty,
    /// TLS refuses its configuration.
    #[error("cannot use TLS to verify servers")]
    Tls {
        /// The library's error.
        #[from]
        source: rustls::Error,
    },
}

/// The protocols that a connection to a server may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP/1.1 only.
    One,
    /// HTTP/2 if the server has it.
    OneOrTwo,
}

/// Connects to servers and verifies them.
pub(crate) struct Upstream {
    one: Arc<ClientConfig>,
    one_or_two: Arc<ClientConfig>,
    roots: Vec<CertificateDer<'static>>,
}

impl Upstream {
    pub(crate) fn new(trust: &Trust) -> Result<Upstream, TrustError> {
        let found = match trust {
            Trust::System => rustls_native_certs::load_native_certs().certs,
            Trust::Only(certificates) => certificates.clone(),
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(found.iter().cloned());
        if store.is_empty() {
            return Err(TrustError::Empty);
        }
        let provider = Arc::new(rustls_graviola::default_provider());
        let mut one = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        one.alpn_protocols = vec![HTTP1.to_vec()];
        let mut one_or_two = one.clone();
        one_or_two.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Upstream { one: Arc::new(one), one_or_two: Arc::new(one_or_two), roots: found })
    }

    /// The certificates of the authorities.
    pub(crate) fn roots(&self) -> &[CertificateDer<'static>] {
        &self.roots
    }

    /// Starts TLS to a host and verifies its certificate.
    pub(crate) async fn connect<S>(
        &self,
        host: &Host,
        protocols: Protocols,
        stream: S,
    ) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|_| io::Error::other("no certificate can have this name"))?,
            Host::Address(address) => ServerName::from(*address),
        };
        let configuration = match protocols {
            Protocols::One => &self.one,
            Protocols::OneOrTwo => &self.one_or_two,
        };
        TlsConnector::from(Arc::clone(configuration)).connect(name, stream).await
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Upstream").finish_non_exhaustive()
    }
}

/// The denial of a server whose certificate is not valid; `None` if the connection failed
/// otherwise.
pub(crate) fn unverified(host: &Host, port: u16, error: &io::Error) -> Option<Denial> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = cause else { return None };
    Some(Denial {
        control: Control::NetworkRequests.as_str().into(),
        rule: "built in: the server of an opened connection is verified by this machine's store"
            .to_owned(),
        target: format!("{host}:{port}"),
        why: format!("the certificate of the server is not valid: {why}"),
        how_to_allow: "repair the server's certificate, or add its authority to this machine; \
                       SSL_CERT_FILE may name a file with it"
            .to_owned(),
    })
}
