//! The certificate authority of one session: only its sandbox trusts it, and its key never leaves
//! this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use stockade_policy::Host;

use super::key::Key;

/// The name of the authority in its certificate.
const SUBJECT: &str = "Stockade session authority";
/// The most hosts with a certificate at once; beyond it, certificates are made anew.
const MAX_HOSTS: usize = 1024;
/// The clock inside may differ; a session that lives longer needs a new sandbox.
const BEFORE: Duration = Duration::from_secs(24 * 3600);
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// What clients inside may speak on an opened connection, in the order of preference.
pub(crate) const HTTP2: &[u8] = b"h2";
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// Why the authority could not be made, or could not sign.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A key or a certificate could not be made.
    #[error("cannot make a certificate of this session's authority")]
    Certificate {
        /// The library's error.
        #[from]
        source: rcgen::Error,
    },
    /// TLS refuses the key or the certificate.
    #[error("cannot use TLS with a certificate of this session's authority")]
    Tls {
        /// The library's error.
        #[from]
        source: rustls::Error,
    },
}

/// The authority, and the certificates that it has signed.
pub(crate) struct SessionAuthority {
    issuer: Issuer<'static, Key>,
    certificate: CertificateDer<'static>,
    pem: String,
    /// The key of every server certificate.
    server: Key,
    signed: Mutex<HashMap<Host, Arc<ServerConfig>>>,
}

impl SessionAuthority {
    /// Makes new keys and a certificate.
    pub(crate) fn new() -> Result<SessionAuthority, AuthorityError> {
        let key = Key::generate()?;
        let mut parameters = dated(CertificateParams::default());
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, SUBJECT);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.key_identifier_method = KeyIdMethod::PreSpecified(key.identifier());
        parameters.serial_number = Some(serial(&key.identifier()));
        let certificate = parameters.self_signed(&key)?;
        Ok(SessionAuthority {
            pem: certificate.pem(),
            certificate: certificate.into(),
            issuer: Issuer::new(parameters, key),
            server: Key::generate()?,
            signed: Mutex::default(),
        })
    }

    /// The certificate as PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// The TLS configuration with which the gate answers for a host.
    pub(crate) fn configuration(&self, host: &Host) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(configuration) = signed.get(host) {
            return Ok(Arc::clone(configuration));
        }
        let configuration = Arc::new(self.sign_for(host)?);
        if signed.len() >= MAX_HOSTS {
            signed.clear();
        }
        signed.insert(host.clone(), Arc::clone(&configuration));
        Ok(configuration)
    }

    fn sign_for(&self, host: &Host) -> Result<ServerConfig, AuthorityError> {
        let name = match host {
            Host::Name(name) => name.as_str().to_owned(),
            Host::Address(address) => address.to_canonical().to_string(),
        };
        let mut parameters = dated(CertificateParams::new([name.clone()])?);
        parameters.distinguished_name = DistinguishedName::new();
        // A common name holds at most 64 characters; clients read the alternative name.
        if name.len() <= 64 {
            parameters.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_identifier_method = KeyIdMethod::PreSpecified(self.server.identifier());
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.serial_number = Some(random_serial()?);
        let certificate = parameters.signed_by(&self.server, &self.issuer)?;
        let chain = vec![certificate.into(), self.certificate.clone()];
        let provider = Arc::new(rustls_graviola::default_provider());
        let mut configuration = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, self.server.private()?)?;
        configuration.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(configuration)
    }
}

impl fmt::Debug for SessionAuthority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SessionAuthority").finish_non_exhaustive()
    }
}

fn dated(mut parameters: CertificateParams) -> CertificateParams {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    parameters.not_before = epoch + now.saturating_sub(BEFORE);
    parameters.not_after = epoch + now + LIFETIME;
    parameters
}

/// Clients that see two certificates with one serial number of one issuer refuse both.
fn random_serial() -> Result<SerialNumber, rcgen::Error> {
    let mut bytes = [0; 16];
    graviola::random::fill(&mut bytes).map_err(|_| rcgen::Error::KeyGenerationUnavailable)?;
    Ok(serial(&bytes))
}

/// A positive serial number.
fn serial(bytes: &[u8]) -> SerialNumber {
    let mut bytes: Vec<u8> = bytes.iter().copied().take(16).collect();
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    SerialNumber::from_slice(&bytes)
}
