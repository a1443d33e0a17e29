use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use rustix::net::{SendFlags, send};
use rustix::pipe::{PipeFlags, pipe_with};
use stockade_splice::{SplicePipe, SpliceStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_blocking};

use super::*;
use crate::meter::Meter;
use crate::side::tests::shared;

/// What the stream of a test supports.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It has no splice pipe.
    Stream,
    /// Its splice pipe cannot be sent to the guest.
    Unsent,
    /// Its splice pipe cannot be opened.
    Unopened,
    Splice,
}

/// What a program received by its stream and by its splice pipe, how the relay ended, and what was
/// counted.
struct Got {
    stream: Vec<u8>,
    pipe: Vec<u8>,
    end: io::Result<()>,
    received: u64,
}

/// A server sends so many bytes and closes; the program only reads.
async fn download(limits: &str, bytes: usize, kind: Kind) -> Got {
    download_from(limits, kind, move |mut server: TcpStream| async move {
        server.write_all(&pattern(bytes)).await
    })
    .await
}

/// The same with a server of the test.
async fn download_from<S>(limits: &str, kind: Kind, serve: impl FnOnce(TcpStream) -> S) -> Got
where
    S: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let sent = tokio::spawn(serve(server));

    let meter = Meter::new(shared(limits));
    let mut outside = Side::outside(dialled, std::sync::Arc::clone(&meter));
    let (program, stream) = duplex(64 << 10);
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let can_open = matches!(kind, Kind::Unsent | Kind::Splice);
    let writer = Mutex::new(can_open.then_some(writer));
    let mut inside = Side::inside(match kind {
        Kind::Stream => Box::new(stream),
        kind => {
            let open = move || {
                let pipe = writer.lock().unwrap().take().ok_or(io::ErrorKind::Unsupported)?;
                let sent = Box::pin(std::future::ready(kind == Kind::Splice));
                Ok(SplicePipe { pipe, sent })
            };
            Box::new(SpliceStream::new(stream, std::sync::Arc::new(open)))
        }
    });
    let (by_stream, by_pipe) = (read_stream(program), read_pipe(reader));
    let end = relay(&mut inside, &mut outside).await;
    drop((inside, outside));
    let (stream, pipe) = (by_stream.await.unwrap(), by_pipe.await.unwrap());
    // It fails if the byte limit was used up before.
    let _ = sent.await.unwrap();
    Got { stream, pipe, end, received: meter.counts().1 }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
}

fn read_stream(mut program: DuplexStream) -> JoinHandle<Vec<u8>> {
    tokio::spawn(async move {
        // A program that sends nothing.
        program.shutdown().await.unwrap();
        let mut all = Vec::new();
        program.read_to_end(&mut all).await.unwrap();
        all
    })
}

fn read_pipe(pipe: OwnedFd) -> JoinHandle<Vec<u8>> {
    spawn_blocking(move || {
        let mut all = Vec::new();
        std::fs::File::from(pipe).read_to_end(&mut all).unwrap();
        all
    })
}

#[tokio::test]
async fn splice_pipe_keeps_order_and_counts_every_byte() {
    let bytes = 8 << 20;
    let got = download("max_egress_bytes: 1000000000", bytes, Kind::Splice).await;
    got.end.unwrap();
    assert!(got.pipe.len() > bytes / 2, "{}", got.pipe.len());
    assert_eq!(got.received, bytes as u64);
    assert!([got.stream, got.pipe].concat() == pattern(bytes));
}

#[tokio::test]
async fn without_a_splice_pipe_all_bytes_use_the_stream() {
    let bytes = 4 << 20;
    for kind in [Kind::Stream, Kind::Unopened] {
        let got = download("max_egress_bytes: 1000000000", bytes, kind).await;
        got.end.unwrap();
        assert!(got.stream == pattern(bytes));
        assert_eq!(got.received, bytes as u64);
    }
}

#[tokio::test]
async fn splice_pipe_that_cannot_be_sent_costs_no_byte() {
    let bytes = 4 << 20;
    let got = download("max_egress_bytes: 1000000000", bytes, Kind::Unsent).await;
    got.end.unwrap();
    assert!(got.stream == pattern(bytes));
    assert_eq!((got.pipe.len(), got.received), (0, bytes as u64));
}

/// splice(2) stops at the urgent-data mark.
#[tokio::test]
async fn urgent_data_neither_ends_nor_stalls_a_splice_pipe() {
    let limits = "max_egress_bytes: 1000000000";
    for ends in [true, false] {
        let serve = move |mut server: TcpStream| async move {
            server.write_all(&pattern(4 << 20)).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.write_all(&[1; 1000]).await?;
            send(&server, b"!", SendFlags::OOB)?;
            server.write_all(&[2; 500_000]).await?;
            if !ends {
                // A reader that waits at the mark would still wait.
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            server.shutdown().await
        };
        let got = download_from(limits, Kind::Splice, serve).await;
        got.end.unwrap();
        assert!(!got.pipe.is_empty());
        let expected = [pattern(4 << 20), vec![1; 1000], vec![2; 500_000]].concat();
        assert!([got.stream, got.pipe].concat() == expected);
        assert_eq!(got.received, expected.len() as u64);
    }
}

#[tokio::test]
async fn small_and_rate_limited_transfers_stay_on_the_stream() {
    for limits in ["max_egress_bytes: 1000000", "max_egress_bytes_per_second: 1000000000"] {
        let got = download(limits, 900_000, Kind::Splice).await;
        got.end.unwrap();
        assert_eq!((got.stream.len(), got.pipe.len()), (900_000, 0));
    }
}

#[tokio::test]
async fn no_byte_over_the_limit_passes_a_splice_pipe() {
    let most = 20_000_000;
    let got = download(&format!("max_egress_bytes: {most}"), 30_000_000, Kind::Splice).await;
    got.end.unwrap_err();
    let passed = got.stream.len() + got.pipe.len();
    assert!(!got.pipe.is_empty() && passed as u64 == got.received && passed <= most, "{passed}");
    // Reads are small near the limit.
    assert!(most - passed < 64 << 10, "{passed}");
    assert!([got.stream, got.pipe].concat() == pattern(30_000_000)[..passed]);
}
