//! Splice pipes, which a guest receives through the socket and never through a pump.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use stockade_carrier::Link;
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use stockade_splice::SpliceStream;
use stockade_wire::SpliceHeader;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::frames::{FIN, RST, WINDOW, frame};
use crate::opened::{ONE, hear, opening, opens};
use crate::support::{LIMIT, Transport};

/// Passes streams to the test.
#[derive(Debug)]
struct TestGateway(UnboundedSender<Box<dyn Duplex>>);

impl Gateway for TestGateway {
    fn serve(&self, _: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        let _ = self.0.send(stream);
        Box::pin(std::future::ready(()))
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: false }
    }

    fn most_streams(&self) -> usize {
        4
    }
}

/// The guest's end of a link: bytes, and descriptors received by SCM_RIGHTS.
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

async fn linked(transport: Transport) -> (Link, Guest, UnboundedReceiver<Box<dyn Duplex>>) {
    let (sender, given) = unbounded_channel();
    let (link, mut socket) = transport.raw(Some(Arc::new(TestGateway(sender))));
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.write_all(&opens(ONE, &opening(443), b"")).unwrap();
    (link, Guest { socket, beside: Vec::new() }, given)
}

/// Reads to the end of the stream. Returns how it ended, and the guest with its descriptors.
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
async fn splice_pipe_arrives_before_its_stream_ends_and_names_the_stream() {
    let (_link, guest, mut given) = linked(Transport::Socket).await;
    let mut stream = timeout(LIMIT, given.recv()).await.unwrap().unwrap();
    let open = SpliceStream::opener(&*stream).unwrap();
    stream.write_all(b"first").await.unwrap();
    let pipe = open().unwrap().pipe;
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
    let expected = SpliceHeader { stream: ONE, after: 5 }.to_bytes();
    assert_eq!(said, [&expected[..], b"second"].concat());
}

#[tokio::test]
async fn closing_a_splice_pipe_breaks_only_its_connection() {
    let (_link, guest, mut given) = linked(Transport::Socket).await;
    let mut stream = timeout(LIMIT, given.recv()).await.unwrap().unwrap();
    let open = SpliceStream::opener(&*stream).unwrap();
    let pipe = open().unwrap().pipe;
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

#[tokio::test]
async fn pumped_link_has_no_splice_pipes_and_carries_every_byte() {
    const BYTES: usize = 8 << 20;
    let (_link, mut guest, mut given) = linked(Transport::Pumped).await;
    let mut stream = timeout(LIMIT, given.recv()).await.unwrap().unwrap();
    assert!(SpliceStream::opener(&*stream).is_none());
    guest.socket.write_all(&frame(WINDOW, 0, ONE, BYTES as u32, b"")).unwrap();
    let sent = tokio::spawn(async move {
        stream.write_all(&vec![7; BYTES]).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let heard = spawn_blocking(move || {
        let mut bytes = 0;
        loop {
            let (stream, flags, length) = hear(&mut guest);
            assert_eq!(stream, ONE);
            bytes += length;
            if flags & (FIN | RST) != 0 {
                return (flags, bytes, guest.beside.len());
            }
        }
    });
    assert_eq!(timeout(LIMIT, heard).await.unwrap().unwrap(), (FIN, BYTES, 0));
    sent.await.unwrap();
}
