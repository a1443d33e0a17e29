//! Bodies over HTTP/2 on opened connections: they pass as they arrive, also answers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Mutex, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::certificate;
use crate::http2::{Client, client, policy, request};
use crate::server::Server;
use crate::world::{World, here, within};

const NAMES: [&str; 1] = ["api.example.org"];

/// The pieces of an answer, sent when the test sends them.
type Pieces = Arc<Mutex<mpsc::Receiver<&'static str>>>;

/// A server of HTTP/1.1 that answers in chunks.
async fn of_one(pieces: Pieces) -> (Server, World) {
    let (config, certificate) = certificate::signed(&NAMES);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |stream, _| {
        let (acceptor, pieces) = (acceptor.clone(), Arc::clone(&pieces));
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                head.push(byte);
            }
            let mut text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
            let mut pieces = pieces.lock().await;
            loop {
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.flush().await;
                let Some(piece) = pieces.recv().await else { break };
                text = format!("{:x}\r\n{piece}\r\n", piece.len());
            }
            let _ = stream.write_all(b"0\r\n\r\n").await;
            let _ = stream.flush().await;
        }
    })
    .await;
    let world = World::opening(&policy(server.port, "inspect: true"), here(&NAMES), certificate);
    (server, world)
}

/// The same of HTTP/2.
async fn of_two(pieces: Pieces) -> (Server, World) {
    let (config, certificate) = certificate::signed_two(&NAMES);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |stream, _| {
        let (acceptor, pieces) = (acceptor.clone(), Arc::clone(&pieces));
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |_: Request<Incoming>| {
                let pieces = Arc::clone(&pieces);
                async move {
                    let (mut sender, body) = http_body_util::channel::Channel::<Bytes>::new(1);
                    tokio::spawn(async move {
                        while let Some(piece) = pieces.lock().await.recv().await {
                            let _ = sender.send_data(Bytes::from(piece)).await;
                        }
                    });
                    Ok::<_, Infallible>(Response::new(body))
                }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    let world = World::opening(&policy(server.port, "inspect: true"), here(&NAMES), certificate);
    (server, world)
}

async fn answer_comes_in_pieces(mut client: Client, port: u16, send: mpsc::Sender<&'static str>) {
    let answer = within(client.send_request(request(port, "/stream"))).await.unwrap();
    assert_eq!(answer.status(), 200, "the head comes before any piece");
    let mut body = answer.into_body();
    for piece in ["one", "two", "three"] {
        send.send(piece).await.unwrap();
        let frame = within(body.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece, "it comes before the next is sent");
    }
    drop(send);
    while let Some(rest) = within(body.frame()).await {
        assert!(rest.unwrap().into_data().is_ok_and(|data| data.is_empty()));
    }
}

#[tokio::test]
async fn pieces_of_an_answer_pass_over_http2_before_its_end() {
    let (send, pieces) = mpsc::channel(1);
    let (server, world) = of_one(Arc::new(Mutex::new(pieces))).await;
    answer_comes_in_pieces(client(&world, server.port).await, server.port, send).await;
    let (send, pieces) = mpsc::channel(1);
    let (server, world) = of_two(Arc::new(Mutex::new(pieces))).await;
    answer_comes_in_pieces(client(&world, server.port).await, server.port, send).await;
}

/// HTTP/2 has no use for the expectation: the program sends its body, and the server gets it.
#[tokio::test]
async fn expectation_of_a_program_over_http2_is_dropped_and_its_body_passes() {
    let (config, certificate) = certificate::signed(&NAMES);
    let server = Server::https(config, crate::opened::hello).await;
    let port = server.port;
    let world = World::opening(&policy(port, "inspect: true"), here(&NAMES), certificate);
    let mut client = client(&world, port).await;
    let mut post = request(port, "/upload").map(|_| http_body_util::Full::new("the body".into()));
    *post.method_mut() = hyper::Method::POST;
    post.headers_mut().insert("expect", "100-continue".parse().unwrap());
    let answer = within(client.send_request(post)).await.unwrap();
    assert_eq!(answer.status(), 200);
    server.until("the body").await;
    assert!(!server.text().to_lowercase().contains("expect"), "{}", server.text());
}
