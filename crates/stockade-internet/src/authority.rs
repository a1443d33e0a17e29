//! The certificate authority of every server of the fake internet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use sha1::{Digest, Sha1};

use crate::key::Key;

/// The bundle file in a folder of trusted certificates.
pub(crate) const BUNDLE: &str = "ca-certificates.crt";
/// The file name under which OpenSSL looks for our authority: `openssl x509 -hash` of a certificate
/// with [`SUBJECT`] as its common name.
pub(crate) const SUBJECT_HASH: &str = "d40f6611.0";
const SUBJECT: &str = "Stockade Test Authority";

/// A certificate authority with one key for all its servers.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, Key>,
    certificate: CertificateDer<'static>,
    pem: String,
    server_key: Key,
    configurations: Mutex<HashMap<String, Arc<ServerConfig>>>,
}

impl Authority {
    /// Creates a new authority. Its keys exist only in memory.
    pub fn new() -> Result<Authority, AuthorityError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, SUBJECT);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // rcgen without a crypto backend does not generate a serial number.
        parameters.serial_number = Some(1.into());
        let key = Key::generate().map_err(AuthorityError::certificate)?;
        let certificate = parameters.self_signed(&key).map_err(AuthorityError::certificate)?;
        Ok(Authority {
            pem: certificate.pem(),
            certificate: certificate.into(),
            issuer: Issuer::new(parameters, key),
            server_key: Key::generate().map_err(AuthorityError::certificate)?,
            configurations: Mutex::default(),
        })
    }

    /// The certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The TLS configuration of the server with this name, or with this address if the client sends
    /// no name.
    pub fn configuration(
        &self,
        name: Option<&str>,
        address: IpAddr,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let subject = name.map_or_else(|| address.to_canonical().to_string(), str::to_owned);
        let mut known = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(configuration) = known.get(&subject) {
            return Ok(Arc::clone(configuration));
        }
        let configuration = Arc::new(self.sign_for(&subject)?);
        known.insert(subject, Arc::clone(&configuration));
        Ok(configuration)
    }

    fn sign_for(&self, subject: &str) -> Result<ServerConfig, AuthorityError> {
        let mut parameters =
            CertificateParams::new([subject.to_owned()]).map_err(AuthorityError::certificate)?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.serial_number = Some(serial(subject));
        parameters.use_authority_key_identifier_extension = true;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(2099, 1, 1);
        let signed = parameters
            .signed_by(&self.server_key, &self.issuer)
            .map_err(AuthorityError::certificate)?;
        let chain = vec![signed.into(), self.certificate.clone()];
        let key = self.server_key.private().map_err(AuthorityError::certificate)?;
        let provider = Arc::new(rustls_graviola::default_provider());
        let mut configuration = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|source| AuthorityError::Tls { source })?;
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(configuration)
    }
}

/// A distinct serial number for each subject.
fn serial(subject: &str) -> SerialNumber {
    SerialNumber::from_slice(&Sha1::digest(subject)[..16])
}

/// Why the authority could not be created, or could not sign.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// A key or a certificate could not be created.
    #[error("making a certificate for the fake internet")]
    Certificate {
        /// The library's error.
        #[source]
        source: rcgen::Error,
    },
    /// TLS refuses the key or the certificate.
    #[error("configuring TLS for the fake internet")]
    Tls {
        /// The library's error.
        #[source]
        source: rustls::Error,
    },
}

impl AuthorityError {
    fn certificate(source: rcgen::Error) -> AuthorityError {
        AuthorityError::Certificate { source }
    }
}
