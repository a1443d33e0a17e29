//! How programs in a sandbox learn to trust the authority of its session.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The first bytes of a store of Java.
const JAVA_MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

/// Variables by which programs find the certificates that they trust: OpenSSL, Go and curl; Python's
/// requests; Node; pip; curl; git; and others.
const VARIABLES: [&str; 10] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
    "NPM_CONFIG_CAFILE",
];

/// The variable that gives every Java program its options.
const JAVA: &str = "JAVA_TOOL_OPTIONS";

/// The variables that name a file with certificates. Java gets the [store](java_store) next to it.
pub fn authority_variables(file: &str) -> Vec<(String, String)> {
    let store = java_store_path(file);
    let options = format!("-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStoreType=JKS");
    let named = VARIABLES.iter().map(|name| ((*name).to_owned(), file.to_owned()));
    named.chain([(JAVA.to_owned(), options)]).collect()
}

/// The path of Java's store for a file with certificates.
pub fn java_store_path(file: &str) -> String {
    format!("{}.jks", file.strip_suffix(".pem").unwrap_or(file))
}

/// The certificates of a PEM text as a store for Java, which reads no PEM. It has no password, so
/// it ends without the digest that only a password checks.
pub fn java_store(pem: &str) -> Vec<u8> {
    let certificates: Vec<Vec<u8>> = pem
        .split("-----BEGIN CERTIFICATE-----")
        .skip(1)
        .filter_map(|rest| rest.split_once("-----END CERTIFICATE-----"))
        .filter_map(|(text, _)| {
            let text: String = text.split_whitespace().collect();
            STANDARD.decode(text).ok()
        })
        .collect();
    let mut store = Vec::new();
    let number = |store: &mut Vec<u8>, number: usize| {
        store.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
    };
    let text = |store: &mut Vec<u8>, text: &str| {
        store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        store.extend(text.as_bytes());
    };
    store.extend(JAVA_MAGIC);
    // The version of the format.
    number(&mut store, 2);
    number(&mut store, certificates.len());
    for (index, certificate) in certificates.iter().enumerate() {
        // A trusted certificate.
        number(&mut store, 2);
        text(&mut store, &format!("authority-{index}"));
        // When it was added, in milliseconds since 1970.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        number(&mut store, certificate.len());
        store.extend(certificate);
    }
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_of_java_has_every_certificate_and_nothing_else() {
        let block = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        let pem = format!("# a comment\n{}{}", block("AAEC"), block("AwQF\nBgc="));
        let expected = [
            &b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\x02"[..],
            b"\0\0\0\x02\0\x0bauthority-0\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x03\0\x01\x02",
            b"\0\0\0\x02\0\x0bauthority-1\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x05\x03\x04\x05\x06\x07",
        ];
        assert_eq!(java_store(&pem), expected.concat());
        assert_eq!(java_store(""), b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\0");
    }

    #[test]
    fn no_secret_can_take_a_variable_that_names_certificates() {
        for (name, _) in authority_variables("/a.pem") {
            assert!(stockade_policy::check_secret_name(&name).is_err(), "{name}");
        }
    }

    #[test]
    fn variables_name_the_file_and_the_store_of_java_next_to_it() {
        let variables = authority_variables("/etc/stockade/authorities.pem");
        let of =
            |wanted: &str| variables.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
        assert_eq!(of("SSL_CERT_FILE"), "/etc/stockade/authorities.pem");
        assert_eq!(
            of("JAVA_TOOL_OPTIONS"),
            "-Djavax.net.ssl.trustStore=/etc/stockade/authorities.jks \
             -Djavax.net.ssl.trustStoreType=JKS"
        );
    }
}
