//! The local server and the forward proxy for the download measurements.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::directory::Directory;
use super::peers::on_path;
use super::programs::output;

/// The server's address: local, and not listed in `NO_PROXY` inside a sandbox.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const SCRIPT: &str = include_str!("server.py");

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program that runs until this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Neither call fails for an unreaped child.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An HTTPS server with its own certificate. Dropping it kills it.
pub(super) struct Server {
    pub(super) port: u16,
    /// The file of its certificate.
    pub(super) certificate: PathBuf,
    _running: Running,
    /// The server also exits when its input closes, so it never outlives this process.
    _input: Option<ChildStdin>,
}

impl Server {
    pub(super) fn start(directory: &Directory) -> anyhow::Result<Server> {
        let python = on_path("python3").context("python3 is not installed")?;
        let (certificate, key) = certificate(directory)?;
        let mut command = Command::new(python);
        command.args(["-I", "-c", SCRIPT]).arg(&certificate).arg(key);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().context("cannot start python3")?);
        let input = running.0.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = running.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("cannot read from the server")?;
        }
        let Ok(port) = line.trim().parse() else {
            let mut why = String::new();
            if let Some(mut stderr) = running.0.stderr.take() {
                stderr.read_to_string(&mut why).context("cannot read from the server")?;
            }
            bail!("the server in python3 did not start: {}", why.trim());
        };
        Ok(Server { port, certificate, _running: running, _input: input })
    }
}

/// Creates a certificate and its key, and returns their paths.
fn certificate(directory: &Directory) -> anyhow::Result<(PathBuf, PathBuf)> {
    let openssl = on_path("openssl").context("openssl is not installed")?;
    let (certificate, key) =
        (directory.path().join("certificate.pem"), directory.path().join("key.pem"));
    let mut argv: Vec<OsString> = vec![openssl.into()];
    argv.extend(["req", "-x509", "-newkey", "ec", "-pkeyopt"].map(OsString::from));
    argv.extend(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"].map(OsString::from));
    argv.extend(["-subj", "/CN=stockade-bench", "-addext"].map(OsString::from));
    argv.push(format!("subjectAltName=IP:{ADDRESS}").into());
    argv.extend(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"].map(OsString::from));
    argv.extend([key.clone().into(), "-out".into(), certificate.clone().into()]);
    let made = output(&argv)?;
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr);
        bail!("openssl made no certificate: {}", why.trim());
    }
    Ok((certificate, key))
}

/// Known forward proxies; the first that is installed is measured.
pub(super) const PROXIES: [&str; 2] = ["tinyproxy", "squid"];

/// A forward proxy. Dropping it kills it.
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) port: u16,
    _running: Running,
}

impl Proxy {
    pub(super) fn start(
        name: &'static str,
        directory: &Directory,
        server: u16,
    ) -> anyhow::Result<Proxy> {
        let program = on_path(name).with_context(|| format!("{name} is not installed"))?;
        // A free port; another process is unlikely to take it before the proxy does.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .context("cannot find a free port")?
            .port();
        let settings = directory.file(name, &settings(name, port, server))?;
        let mut command = Command::new(program);
        match name {
            "tinyproxy" => command.args(["-d", "-c"]).arg(settings),
            _ => command.args(["-N", "-f"]).arg(settings),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let mut running = Running(running);
        let deadline = Instant::now() + PATIENCE;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = running.0.try_wait() {
                bail!("{name} ended at once with {status}");
            }
            if Instant::now() > deadline {
                bail!("{name} does not listen after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Proxy { name, port, _running: running })
    }
}

/// A configuration that allows connections only to the server, and disables logging.
fn settings(name: &str, port: u16, server: u16) -> String {
    match name {
        "tinyproxy" => format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 100\nAllow 127.0.0.1\n\
             ConnectPort {server}\nLogLevel Critical\n"
        ),
        _ => format!(
            "http_port 127.0.0.1:{port}\nacl server port {server}\nhttp_access allow server\n\
             http_access deny all\ncache deny all\naccess_log none\ncache_log /dev/null\n\
             pid_filename none\nshutdown_lifetime 0 seconds\n"
        ),
    }
}
