//! The pages by path.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufStream};

use super::request::Request;
use super::{Connection, Endpoints, Site, git, packages, smuggle, websocket};

/// The delay of the slow page between its first and its last byte.
const SLOW: Duration = Duration::from_secs(3);
/// The size of one write of a large answer.
const PIECE_BYTES: usize = 256 << 10;

/// Whether the connection stays open after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Close,
}

impl Site {
    /// Writes the answer to a request.
    pub(super) async fn answer<C: Connection>(
        &self,
        request: &Request,
        stream: &mut BufStream<C>,
        endpoints: &Endpoints,
    ) -> io::Result<Then> {
        match request.path.as_str() {
            "/" => {
                let host = request.header("host").unwrap_or("nobody");
                respond(
                    stream,
                    request,
                    "200 OK",
                    &[],
                    format!("{} {host}\n", self.token).as_bytes(),
                )
                .await
            }
            "/echo" => respond(stream, request, "200 OK", &[], &request.head).await,
            "/upload" => {
                let counted = format!("{}\n", request.body.len());
                respond(stream, request, "200 OK", &[], counted.as_bytes()).await
            }
            "/redirect" => {
                let to = request.parameter("to").unwrap_or_default();
                respond(stream, request, "302 Found", &[("Location", &to)], b"elsewhere\n").await
            }
            "/large" => large(stream, request).await,
            "/chunked" => chunked(stream, &self.token).await,
            "/slow" => slow(stream).await,
            "/unmeasured" => {
                let text = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}\n", self.token);
                stream.write_all(text.as_bytes()).await?;
                Ok(Then::Close)
            }
            "/ws" => websocket::echo(stream, request).await,
            path if path.starts_with("/repository.git/") => {
                git::answer(stream, request, &self.repositories, &self.token).await
            }
            path if packages::has(path) => {
                packages::answer(stream, request, endpoints.scheme, &self.token).await
            }
            path if path.starts_with("/smuggle/") => {
                smuggle::answer(stream, request, path.trim_start_matches("/smuggle/")).await
            }
            _ => respond(stream, request, "404 Not Found", &[], b"nothing here\n").await,
        }
    }
}

/// Writes a complete answer; without the body if the request is HEAD.
pub(super) async fn respond<C: Connection>(
    stream: &mut BufStream<C>,
    request: &Request,
    status: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Then> {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    let typed = headers.iter().any(|(name, _)| *name == "Content-Type");
    let plain = [("Content-Type", "text/plain")];
    for (name, value) in headers.iter().chain(plain.iter().filter(|_| !typed)) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(b"\r\n").await?;
    if request.method != "HEAD" {
        stream.write_all(body).await?;
    }
    Ok(after(request))
}

/// What the client requests to happen afterwards.
fn after(request: &Request) -> Then {
    let asked = request.header("connection").unwrap_or_default().to_ascii_lowercase();
    let old = request.line.ends_with("HTTP/1.0");
    if asked.contains("close") || old { Then::Close } else { Then::Keep }
}

async fn large<C: Connection>(stream: &mut BufStream<C>, request: &Request) -> io::Result<Then> {
    let wanted: usize =
        request.parameter("bytes").and_then(|text| text.parse().ok()).unwrap_or(1 << 20);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {wanted}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b'x'; PIECE_BYTES];
    let mut left = wanted;
    while left > 0 {
        let count = left.min(PIECE_BYTES);
        stream.write_all(&piece[..count]).await?;
        left -= count;
    }
    Ok(after(request))
}

async fn chunked<C: Connection>(stream: &mut BufStream<C>, token: &str) -> io::Result<Then> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    for piece in [token, "\n"] {
        stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
        stream.flush().await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(Then::Keep)
}

async fn slow<C: Connection>(stream: &mut BufStream<C>) -> io::Result<Then> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsl").await?;
    stream.flush().await?;
    tokio::time::sleep(SLOW).await;
    stream.write_all(b"ow!\n").await?;
    Ok(Then::Keep)
}
