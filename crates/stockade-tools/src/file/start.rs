//! Turns a checked tools file into callable tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use rustix::fs::OFlags;
use tokio::task::JoinSet;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::Host;

use super::{CommandEntry, HeaderSource, HttpEntry, ToolKind, ToolsFile};
use crate::command::CommandTool;
use crate::connect::{Connect, SystemConnect};
use crate::error::ToolsError;
use crate::http::{Endpoint, HttpTool};
use crate::mcp;
use crate::program::{Missing, ORDINARY_VARIABLES, Program};
use crate::run::Run;
use crate::tool::Tool;
use crate::tools::Tools;
use crate::words::harmless;

/// The host environment of the tools.
#[derive(Clone, Debug)]
pub struct HostEnvironment {
    /// Environment variables; a tool gets a few ordinary ones and those that the file names.
    pub environment: BTreeMap<OsString, OsString>,
    /// Certificates that authenticate https servers, in addition to those of the machine.
    pub authorities: Vec<CertificateDer<'static>>,
    /// How HTTP tools connect to their servers.
    pub connect: Arc<dyn Connect>,
    /// How long a tool server may take to list them. Some install themselves when they start.
    pub patience: Duration,
}

impl HostEnvironment {
    /// The environment of this process.
    pub fn of_this_process() -> HostEnvironment {
        HostEnvironment {
            environment: std::env::vars_os().collect(),
            authorities: Vec::new(),
            connect: Arc::new(SystemConnect),
            patience: Duration::from_secs(60),
        }
    }
}

impl ToolsFile {
    /// Starts the servers of the file and prepares all of its tools.
    pub async fn start(self) -> Result<Tools, ToolsError> {
        self.start_in(&HostEnvironment::of_this_process()).await
    }

    /// The same with a given environment.
    pub async fn start_in(self, around: &HostEnvironment) -> Result<Tools, ToolsError> {
        let mut tools = Tools::new();
        let mut tls = None;
        for entry in &self.tools {
            let run: Arc<dyn Run> = match &entry.kind {
                ToolKind::Command(command) => {
                    let program = self.program(&entry.name, command, around)?;
                    if entry.is_needed {
                        installed(&entry.name, &program)?;
                    }
                    Arc::new(CommandTool::new(program))
                }
                ToolKind::Http(http) => {
                    if http.url.scheme() == "https" && tls.is_none() {
                        tls = Some(trust(around)?);
                    }
                    let endpoint = endpoint(&entry.name, http, tls.as_ref(), around)?;
                    Arc::new(HttpTool::new(endpoint))
                }
            };
            let (input, output) = (entry.input.clone(), entry.output.clone());
            let tool = Tool::with(&entry.name, &entry.description, input, output, run)?;
            tools.add(Tool { most_time: entry.most_time, ..tool })?;
        }
        // Concurrently: each may be slow to start. Dropping the future ends those that started.
        let mut starting = JoinSet::new();
        for entry in self.servers.iter() {
            let program = self.program(&entry.name, &entry.command, around)?;
            let (name, imports) = (entry.name.clone(), entry.imports.clone());
            let patience = around.patience;
            starting.spawn(async move { mcp::start(&name, &program, &imports, patience).await });
        }
        while let Some(started) = starting.join_next().await {
            let (server, imported) = started.unwrap_or_else(|error| {
                let why = format!("cannot be started: {error}");
                Err(ToolsError::Server { server: "mcp_servers".to_owned(), why })
            })?;
            for tool in imported {
                tools.add(tool)?;
            }
            tools.keep(server);
        }
        Ok(tools)
    }

    fn program(
        &self,
        owner: &str,
        command: &CommandEntry,
        around: &HostEnvironment,
    ) -> Result<Program, ToolsError> {
        let mut environment = Vec::new();
        for name in ORDINARY_VARIABLES {
            let value = around.environment.get(&OsString::from(name));
            environment.extend(value.map(|value| (OsString::from(name), value.clone())));
        }
        for name in &command.environment {
            environment.push((OsString::from(name), variable(owner, name, around)?));
        }
        Ok(Program {
            file: command.file.clone(),
            arguments: command.arguments.iter().map(OsString::from).collect(),
            directory: self.base.clone(),
            environment,
        })
    }
}

/// Refuses a tool whose program no call could start.
fn installed(tool: &str, program: &Program) -> Result<(), ToolsError> {
    let Err(missing) = program.is_installed() else { return Ok(()) };
    // Without the `.` with which a path in the file may start.
    let program: PathBuf = program.file.components().collect();
    let (tool, program) = (tool.to_owned(), harmless(&program.to_string_lossy(), 300));
    Err(match missing {
        Missing::Path => ToolsError::Absent { tool, program, why: "which does not exist" },
        Missing::Name => {
            ToolsError::Absent { tool, program, why: "which is in no directory of PATH" }
        }
        Missing::Executable => ToolsError::NotExecutable { tool, program },
    })
}

fn variable(owner: &str, name: &str, around: &HostEnvironment) -> Result<OsString, ToolsError> {
    let value = around.environment.get(&OsString::from(name)).cloned();
    value.ok_or_else(|| ToolsError::Unset { owner: owner.to_owned(), variable: name.to_owned() })
}

/// Verifies https servers as this machine does.
fn trust(around: &HostEnvironment) -> Result<Arc<ClientConfig>, ToolsError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    roots.add_parsable_certificates(around.authorities.iter().cloned());
    if roots.is_empty() {
        let why = "this machine has no certificates of authorities; install ca-certificates";
        return Err(ToolsError::Roots { why: why.to_owned() });
    }
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ToolsError::Roots { why: error.to_string() })?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn endpoint(
    tool: &str,
    http: &HttpEntry,
    tls: Option<&Arc<ClientConfig>>,
    around: &HostEnvironment,
) -> Result<Endpoint, ToolsError> {
    let refused =
        |header: &str| ToolsError::Header { tool: tool.to_owned(), header: header.to_owned() };
    let url = &http.url;
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    let port = url.port_or_known_default().unwrap_or(443);
    let tls = match tls.filter(|_| url.scheme() == "https") {
        Some(config) => {
            let name = ServerName::try_from(host.trim_end_matches('.').to_owned())
                .map_err(|_| refused("host"))?;
            Some((name, Arc::clone(config)))
        }
        None => None,
    };
    let authority = url[url::Position::BeforeHost..url::Position::AfterPort].to_owned();
    let target = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
    let mut headers = HeaderMap::new();
    for (name, source) in &http.headers {
        headers.insert(name.clone(), header(tool, name, source, around)?);
    }
    Ok(Endpoint {
        host: host.trim_end_matches('.').to_owned(),
        port,
        connect: Arc::clone(&around.connect),
        tls,
        authority: HeaderValue::from_str(&authority).map_err(|_| refused("host"))?,
        target,
        method: http.method.clone(),
        headers,
    })
}

/// Reads a file without blocking on a FIFO, and with a size limit.
fn secret(file: &Path) -> io::Result<Vec<u8>> {
    const MOST_BYTES: u64 = 64 << 10;
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let open = OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    if !open.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    open.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(read) if read <= MOST_BYTES => Ok(bytes),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn header(
    tool: &str,
    name: &HeaderName,
    source: &HeaderSource,
    around: &HostEnvironment,
) -> Result<HeaderValue, ToolsError> {
    use std::os::unix::ffi::OsStringExt;
    let bytes = match source {
        HeaderSource::Value(value) => return Ok(value.clone()),
        HeaderSource::Variable(name) => variable(tool, name, around)?.into_vec(),
        HeaderSource::File(file) => secret(file).map_err(|source| ToolsError::HeaderFile {
            tool: tool.to_owned(),
            file: file.display().to_string(),
            source,
        })?,
    };
    // A file usually ends with a line feed that is not part of the secret.
    let mut value = HeaderValue::from_bytes(bytes.trim_ascii())
        .map_err(|_| ToolsError::Header { tool: tool.to_owned(), header: name.to_string() })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_file_is_bounded_and_a_fifo_does_not_block() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (file, large) = (scratch.path().join("key"), scratch.path().join("large"));
        std::fs::write(&file, "secret\n").expect("written");
        std::fs::write(&large, vec![b'x'; (64 << 10) + 1]).expect("written");
        assert_eq!(secret(&file).expect("a readable file"), b"secret\n");
        assert!(secret(&large).is_err());
        assert!(secret(scratch.path()).is_err());
        assert!(secret(Path::new("/dev/zero")).is_err());
        let pipe = scratch.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        assert!(secret(&pipe).is_err());
    }
}
