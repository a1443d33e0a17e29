//! Streams that a guest opens that is not ours, where there is a gateway.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_carrier::Link;
use stockade_provider::{Carried, Destination, Duplex, ErrorKind, Gateway, Running};
use stockade_wire::{Opening, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::frames::{DATA, FIN, PING, RST, SYN, WINDOW, data, frame};
use crate::memory::{alone, resident_bytes};
use crate::support::{LIMIT, Transport, command};

/// The first streams of the guest's own, and one that is the host's.
pub(crate) const ONE: u32 = 2;
const TWO: u32 = 4;
const THREE: u32 = 6;
const OUTPUT: u32 = 5;

/// What the gateway was given, or that it has lost it.
enum Given {
    Stream(Destination, Box<dyn Duplex>),
    Lost(Destination),
}

/// A gateway that hands streams to the test, or keeps them and never touches them.
#[derive(Debug)]
struct TestGateway {
    most: usize,
    keeps: bool,
    given: UnboundedSender<Given>,
}

/// Says so when it is dropped.
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

/// A link to a guest that the test writes itself.
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

    /// Says something to a link that may close before all of it is said.
    fn say_what_is_taken(&self, bytes: Vec<u8>) {
        let mut guest = self.guest.try_clone().unwrap();
        std::thread::spawn(move || guest.write_all(&bytes));
    }

    /// What the host says of the guest's own streams: which, the flags, and how long the body is.
    async fn hears_any(&self) -> (u32, u8, usize) {
        let guest = self.guest.try_clone().unwrap();
        spawn_blocking(|| hear(guest)).await.unwrap()
    }

    /// What the host says of one of them.
    async fn hears(&self, stream: u32) -> (u8, usize) {
        loop {
            let (heard, flags, length) = self.hears_any().await;
            if heard == stream {
                return (flags, length);
            }
        }
    }

    /// Hears until the host ends a stream, and how.
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

    /// Whether the output of the program still comes.
    async fn output_flows(&mut self) {
        self.say(data(OUTPUT, b"still here")).await;
        let mut said = [0; 10];
        let read = self.running.stdout.read_exact(&mut said);
        timeout(LIMIT, read).await.expect("the output is held back").unwrap();
        assert_eq!(&said, b"still here");
    }
}

/// The next frame on a stream of the guest's own.
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

/// The frame that opens a stream, with what follows the opening in it.
pub(crate) fn opens(stream: u32, opening: &Opening, more: &[u8]) -> Vec<u8> {
    let body = [encode(opening).unwrap().as_slice(), more].concat();
    frame(DATA, SYN, stream, body.len() as u32, &body)
}

#[tokio::test]
async fn stream_reaches_the_gateway_and_each_side_ends_its_direction() {
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
async fn reset_is_told_from_an_end_on_both_sides() {
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
        // Its other direction has ended, and it is a reset all the same.
        drop(two);
        assert_eq!(hostile.hears_end(TWO).await, RST);
    }
}

#[tokio::test]
async fn guest_that_goes_on_talking_after_the_hosts_end_is_told_to_stop() {
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
        let long = encode(&"x".repeat(Opening::MAX_BYTES)).unwrap();
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
async fn stream_that_does_not_say_what_it_is_is_reset_and_the_link_goes_on() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, false).await;
        hostile.say(frame(DATA, SYN, ONE, 0, b"")).await;
        hostile.say(frame(WINDOW, SYN, TWO, 0, b"")).await;
        // Half of an opening is none.
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
async fn stream_that_falls_silent_after_its_opening_holds_nothing_up() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 4, true).await;
        hostile.say(opens(ONE, &Opening::Proxy, b"")).await;
        hostile.output_flows().await;
        // Dropping the link takes what is served with it.
        let Hostile { link, mut given, guest, .. } = hostile;
        drop(link);
        let lost = timeout(LIMIT, given.recv()).await.unwrap();
        assert!(matches!(lost, Some(Given::Lost(Destination::Proxy))));
        drop(guest);
    }
}

#[tokio::test]
async fn streams_beyond_what_the_gateway_takes_are_reset_until_one_has_ended() {
    for transport in Transport::BOTH {
        let mut hostile = Hostile::new(transport, 2, true).await;
        for (number, stream) in (1..).zip([ONE, TWO, THREE]) {
            hostile.say(opens(stream, &opening(number), b"")).await;
        }
        assert_eq!(hostile.hears_end(THREE).await, RST);
        hostile.output_flows().await;
        let mut hostile = Hostile::new(transport, 1, false).await;
        for round in 0..100 {
            // One that the gateway has let go leaves its place to the next.
            hostile.say(opens(ONE + 2 * round, &opening(7), b"")).await;
            drop(hostile.stream().await);
            assert_eq!(hostile.hears_end(ONE + 2 * round).await, RST);
        }
    }
}

/// Says as much as is taken without anybody listening, and how many bytes that was.
async fn say_until_it_waits(stream: &mut Box<dyn Duplex>) -> usize {
    let piece = vec![7; 256 << 10];
    let mut taken = 0;
    loop {
        let mut write = Box::pin(stream.write(&piece));
        // The driver of the link has had many turns when this is over.
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
async fn frames_for_a_guest_that_does_not_listen_are_few() {
    let mut hostile = Hostile::new(Transport::Socket, 4, false).await;
    hostile.say(opens(ONE, &opening(443), b"")).await;
    hostile.say(frame(WINDOW, 0, ONE, 64 << 20, b"")).await;
    let (_, mut stream) = hostile.stream().await;
    let taken = say_until_it_waits(&mut stream).await;
    // What the kernel holds, the frame that is half said, and one more.
    assert!((256 << 10..=(2 << 20) + (768 << 10)).contains(&taken), "{taken}");
    let mut heard = 0;
    while heard < taken {
        heard += hostile.hears(ONE).await.1;
    }
    assert_eq!(heard, taken);
    // It goes on where somebody listens.
    stream.write_all(b"more").await.unwrap();
    assert_eq!(hostile.hears(ONE).await, (0, 4));
}

#[tokio::test]
async fn whoever_waits_to_speak_learns_that_the_link_has_ended() {
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
async fn streams_without_number_are_reset_and_the_output_flows() {
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
    // Time for the link to take all that it would ever take.
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
async fn tiny_frames_that_nobody_reads_end_their_stream_and_nothing_else() {
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
