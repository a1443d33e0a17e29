//! Streams that a hostile guest opens, on a link with a gateway.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_carrier::Link;
use stockade_provider::{Carried, Destination, Duplex, ErrorKind, Gateway, Running};
use stockade_wire::{Opening, StreamOpening, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::frames::{DATA, FIN, PING, RST, SYN, WINDOW, data, frame};
use crate::memory::{alone, resident_bytes};
use crate::support::{LIMIT, Transport, command};

/// The first streams of the guest, and one of the host.
pub(crate) const ONE: u32 = 2;
const TWO: u32 = 4;
const THREE: u32 = 6;
const OUTPUT: u32 = 5;

/// A stream that the gateway received, or that was dropped.
enum Given {
    Stream(Destination, Box<dyn Duplex>),
    Lost(Destination),
}

/// A gateway that passes streams to the test, or keeps them and never reads.
#[derive(Debug)]
struct TestGateway {
    most: usize,
    keeps: bool,
    given: UnboundedSender<Given>,
}

/// Reports when it is dropped.
struct Kept {
    destination: Destination,
    given: UnboundedSender<Given>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.given.send(Given::Lost(self.destination.clone()));
    }
}

impl Gateway for TestGateway {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        let given = self.given.clone();
        if !self.keeps {
            let _ = given.send(Given::Stream(destination, stream));
            return Box::pin(std::future::ready(()));
        }
        let kept = Kept { destination, given };
        Box::pin(async move {
            let _kept = (kept, stream);
            std::future::pending().await
        })
    }

    fn carries(&self) -> Carried {
        Carried { network: true, tools: true }
    }

    fn most_streams(&self) -> usize {
        self.most
    }
}

/// A link to a guest whose frames the test writes itself.
struct Hostile {
    link: Link,
    running: Running,
    guest: UnixStream,
    given: UnboundedReceiver<Given>,
}

impl Hostile {
    async fn new(transport: Transport, most: usize, keeps: bool) -> Hostile {
        let (sender, given) = unbounded_channel();
        let gateway = TestGateway { most, keeps, given: sender };
        let (link, guest) = transport.raw(Some(Arc::new(gateway)));
        guest.set_read_timeout(Some(LIMIT)).unwrap();
        let running = link.execute(command(&["true"])).unwrap().1;
        Hostile { link, running, guest, given }
    }

    async fn say(&self, bytes: Vec<u8>) {
        let mut guest = self.guest.try_clone().unwrap();
        spawn_blocking(move || guest.write_all(&bytes).unwrap()).await.unwrap();
    }

    /// Sends bytes to a link that may close before it has read all of them.
    fn say_what_is_taken(&self, bytes: Vec<u8>) {
        let mut guest = self.guest.try_clone().unwrap();
        std::thread::spawn(move || guest.write_all(&bytes));
    }

    /// The next frame from the host on a stream of the guest: stream, flags and body length.
    async fn hears_any(&self) -> (u32, u8, usize) {
        let guest = self.guest.try_clone().unwrap();
        spawn_blocking(|| hear(guest)).await.unwrap()
    }

    /// The next frame from the host on this stream: flags and body length.
    async fn hears(&self, stream: u32) -> (u8, usize) {
        loop {
            let (heard, flags, length) = self.hears_any().await;
            if heard == stream {
                return (flags, length);
            }
        }
    }

    /// Reads until the host ends a stream, and returns the flag.
    async fn hears_end(&self, stream: u32) -> u8 {
        loop {
            let (flags, _) = self.hears(stream).await;
            if flags & (FIN | RST) != 0 {
                return flags;
            }
        }
    }

    async fn stream(&mut self) -> (Destination, Box<dyn Duplex>) {
        match timeout(LIMIT, self.given.recv()).await.unwrap().unwrap() {
            Given::Stream(opening, stream) => (opening, stream),
            Given::Lost(opening) => panic!("{opening:?} was lost"),
        }
    }

    async fn lost(&mut self) -> Destination {
        match timeout(LIMIT, self.given.recv()).await.unwrap().unwrap() {
            Given::Lost(opening) => opening,
            Given::Stream(opening, _) => panic!("{opening:?} was handed out"),
        }
    }

    /// Why the link was closed.
    async fn refusal(self) -> String {
        let end = timeout(LIMIT, self.running.end).await.expect("the link went on");
        let error = end.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        error.to_string()
    }

    /// Checks that the program's output still arrives.
    async fn output_flows(&mut self) {
        self.say(data(OUTPUT, b"still here")).await;
        let mut said = [0; 10];
        let read = self.running.stdout.read_exact(&mut said);
        timeout(LIMIT, read).await.expect("the output is held back").unwrap();
        assert_eq!(&said, b"still here");
    }
}

/// The next frame on a stream of the guest.
pub(crate) fn hear(mut guest: impl Read) -> (u32, u8, usize) {
    loop {
        let mut header = [0; 12];
        guest.read_exact(&mut header).unwrap();
        let [_, kind, _, flags, a, b, c, d, e, f, g, h] = header;
        let length = match kind {
            DATA => u32::from_be_bytes([e, f, g, h]) as usize,
            _ => 0,
        };
        guest.read_exact(&mut vec![0; length]).unwrap();
        let stream = u32::from_be_bytes([a, b, c, d]);
        if stream != 0 && stream.is_multiple_of(2) {
            return (stream, flags, length);
        }
    }
}

pub(crate) fn opening(port: u16) -> Opening {
    Opening::Connection { address: [127, 64, 0, 1].into(), port }
}

pub(crate) fn destination(port: u16) -> Destination {
    Destination::Address { address: [127, 64, 0, 1].into(), port }
}

/// The frame that opens a stream, with `more` after the opening.
pub(crate) fn opens(stream: u32, opening: &Opening, more: &[u8]) -> Vec<u8> {
    let opening = StreamOpening { opening: *opening, execution: None };
    let body = [encode(&opening).unwrap().as_slice(), more].concat();
    frame(DATA, SYN, stream, body.len() as u32, &body)
}

#[tokio::test]
async fn stream_reaches_the_gateway_and_each_side_half_closes() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, false).await;
        hostile.say(opens(ONE, &opening(443), b"ping")).await;
        let (seen, mut stream) = hostile.stream().await;
        assert_eq!(seen, destination(443));
        let mut said = [0; 4];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"ping");
        hostile.say(frame(DATA, FIN, ONE, 0, b"")).await;
        assert_eq!(stream.read(&mut said).await.unwrap(), 0);
        stream.write_all(b"pong!").await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        assert_eq!(hostile.hears(ONE).await, (2, 0), "it is acknowledged before anything is said");
        assert_eq!(hostile.hears(ONE).await, (0, 5));
        assert_eq!(hostile.hears_end(ONE).await, FIN);
        hostile.output_flows().await;
    }
}

#[tokio::test]
async fn reset_and_end_are_distinct_on_both_sides() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, false).await;
        hostile.say(opens(ONE, &opening(1), b"")).await;
        hostile.say(opens(TWO, &opening(2), b"")).await;
        let ((_, mut one), (_, two)) = (hostile.stream().await, hostile.stream().await);
        hostile.say(frame(DATA, RST, ONE, 0, b"")).await;
        let broken = one.read(&mut [0]).await.unwrap_err();
        assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
        hostile.say(frame(DATA, FIN, TWO, 0, b"")).await;
        hostile.output_flows().await;
        // The guest had half-closed it; a drop is a reset all the same.
        drop(two);
        assert_eq!(hostile.hears_end(TWO).await, RST);
    }
}

#[tokio::test]
async fn guest_that_sends_after_the_hosts_half_close_is_reset() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, false).await;
        hostile.say(opens(ONE, &opening(1), b"much to say")).await;
        let (_, mut stream) = hostile.stream().await;
        stream.write_all(b"denied").await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        assert_eq!(hostile.hears_end(ONE).await, FIN, "what was said comes before");
        assert_eq!(hostile.hears_end(ONE).await, RST);
    }
}

#[tokio::test]
async fn garbage_instead_of_an_opening_closes_the_link() {
    for transport in Transport::BOTH {
        let long = encode(&"x".repeat(StreamOpening::MAX_BYTES)).unwrap();
        let wrong =
            encode(&serde_json::json!({"connection": {"address": "::1", "port": 1}})).unwrap();
        let unknown = encode(&serde_json::json!("tunnel")).unwrap();
        for garbage in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 64], long, wrong, unknown] {
            let hostile = Hostile::new(transport, 4, false).await;
            hostile.say_what_is_taken(frame(DATA, SYN, ONE, garbage.len() as u32, &garbage));
            assert!(hostile.refusal().await.contains("nothing that is known"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stream_without_an_opening_is_reset_and_the_link_continues() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, false).await;
        hostile.say(frame(DATA, SYN, ONE, 0, b"")).await;
        hostile.say(frame(WINDOW, SYN, TWO, 0, b"")).await;
        // A partial opening.
        hostile.say(frame(DATA, SYN, THREE, 2, &[9, 0])).await;
        assert_eq!(hostile.hears(THREE).await, (2, 0), "all are waited for");
        tokio::time::advance(Duration::from_secs(11)).await;
        let mut reset = Vec::new();
        for _ in [ONE, TWO, THREE] {
            let (stream, flags, _) = hostile.hears_any().await;
            reset.push((stream, flags));
        }
        reset.sort_unstable();
        assert_eq!(reset, [(ONE, RST), (TWO, RST), (THREE, RST)]);
        hostile.say(opens(THREE + 2, &opening(443), b"")).await;
        assert_eq!(hostile.stream().await.0, destination(443));
    }
}

#[tokio::test]
async fn idle_stream_does_not_block_other_streams() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, true).await;
        hostile.say(opens(ONE, &Opening::Proxy, b"")).await;
        hostile.output_flows().await;
        // Dropping the link drops the served streams.
        let Hostile { link, mut given, guest, .. } = hostile;
        drop(link);
        let lost = timeout(LIMIT, given.recv()).await.unwrap();
        assert!(matches!(lost, Some(Given::Lost(Destination::Proxy))));
        drop(guest);
    }
}

#[tokio::test]
async fn streams_over_the_gateways_limit_are_reset_until_one_ends() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 2, true).await;
        for (number, stream) in (1..).zip([ONE, TWO, THREE]) {
            hostile.say(opens(stream, &opening(number), b"")).await;
        }
        assert_eq!(hostile.hears_end(THREE).await, RST);
        hostile.output_flows().await;
        let mut hostile = Hostile::new(transport, 1, false).await;
        for round in 0..100 {
            // A stream that the gateway dropped makes room for the next.
            hostile.say(opens(ONE + 2 * round, &opening(7), b"")).await;
            drop(hostile.stream().await);
            assert_eq!(hostile.hears_end(ONE + 2 * round).await, RST);
        }
    }
}

/// Writes until the stream blocks while the guest does not read, and returns the byte count.
async fn say_until_it_waits(stream: &mut Box<dyn Duplex>) -> usize {
    let piece = vec![7; 256 << 10];
    let mut taken = 0;
    loop {
        let mut write = Box::pin(stream.write(&piece));
        // Enough polls for the driver of the link to run many times.
        let mut turns = 1000;
        let written = poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(written) => Poll::Ready(Some(written.unwrap())),
            Poll::Pending if turns == 0 => Poll::Ready(None),
            Poll::Pending => {
                turns -= 1;
                context.waker().wake_by_ref();
                Poll::Pending
            }
        });
        match written.await {
            Some(written) => taken += written,
            None => return taken,
        }
    }
}

#[tokio::test]
async fn few_frames_are_queued_for_a_guest_that_does_not_read() {
    let mut hostile = Hostile::new(Transport::Socket, 4, false).await;
    hostile.say(opens(ONE, &opening(443), b"")).await;
    hostile.say(frame(WINDOW, 0, ONE, 64 << 20, b"")).await;
    let (_, mut stream) = hostile.stream().await;
    let taken = say_until_it_waits(&mut stream).await;
    // The kernel's buffer, the frame that is partly sent, and one more.
    assert!((256 << 10..=(2 << 20) + (768 << 10)).contains(&taken), "{taken}");
    let mut heard = 0;
    while heard < taken {
        heard += hostile.hears(ONE).await.1;
    }
    assert_eq!(heard, taken);
    // Continues when the guest reads.
    stream.write_all(b"more").await.unwrap();
    assert_eq!(hostile.hears(ONE).await, (0, 4));
}

#[tokio::test]
async fn blocked_writer_fails_when_the_link_ends() {
    let mut hostile = Hostile::new(Transport::Socket, 4, false).await;
    hostile.say(opens(ONE, &opening(443), b"")).await;
    hostile.say(frame(WINDOW, 0, ONE, 64 << 20, b"")).await;
    let (_, mut stream) = hostile.stream().await;
    say_until_it_waits(&mut stream).await;
    let waiting = tokio::spawn(async move { stream.write_all(&[7]).await });
    tokio::task::yield_now().await;
    drop(hostile.link);
    let ended = timeout(LIMIT, waiting).await.expect("it still waits").unwrap();
    assert!(ended.is_err());
}

/// Many streams, one frame each.
fn flood(streams: u32) -> Vec<u8> {
    (1..=streams).flat_map(|number| opens(number * 2, &Opening::Proxy, b"")).collect()
}

#[tokio::test]
async fn flood_of_streams_is_reset_and_the_output_still_arrives() {
    for transport in Transport::BOTH {
        const STREAMS: u32 = 30_000;
        let mut hostile = Hostile::new(transport, 2, true).await;
        hostile.say_what_is_taken(flood(STREAMS));
        let mut guest = hostile.guest.try_clone().unwrap();
        let reset = spawn_blocking(move || {
            let mut reset = 0;
            while reset < STREAMS - 2 {
                let (_, flags, _) = hear(&mut guest);
                reset += u32::from(flags & RST != 0);
            }
            reset
        });
        assert_eq!(timeout(LIMIT, reset).await.unwrap().unwrap(), STREAMS - 2);
        hostile.output_flows().await;
    }
}

#[tokio::test]
async fn streams_without_number_of_a_guest_that_hears_nothing_cost_little() {
    if alone("opened::streams_without_number_of_a_guest_that_hears_nothing_cost_little") {
        return;
    }
    let bytes = flood(200_000);
    let before = resident_bytes();
    let mut hostile = Hostile::new(Transport::Socket, 2, true).await;
    hostile.say_what_is_taken(bytes);
    // Time for the link to read as much as it ever will.
    let _ = timeout(Duration::from_millis(500), &mut hostile.running.end).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "the link holds {grown} bytes");
}

#[tokio::test]
async fn streams_that_never_begin_cost_nothing() {
    const STREAMS: u32 = 200_000;
    if alone("opened::streams_that_never_begin_cost_nothing") {
        return;
    }
    // Opened and reset in one frame, and opened by a frame that belongs to no stream.
    for (kind, flags) in [(DATA, SYN | RST), (WINDOW, SYN | RST), (PING, SYN)] {
        let bytes: Vec<u8> =
            (1..=STREAMS).flat_map(|number| frame(kind, flags, number * 2, 0, b"")).collect();
        let mut hostile = Hostile::new(Transport::Socket, 2, true).await;
        let before = resident_bytes();
        hostile.say(bytes).await;
        hostile.output_flows().await;
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "after frames of kind {kind} the link holds {grown} bytes");
    }
}

#[tokio::test]
async fn too_many_unread_tiny_frames_end_only_their_stream() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, true).await;
        hostile.say(opens(ONE, &opening(1), b"")).await;
        hostile.say(opens(TWO, &opening(2), b"")).await;
        assert_eq!(hostile.hears(TWO).await, (2, 0), "both are served");
        hostile.say(data(ONE, b"x").repeat(20_000)).await;
        assert_eq!(hostile.lost().await, destination(1));
        hostile.output_flows().await;
    }
}

#[tokio::test]
async fn bytes_that_nobody_reads_are_bounded_over_all_streams() {
    const STREAMS: u32 = 600;
    const WINDOW_BYTES: usize = 256 << 10;
    if alone("opened::bytes_that_nobody_reads_are_bounded_over_all_streams") {
        return;
    }
    let before = resident_bytes();
    let mut hostile = Hostile::new(Transport::Socket, 2 * STREAMS as usize, true).await;
    for number in 0..STREAMS {
        let stream = ONE + 2 * number;
        let opened = opens(stream, &opening(1), b"");
        let most = WINDOW_BYTES - (opened.len() - 12);
        hostile.say(opened).await;
        hostile.say(data(stream, &vec![7; most])).await;
    }
    hostile.output_flows().await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 100 << 20, "the link holds {grown} bytes of {}", 150 << 20);
    assert_eq!(hostile.lost().await, destination(1));
}
