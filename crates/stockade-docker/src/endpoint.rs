//! Finds the engine: an address, a variable, or a context of the `docker` command.

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{DockerError, DockerOptions};

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// A Unix socket of this machine.
    Unix(PathBuf),
    /// TCP without TLS, on this machine's loopback interface only.
    Tcp(String),
    /// TLS, with `ca.pem`, `cert.pem` and `key.pem` in a directory.
    Tls { address: String, certificates: PathBuf },
}

const DEFAULT: &str = "unix:///var/run/docker.sock";

impl Endpoint {
    /// The engine's address in the order of the `docker` command: the option, `DOCKER_HOST`,
    /// `DOCKER_CONTEXT`, the current context, the usual socket.
    pub(crate) fn find(options: &DockerOptions) -> Result<Endpoint, DockerError> {
        let certificates = options.certificates.as_deref();
        if let Some(address) = options.url.as_ref().or(options.host.as_ref()) {
            return Endpoint::parse(address, certificates);
        }
        let context = match &options.context {
            Some(context) => Some(context.clone()),
            None => current_context(options.configuration.as_deref())?,
        };
        match (context, &options.configuration) {
            (Some(name), Some(directory)) if name != "default" => of_context(&name, directory),
            _ => Endpoint::parse(DEFAULT, certificates),
        }
    }

    /// Whether the engine sees this machine's files.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Endpoint::Unix(_))
    }

    fn parse(address: &str, certificates: Option<&Path>) -> Result<Endpoint, DockerError> {
        let wrong = |reason: &str, remedy: &str| DockerError::Address {
            address: address.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        let Some((scheme, rest)) = address.split_once("://") else {
            return Err(wrong("it has no scheme", "write unix:///path or tcp://host:port"));
        };
        match (scheme, certificates) {
            ("unix", _) if rest.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(rest))),
            ("unix", _) => Err(wrong("its path is not absolute", "write unix:///path")),
            ("tcp" | "https", Some(certificates)) => Ok(Endpoint::Tls {
                address: format!("tcp://{rest}"),
                certificates: certificates.to_owned(),
            }),
            ("tcp" | "http", _) if is_loopback(rest) => Ok(Endpoint::Tcp(format!("tcp://{rest}"))),
            ("tcp" | "http" | "https", _) => Err(wrong(
                "without TLS any process on the network could control the engine",
                "set DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, or forward its socket with `ssh -L`",
            )),
            ("ssh", _) => Err(wrong(
                "Stockade does not start ssh",
                "forward the socket with `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`, \
                 and write --docker-url unix:///tmp/docker.sock",
            )),
            _ => Err(wrong("its scheme is unknown", "write unix:///path or tcp://host:port")),
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Tcp(address) | Endpoint::Tls { address, .. } => f.write_str(address),
        }
    }
}

fn is_loopback(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The used fields of `config.json`.
#[derive(Deserialize)]
struct Configuration {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

/// The used fields of a context's `meta.json`.
#[derive(Deserialize)]
struct Context {
    #[serde(rename = "Endpoints")]
    endpoints: Endpoints,
}

#[derive(Deserialize)]
struct Endpoints {
    docker: ContextEndpoint,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(rename = "Host")]
    host: String,
    #[serde(rename = "SkipTLSVerify", default)]
    skips_verification: bool,
}

fn current_context(configuration: Option<&Path>) -> Result<Option<String>, DockerError> {
    let Some(directory) = configuration else { return Ok(None) };
    let file = directory.join("config.json");
    match read(&file) {
        Ok(text) => {
            let parsed: Configuration =
                serde_json::from_str(&text).map_err(|error| unreadable(&file, &error))?;
            Ok(parsed.current_context.filter(|name| !name.is_empty()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&file, &error)),
    }
}

/// The endpoint of a context, which is stored below the SHA-256 of its name.
fn of_context(name: &str, configuration: &Path) -> Result<Endpoint, DockerError> {
    let digest = digest(name);
    let contexts = configuration.join("contexts");
    let file = contexts.join("meta").join(&digest).join("meta.json");
    let text = read(&file).map_err(|error| DockerError::Address {
        address: format!("of the context {name}"),
        reason: format!("{}: {error}", file.display()),
        remedy: "name a context of `docker context ls`, or write --docker-url".to_owned(),
    })?;
    let context: Context =
        serde_json::from_str(&text).map_err(|error| unreadable(&file, &error))?;
    let endpoint = context.endpoints.docker;
    if endpoint.skips_verification {
        return Err(DockerError::Address {
            address: endpoint.host,
            reason: format!("the context {name} does not check the engine's certificate"),
            remedy: "give the context the engine's ca.pem and remove SkipTLSVerify".to_owned(),
        });
    }
    let certificates = contexts.join("tls").join(&digest).join("docker");
    Endpoint::parse(&endpoint.host, certificates.is_dir().then_some(certificates.as_path()))
}

fn digest(name: &str) -> String {
    let bytes = Sha256::digest(name.as_bytes());
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Reads a small file.
fn read(file: &Path) -> std::io::Result<String> {
    const MOST_BYTES: u64 = 1 << 20;
    let mut text = String::new();
    fs::File::open(file)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> DockerError {
    DockerError::Address {
        address: format!("in {}", file.display()),
        reason: error.to_string(),
        remedy: "correct the file, or write --docker-url".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_url(url: &str) -> Result<Endpoint, DockerError> {
        Endpoint::find(&DockerOptions { url: Some(url.to_owned()), ..DockerOptions::default() })
    }

    #[test]
    fn address_selects_the_transport() {
        assert_eq!(with_url("unix:///a/b").unwrap(), Endpoint::Unix("/a/b".into()));
        for loopback in ["tcp://127.0.0.1:2375", "tcp://[::1]:2375", "tcp://localhost:2375"] {
            assert_eq!(with_url(loopback).unwrap(), Endpoint::Tcp(loopback.to_owned()));
        }
        let usual = Endpoint::find(&DockerOptions::default()).unwrap();
        assert_eq!(usual, Endpoint::Unix("/var/run/docker.sock".into()));
    }

    #[test]
    fn address_that_exposes_the_engine_or_is_not_one_is_refused_with_a_remedy() {
        for (url, remedy) in [
            ("tcp://192.0.2.1:2375", "DOCKER_TLS_VERIFY"),
            ("tcp://localhost.example:2375", "DOCKER_TLS_VERIFY"),
            ("ssh://me@host", "ssh -nNT -L"),
            ("unix://here", "unix:///path"),
            ("/var/run/docker.sock", "unix:///path"),
            ("npipe:////./pipe/docker", "tcp://host:port"),
        ] {
            let error = with_url(url).unwrap_err();
            let DockerError::Address { remedy: found, .. } = &error else { panic!("{error}") };
            assert!(found.contains(remedy), "{url}: {found}");
        }
    }

    #[test]
    fn option_wins_over_variable_and_variable_over_context() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("config.json"), r#"{"currentContext": "away"}"#).unwrap();
        let options = DockerOptions {
            configuration: Some(directory.path().to_owned()),
            ..DockerOptions::default()
        };
        let missing = Endpoint::find(&options).unwrap_err();
        assert!(missing.to_string().contains("of the context away"), "{missing}");
        let hashed = digest("away");
        let meta = directory.path().join("contexts/meta").join(&hashed);
        fs::create_dir_all(&meta).unwrap();
        let text = r#"{"Name":"away","Endpoints":{"docker":{"Host":"tcp://192.0.2.7:2376"}}}"#;
        fs::write(meta.join("meta.json"), text).unwrap();
        assert!(Endpoint::find(&options).unwrap_err().to_string().contains("without TLS"));
        let tls = directory.path().join("contexts/tls").join(&hashed).join("docker");
        fs::create_dir_all(&tls).unwrap();
        let found = Endpoint::Tls { address: "tcp://192.0.2.7:2376".to_owned(), certificates: tls };
        assert_eq!(Endpoint::find(&options).unwrap(), found);
        let host = DockerOptions { host: Some("unix:///var/a".to_owned()), ..options };
        assert_eq!(Endpoint::find(&host).unwrap(), Endpoint::Unix("/var/a".into()));
        let url = DockerOptions { url: Some("unix:///var/b".to_owned()), ..host };
        assert_eq!(Endpoint::find(&url).unwrap(), Endpoint::Unix("/var/b".into()));
    }
}
