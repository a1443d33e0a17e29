//! Signing keys of certificates, made with cryptography that needs no C compiler.

use std::fmt;

use graviola::hashing::Sha256;
use graviola::signing::ecdsa::{P256, SigningKey};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An uncompressed point: a byte and two coordinates.
const POINT_BYTES: usize = 65;

/// A key that exists only in the memory of this process.
pub(super) struct Key {
    signing: SigningKey<P256>,
    point: Vec<u8>,
}

impl Key {
    pub(super) fn generate() -> Result<Key, rcgen::Error> {
        let failed = |_| rcgen::Error::KeyGenerationUnavailable;
        let signing = SigningKey::<P256>::generate().map_err(failed)?;
        let mut buffer = [0; 256];
        // The point is the last part of the key's DER description.
        let public = signing.to_spki_der(&mut buffer).map_err(failed)?;
        let point = public.last_chunk::<POINT_BYTES>();
        let point = point.ok_or(rcgen::Error::KeyGenerationUnavailable)?.to_vec();
        Ok(Key { signing, point })
    }

    /// The identifier of the key in certificates, RFC 7093 section 2.
    pub(super) fn identifier(&self) -> Vec<u8> {
        use graviola::hashing::Hash;
        Sha256::hash(&self.point).as_ref().iter().copied().take(20).collect()
    }

    pub(super) fn private(&self) -> Result<PrivateKeyDer<'static>, rcgen::Error> {
        let mut buffer = [0; 256];
        let der = self.signing.to_pkcs8_der(&mut buffer);
        let der = der.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?.to_vec();
        Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Key").finish_non_exhaustive()
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
