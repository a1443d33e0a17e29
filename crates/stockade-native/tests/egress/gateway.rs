//! A gateway that knows one name and behaves differently on each port.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use stockade_splice::SpliceStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink, split};
use tokio::net::unix::pipe::Sender;
use tokio::sync::Notify;

/// The only known name, and its address.
pub(crate) const NAME: &str = "echo.test";
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 64, 0, 1);

/// Echoes every byte.
pub(crate) const ECHO: u16 = 443;
/// Sends first, then closes.
pub(crate) const GREETS: u16 = 1001;
/// Sends the number of received bytes after the client's half-close.
pub(crate) const COUNTS: u16 = 1002;
/// Resets at the first byte.
pub(crate) const RESETS: u16 = 1003;
/// Reads to the end, then resets.
pub(crate) const BREAKS: u16 = 1007;
/// Answers at once, closes, and reads nothing.
pub(crate) const DENIES: u16 = 1004;
/// Sends as many bytes as the client requests.
pub(crate) const SENDS: u16 = 1005;
/// The same through a splice pipe, after [`FIRST_BYTES`] on the stream; resets at the end if the
/// number is odd.
pub(crate) const SENDS_BY_SPLICE: u16 = 1008;
/// Reads nothing and sends nothing.
pub(crate) const DEAF: u16 = 1006;

/// How many bytes a stream carries before those of its splice pipe.
pub(crate) const FIRST_BYTES: usize = 256 << 10;

/// The opened destinations, in order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    opened: Mutex<Vec<Destination>>,
    ended: Mutex<Vec<Option<ErrorKind>>>,
    one_ended: Notify,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TestGateway {
    pub(crate) seen: Arc<Seen>,
}

impl TestGateway {
    pub(crate) fn opened(&self) -> Vec<Destination> {
        self.seen.opened.lock().unwrap().clone()
    }

    /// How the first `count` ended connections ended.
    pub(crate) async fn ended(&self, count: usize) -> Vec<Option<ErrorKind>> {
        loop {
            let one_ended = self.seen.one_ended.notified();
            let ended = self.seen.ended.lock().unwrap().clone();
            if ended.len() >= count {
                return ended;
            }
            one_ended.await;
        }
    }
}

impl Gateway for TestGateway {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        self.seen.opened.lock().unwrap().push(destination.clone());
        let seen = Arc::clone(&self.seen);
        Box::pin(async move {
            let served = match destination {
                Destination::Address { port: SENDS_BY_SPLICE, .. } => by_splice(stream).await,
                Destination::Names => answer(stream).await,
                Destination::Proxy => echo(stream, b"proxy ").await,
                Destination::Address { port, .. } => connection(port, stream).await,
                other => unreachable!("these sandboxes have nothing that leads to {other:?}"),
            };
            seen.ended.lock().unwrap().push(served.err().map(|error| error.kind()));
            seen.one_ended.notify_one();
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: false }
    }

    fn most_streams(&self) -> usize {
        256
    }
}

async fn by_splice(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    let open = SpliceStream::opener(&*stream).expect("this wall has splice pipes");
    let bytes = stream.read_u64().await?;
    // Fills the guest's window, so that the guest must return credit before more fits.
    stream.write_all(&[b'f'; FIRST_BYTES]).await?;
    let mut pipe = Sender::from_owned_fd(open()?.pipe)?;
    let _: usize = stream.write(&[]).await?;
    let piece: Vec<u8> = (0..100_003).map(|at| (at % 251) as u8).collect();
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(piece.len());
        pipe.write_all(&piece[..now]).await?;
        left -= now;
    }
    drop(pipe);
    if bytes.is_multiple_of(2) { stream.shutdown().await } else { Ok(()) }
}

async fn echo(stream: Box<dyn Duplex>, first: &[u8]) -> std::io::Result<()> {
    let (mut reader, mut writer) = split(stream);
    writer.write_all(first).await?;
    copy(&mut reader, &mut writer).await?;
    writer.shutdown().await
}

async fn connection(port: u16, mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    match port {
        GREETS => {
            stream.write_all(b"hello").await?;
            stream.shutdown().await?;
            copy(&mut stream, &mut sink()).await?;
            Ok(())
        }
        COUNTS => {
            let count = copy(&mut stream, &mut sink()).await?;
            stream.write_all(count.to_string().as_bytes()).await?;
            stream.shutdown().await
        }
        RESETS => stream.read_u8().await.map(|_| ()),
        BREAKS => copy(&mut stream, &mut sink()).await.map(|_| ()),
        DENIES => {
            stream.write_all(b"denied").await?;
            stream.shutdown().await
        }
        SENDS => {
            let bytes = stream.read_u64().await?;
            let piece = vec![b's'; 64 << 10];
            let mut left = bytes as usize;
            while left > 0 {
                let now = left.min(piece.len());
                stream.write_all(&piece[..now]).await?;
                left -= now;
            }
            stream.shutdown().await
        }
        DEAF => std::future::pending().await,
        _ => echo(stream, b"").await,
    }
}

/// Answers DNS queries in order.
async fn answer(mut stream: Box<dyn Duplex>) -> std::io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut question = vec![0; usize::from(length)];
        stream.read_exact(&mut question).await?;
        let answer = answer_to(&question);
        stream.write_u16(answer.len() as u16).await?;
        stream.write_all(&answer).await?;
    }
}

/// The answer to a valid query: an address for the known name, an empty answer for its other types,
/// and NXDOMAIN for every other name.
fn answer_to(question: &[u8]) -> Vec<u8> {
    let mut end = 12;
    let mut labels = Vec::new();
    while question[end] != 0 {
        let length = usize::from(question[end]);
        labels.push(String::from_utf8_lossy(&question[end + 1..end + 1 + length]).to_lowercase());
        end += 1 + length;
    }
    let kind = u16::from_be_bytes([question[end + 1], question[end + 2]]);
    let (known, is_address) = (labels.join(".") == NAME, kind == 1);
    let code = if known { 0 } else { 3 };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::from(known && is_address), 0, 0, 0, 0]);
    answer.extend(&question[12..end + 5]);
    if known && is_address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(ADDRESS.octets());
    }
    answer
}
