//! Connections of the host to servers next to the guest, which here shares the test's loopback.

use std::time::Duration;

use futures_util::future::poll_fn;
use futures_util::io::{AsyncReadExt as _, AsyncWriteExt as _};
use stockade_provider::{Duplex, Error, ErrorKind, chain};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::compat::TokioAsyncReadCompatExt;
use yamux::{Config, Connection, Mode, Stream};

use crate::support::{Guest, LIMIT, Transport};

async fn soon<T>(operation: impl Future<Output = T>) -> T {
    timeout(LIMIT, operation).await.expect("it ends")
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn bytes_and_ends_of_both_directions_pass_through_a_port() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let (listener, port) = listener().await;
        let server = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            client.write_all(&received).await.unwrap();
            client.write_all(b".").await.unwrap();
        });
        let mut stream = soon(link.ports().connect(port)).await.unwrap();
        let sent: Vec<u8> = (0..2_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
        // The server answers only after the end of its input.
        soon(stream.write_all(&sent)).await.unwrap();
        soon(stream.shutdown()).await.unwrap();
        let mut received = Vec::new();
        soon(stream.read_to_end(&mut received)).await.unwrap();
        assert!(received.len() == sent.len() + 1 && received[..sent.len()] == sent[..]);
        soon(server).await.unwrap();
    }
}

#[tokio::test]
async fn port_without_a_server_is_refused_with_the_errno() {
    let (_guest, link) = Guest::linked(Transport::Socket);
    let (listener, port) = listener().await;
    drop(listener);
    let error = refused(soon(link.ports().connect(port)).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let said = chain(&error);
    assert!(said.contains("inside") && said.contains("Connection refused"), "{said}");
}

#[tokio::test]
async fn dropped_connection_ends_although_the_server_ignores_it() {
    let (_guest, link) = Guest::linked(Transport::Socket);
    let (listener, port) = listener().await;
    let stream = soon(link.ports().connect(port)).await.unwrap();
    let (mut client, _) = soon(listener.accept()).await.unwrap();
    drop(stream);
    assert_eq!(soon(client.read(&mut [0; 8])).await.unwrap(), 0, "the half-close comes first");
    // The server keeps its direction open; the other end still goes away.
    let ended = async {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(ended).await;
}

/// The ports behind a guest that answers each connection as `answer` does.
fn hostile<F>(answer: impl Fn(Stream) -> F + Send + 'static) -> stockade_carrier::Link
where
    F: Future<Output = ()> + Send + 'static,
{
    let (link, guest) = Transport::Socket.raw(None);
    guest.set_nonblocking(true).unwrap();
    let guest = tokio::net::UnixStream::from_std(guest).unwrap().compat();
    tokio::spawn(async move {
        let mut connection = Connection::new(guest, Config::default(), Mode::Server);
        let mut control = None;
        // Ends when the host closes the link.
        while let Some(Ok(stream)) = poll_fn(|context| connection.poll_next_inbound(context)).await
        {
            match control {
                None => control = Some(stream),
                Some(_) => _ = tokio::spawn(answer(stream)),
            }
        }
    });
    link
}

fn frame(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
}

#[tokio::test]
async fn malformed_and_long_answers_of_a_hostile_guest_are_refused() {
    for answer in [frame("\"connected \""), frame("{}"), frame(&" ".repeat(129)), vec![255; 8]] {
        let link = hostile(move |mut stream| {
            let answer = answer.clone();
            async move {
                // Fails once the host has seen enough.
                let _ = stream.write_all(&answer).await;
                let _ = stream.flush().await;
                std::future::pending::<()>().await;
            }
        });
        let error = refused(soon(link.ports().connect(80)).await);
        assert_eq!(error.kind(), ErrorKind::Lost, "{}", chain(&error));
    }
}

#[tokio::test]
async fn tiny_pieces_to_a_slow_reader_end_their_connection_and_no_other() {
    let link = hostile(|mut stream| async move {
        let mut request = [0; 64];
        // The header and the request are short.
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(&frame("\"connected\"")).await;
        let _ = stream.flush().await;
        // Each write is one frame, which costs the host more than its one byte.
        for _ in 0..200_000 {
            if stream.write_all(b"x").await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    });
    let flooded = soon(link.ports().connect(80)).await.unwrap();
    let mut other = soon(link.ports().connect(80)).await.unwrap();
    // Nothing reads the first; the second gets its bytes.
    let mut received = vec![0; 100_000];
    soon(other.read_exact(&mut received)).await.unwrap();
    let mut flooded = flooded;
    let mut all = Vec::new();
    // Its end comes although the guest keeps it open.
    let _ = soon(flooded.read_to_end(&mut all)).await;
    assert!(all.len() < 200_000, "{} bytes", all.len());
}

fn refused(result: Result<Box<dyn Duplex>, Error>) -> Error {
    result.err().expect("it is refused")
}
