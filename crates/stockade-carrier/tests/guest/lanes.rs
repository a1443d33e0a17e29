//! Pipes beside streams, as they come to a guest.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use stockade_carrier::Link;
use stockade_provider::{Carried, Duplex, Gateway, OpensLane};
use stockade_wire::{Lane, Opening};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::frames::{FIN, RST};
use crate::opened::{ONE, hear, opening, opens};
use crate::support::LIMIT;

/// What a gateway is given of a connection.
type Given = (Box<dyn Duplex>, Box<dyn OpensLane>);

/// Hands streams and what opens their lanes to the test.
#[derive(Debug)]
struct TestGateway(UnboundedSender<Given>);

impl Gateway for TestGateway {
    fn serve(&self, _: Opening, _: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        unreachable!("every stream of this link can have a lane")
    }

    fn serve_with_lane(
        &self,
        _: Opening,
        stream: Box<dyn Duplex>,
        lane: Box<dyn OpensLane>,
    ) -> BoxFuture<'static, ()> {
        let _ = self.0.send((stream, lane));
        Box::pin(std::future::ready(()))
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: false }
    }

    fn most_streams(&self) -> usize {
        4
    }
}

/// The guest's end of a link: bytes, and what comes beside them.
struct Guest {
    socket: UnixStream,
    beside: Vec<OwnedFd>,
}

impl Read for Guest {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let bytes = &mut [IoSliceMut::new(buffer)];
        let received = recvmsg(&self.socket, bytes, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.beside.extend(descriptors);
            }
        }
        Ok(received.bytes)
    }
}

async fn linked() -> (Link, Guest, UnboundedReceiver<Given>) {
    let (host, mut socket) = UnixStream::pair().unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let (sender, given) = unbounded_channel();
    let link = Link::open(host, Some(Arc::new(TestGateway(sender)))).unwrap();
    socket.write_all(&opens(ONE, &opening(443), b"")).unwrap();
    (link, Guest { socket, beside: Vec::new() }, given)
}

/// What came beside everything up to the end of the stream, and how that ended.
async fn hear_to_the_end(mut guest: Guest) -> (u8, Guest) {
    let hear = move || loop {
        let (stream, flags, _) = hear(&mut guest);
        if stream == ONE && flags & (FIN | RST) != 0 {
            return (flags, guest);
        }
    };
    spawn_blocking(hear).await.unwrap()
}

#[tokio::test]
async fn lane_comes_before_its_stream_ends_and_says_what_it_is_for() {
    let (_link, guest, mut given) = linked().await;
    let (mut stream, lane) = timeout(LIMIT, given.recv()).await.unwrap().unwrap();
    stream.write_all(b"first").await.unwrap();
    let pipe = lane.open().unwrap().pipe;
    assert_eq!(stream.write(&[]).await.unwrap(), 0);
    rustix::io::write(&pipe, b"second").unwrap();
    drop(pipe);
    stream.shutdown().await.unwrap();
    let (end, guest) = hear_to_the_end(guest).await;
    assert_eq!((end, guest.beside.len()), (FIN, 1));
    let mut said = Vec::new();
    for pipe in guest.beside {
        std::fs::File::from(pipe).read_to_end(&mut said).unwrap();
    }
    let expected = Lane { stream: ONE, after: 5 }.to_bytes();
    assert_eq!(said, [&expected[..], b"second"].concat());
}

#[tokio::test]
async fn guest_that_lets_go_of_a_lane_breaks_that_connection_alone() {
    let (_link, guest, mut given) = linked().await;
    let (mut stream, lane) = timeout(LIMIT, given.recv()).await.unwrap().unwrap();
    let pipe = lane.open().unwrap().pipe;
    assert_eq!(stream.write(&[]).await.unwrap(), 0);
    drop(stream);
    let (end, guest) = hear_to_the_end(guest).await;
    assert_eq!(end, RST);
    drop(guest.beside);
    assert_eq!(rustix::io::write(&pipe, b"more"), Err(rustix::io::Errno::PIPE));
    let mut socket = guest.socket;
    socket.write_all(&opens(ONE + 2, &opening(443), b"")).unwrap();
    assert!(timeout(LIMIT, given.recv()).await.unwrap().is_some());
}
