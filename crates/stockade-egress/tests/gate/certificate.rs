//! A certificate for a test, made with cryptography that needs no C compiler.

use std::sync::Arc;

use graviola::hashing::Sha256;
use graviola::signing::ecdsa::{P256, SigningKey};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A server with these names, and the roots that authenticate it.
pub(crate) fn server(names: &[&str]) -> (ServerConfig, RootCertStore) {
    let (config, certificate) = signed(names);
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    (config, roots)
}

/// The same with the certificate that authenticates it.
pub(crate) fn signed(names: &[&str]) -> (ServerConfig, CertificateDer<'static>) {
    let key = Key::generate();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = rcgen::CertificateParams::new(names).unwrap();
    parameters.serial_number = Some(1.into());
    let certificate = CertificateDer::from(parameters.self_signed(&key).unwrap().der().to_vec());
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.private())
        .unwrap();
    (config, certificate)
}

/// The same that speaks HTTP/2 only.
pub(crate) fn signed_two(names: &[&str]) -> (ServerConfig, CertificateDer<'static>) {
    let (mut config, certificate) = signed(names);
    config.alpn_protocols = vec![b"h2".to_vec()];
    (config, certificate)
}

/// A client that trusts these roots.
pub(crate) fn client(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls_graviola::default_provider())
}

struct Key {
    signing: SigningKey<P256>,
    point: Vec<u8>,
}

impl Key {
    fn generate() -> Key {
        let signing = SigningKey::<P256>::generate().unwrap();
        let mut buffer = [0; 256];
        let public = signing.to_spki_der(&mut buffer).unwrap();
        // The key is the last part of its encoding: a byte and two coordinates.
        let point = public[public.len() - 65..].to_vec();
        Key { signing, point }
    }

    fn private(&self) -> PrivateKeyDer<'static> {
        let mut buffer = [0; 256];
        PrivateKeyDer::try_from(self.signing.to_pkcs8_der(&mut buffer).unwrap().to_vec()).unwrap()
    }
}

impl rcgen::PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let mut buffer = [0; 128];
        let signature = self.signing.sign_asn1::<Sha256>(&[message], &mut buffer);
        signature.map(<[u8]>::to_vec).map_err(|_| rcgen::Error::RemoteKeyError)
    }
}
