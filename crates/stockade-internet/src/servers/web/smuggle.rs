//! Answers that violate HTTP, below `/smuggle/`.

use std::io;

use tokio::io::{AsyncWriteExt, BufStream};

use super::Connection;
use super::pages::{Then, respond};
use super::request::Request;

/// A second answer without a request. A client that accepts it was fooled.
const SMUGGLED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsmuggled\n";

/// Every invalid answer, by the last part of its path.
const ANSWERS: [(&str, &str); 9] = [
    ("extra", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"),
    (
        "both",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\n\r\n0\r\n\r\n",
    ),
    ("twice", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 40\r\n\r\nok\n"),
    ("plus", "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nok\n"),
    ("chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\nXX\r\n0\r\n\r\n"),
    ("bare", "HTTP/1.1 200 OK\nContent-Length: 3\n\nok\n"),
    ("fold", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: a\r\n b\r\n\r\nok\n"),
    ("switch", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n"),
    ("nothing", "no HTTP at all\r\n"),
];

/// Writes the invalid answer with this name and a second answer after it, in one write.
pub(super) async fn answer<C: Connection>(
    stream: &mut BufStream<C>,
    request: &Request,
    kind: &str,
) -> io::Result<Then> {
    match ANSWERS.iter().find(|(name, _)| *name == kind) {
        None => respond(stream, request, "404 Not Found", &[], b"no such answer\n").await,
        Some((_, text)) => {
            stream.write_all(text.as_bytes()).await?;
            stream.write_all(SMUGGLED.as_bytes()).await?;
            stream.flush().await?;
            Ok(Then::Keep)
        }
    }
}
