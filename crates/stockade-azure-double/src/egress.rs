//! The egress proxy in front of a sandbox: decides by host, keeps its decisions, and answers for
//! every allowed host itself.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use stockade_internet::Authority;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::world::Sandbox;

/// The most bytes of a request head.
const HEAD: usize = 16 << 10;

/// Serves the connections of one sandbox.
pub(crate) async fn serve(
    listener: UnixListener,
    sandbox: Arc<Sandbox>,
    authority: Arc<Authority>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (sandbox, authority) = (Arc::clone(&sandbox), Arc::clone(&authority));
        tokio::spawn(async move { one(stream, &sandbox, &authority).await });
    }
}

async fn one(mut stream: UnixStream, sandbox: &Sandbox, authority: &Authority) -> io::Result<()> {
    let (method, target) = head(&mut stream).await?;
    if method != "CONNECT" {
        let rest = target.strip_prefix("http://").unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.split(':').next().unwrap_or_default();
        return answer(&mut stream, sandbox, &method, host, &format!("/{path}"), "http").await;
    }
    let host = target.rsplit_once(':').map_or(target.as_str(), |(host, _)| host).to_owned();
    if !sandbox.allows(&host) {
        sandbox.decide(decision(&host, &method, "", "https"), false);
        return refuse(&mut stream).await;
    }
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let configuration = authority.configuration(Some(&host), address);
    let configuration = configuration.map_err(io::Error::other)?;
    let mut stream = TlsAcceptor::from(configuration).accept(stream).await?;
    let (method, path) = head(&mut stream).await?;
    answer(&mut stream, sandbox, &method, &host, &path, "https").await
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    sandbox: &Sandbox,
    method: &str,
    host: &str,
    path: &str,
    scheme: &str,
) -> io::Result<()> {
    let allowed = sandbox.allows(host);
    sandbox.decide(decision(host, method, path, scheme), allowed);
    if !allowed {
        return refuse(stream).await;
    }
    let body = format!("the double answers for {host}\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn refuse<S: AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    let head = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a request head and returns its method and target.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(String, String)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head);
    let mut words = text.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    Ok((word(), word()))
}

fn decision(host: &str, method: &str, path: &str, scheme: &str) -> Value {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_micros());
    // A stamp whose order as text is its order in time.
    let stamp = format!("{now:020}");
    json!({ "timestamp": stamp, "host": host, "method": method, "path": path, "scheme": scheme })
}
