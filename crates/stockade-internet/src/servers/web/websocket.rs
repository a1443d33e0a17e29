//! A WebSocket echo server: RFC 6455 without extensions.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};

use super::Connection;
use super::pages::{Then, respond};
use super::request::Request;

/// The GUID of RFC 6455 that proves that a server supports WebSocket.
const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// The longest message that is echoed.
const MOST_BYTES: u64 = 1 << 20;

/// Switches protocols and echoes every message until the client closes.
pub(super) async fn echo<C: Connection>(
    stream: &mut BufStream<C>,
    request: &Request,
) -> io::Result<Then> {
    let Some(key) = request.header("sec-websocket-key") else {
        return respond(stream, request, "426 Upgrade Required", &[("Upgrade", "websocket")], b"")
            .await;
    };
    let proof = Sha1::digest(format!("{key}{PROOF}"));
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        STANDARD.encode(proof)
    );
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    loop {
        let (kind, message) = read(stream).await?;
        let code = kind & 0x0f;
        let answer = if code == PING { (kind & 0xf0) | PONG } else { kind };
        write(stream, answer, &message).await?;
        if code == CLOSE {
            return Ok(Then::Close);
        }
    }
}

/// Reads one frame: its first byte and its payload, unmasked.
async fn read<C: Connection>(stream: &mut BufStream<C>) -> io::Result<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await?;
    let second = stream.read_u8().await?;
    let length = match second & 0x7f {
        126 => u64::from(stream.read_u16().await?),
        127 => stream.read_u64().await?,
        short => u64::from(short),
    };
    if length > MOST_BYTES {
        return Err(io::Error::other("the message is too long for a test"));
    }
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = Vec::new();
    stream.take(length).read_to_end(&mut payload).await?;
    for (byte, key) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
    Ok((kind, payload))
}

async fn write<C: Connection>(
    stream: &mut BufStream<C>,
    kind: u8,
    payload: &[u8],
) -> io::Result<()> {
    let mut head = vec![kind];
    match payload.len() {
        short @ 0..126 => head.push(short as u8),
        medium @ 126..65_536 => {
            head.push(126);
            head.extend((medium as u16).to_be_bytes());
        }
        long => {
            head.push(127);
            head.extend((long as u64).to_be_bytes());
        }
    }
    stream.write_all(&head).await?;
    stream.write_all(payload).await?;
    stream.flush().await
}
