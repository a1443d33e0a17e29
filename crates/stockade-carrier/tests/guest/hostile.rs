//! A hostile guest: raw bytes from the other end of the socket.

use std::io::{Read, Write};
use std::thread;

use stockade_carrier::Link;
use stockade_provider::{Error, ErrorKind, ProcessEnd, Running};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::frames::{ACK, DATA, SYN, WINDOW, data, frame};
use crate::memory::{alone, resident_bytes};
use crate::support::{LIMIT, Transport, command};

const PING: u8 = 2;
const CONTROL: u32 = 1;
const INPUT: u32 = 3;
const OUTPUT: u32 = 5;

/// One message frame on the control stream.
fn message(json: &str) -> Vec<u8> {
    let length = (json.len() as u32).to_le_bytes();
    data(CONTROL, &[&length, json.as_bytes()].concat())
}

/// Requests a program from a guest that answers with `bytes`, and then only reads.
async fn asked_of_guest_saying(transport: Transport, bytes: Vec<u8>) -> (Link, Running) {
    let (link, mut guest) = transport.raw(None);
    let running = link.execute(command(&["true"])).unwrap().1;
    thread::spawn(move || {
        // The link may close before everything is written.
        let _ = guest.write_all(&bytes);
        while guest.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
    });
    (link, running)
}

/// How the link ends with such a guest.
async fn end_with(transport: Transport, bytes: Vec<u8>) -> Result<ProcessEnd, Error> {
    let (_link, running) = asked_of_guest_saying(transport, bytes).await;
    timeout(LIMIT, running.end).await.expect("the link went on with a hostile guest")
}

/// Why the link was closed; must be the same over both transports.
async fn refusal(bytes: Vec<u8>) -> String {
    let mut refusals = Vec::new();
    for transport in Transport::BOTH {
        let error = end_with(transport, bytes.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        refusals.push(format!("{error}{}", source.unwrap_or_default()));
    }
    refusals.dedup();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    refusals.remove(0)
}

#[tokio::test]
async fn garbage_closes_the_link() {
    assert!(refusal(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()).await.contains("connection"));
    assert!(refusal(vec![0xff; 4096]).await.contains("connection"));
}

#[tokio::test]
async fn huge_frames_close_the_link() {
    let huge = frame(DATA, 0, OUTPUT, u32::MAX, b"");
    assert!(refusal(huge).await.contains("too large"));
    let over_the_window = frame(DATA, 0, OUTPUT, 512 << 10, &vec![0; 512 << 10]);
    assert!(refusal(over_the_window).await.contains("rules of the connection"));
    let message = data(CONTROL, &u32::MAX.to_le_bytes());
    assert!(refusal(message).await.contains("over the limit"));
}

#[tokio::test]
async fn streams_that_the_guest_opens_close_the_link() {
    assert!(refusal(frame(DATA, SYN, 2, 0, b"")).await.contains("opened a stream"));
    assert!(refusal(frame(WINDOW, SYN, 2, 0, b"")).await.contains("opened a stream"));
    assert!(refusal(frame(DATA, SYN, CONTROL, 0, b"")).await.contains("rules of the connection"));
}

#[tokio::test]
async fn bytes_on_a_write_only_stream_of_the_host_close_the_link() {
    assert!(refusal(data(INPUT, b"x")).await.contains("may only read"));
}

#[tokio::test]
async fn unsolicited_answers_close_the_link() {
    let zeros = "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]";
    let reply = |version: u32| {
        let rest = format!("\"nonce\":{zeros},\"guest_version\":\"1\",\"pid\":1");
        message(&format!("{{\"hello_reply\":{{\"version\":{version},{rest}}}}}"))
    };
    assert!(refusal(reply(stockade_wire::PROTOCOL_VERSION)).await.contains("another nonce"));
    assert!(refusal(reply(1)).await.contains("protocol version 1"));
    let early = message("{\"ended\":{\"execution\":1,\"status\":{\"exited\":0}}}");
    assert!(refusal(early).await.contains("hello_reply"));
    assert!(refusal(message("{\"hello\":{}}")).await.contains("not a message"));
    assert!(refusal(frame(PING, ACK, 0, 77, b"")).await.contains("rules of the connection"));
}

#[tokio::test]
async fn every_wait_of_a_broken_link_gets_the_error_that_broke_it() {
    for transport in Transport::BOTH {
        let (link, mut guest) = transport.raw(None);
        let (first, one) = link.execute(command(&["true"])).unwrap();
        let (_, two) = link.execute(command(&["true"])).unwrap();
        let asked = tokio::spawn({
            let first = first.clone();
            async move { first.observe().await }
        });
        // The query is sent before the guest breaks the protocol.
        tokio::task::yield_now().await;
        guest.write_all(&data(INPUT, b"x")).unwrap();
        let expected = "the guest broke the protocol: it wrote to a stream that it may only read";
        let mut found = Vec::new();
        for running in [one, two] {
            found.push(timeout(LIMIT, running.end).await.unwrap().unwrap_err());
        }
        found.push(timeout(LIMIT, asked).await.unwrap().unwrap().unwrap_err().into());
        // Waits that begin afterwards get it too.
        found.push(timeout(LIMIT, first.observe()).await.unwrap().unwrap_err().into());
        found.push(timeout(LIMIT, link.hello()).await.unwrap().unwrap_err().into());
        let found: Vec<_> = found.iter().map(|it: &Error| (it.kind(), it.to_string())).collect();
        assert_eq!(found, vec![(ErrorKind::Lost, expected.to_owned()); 5]);
    }
}

#[tokio::test]
async fn early_end_of_the_stream_is_the_end_of_the_sandbox() {
    for transport in Transport::BOTH {
        let (link, guest) = transport.raw(None);
        let running = link.execute(command(&["true"])).unwrap().1;
        drop(guest);
        let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
        assert_eq!(end, ProcessEnd::SandboxEnded { signal: None });
    }
}

#[tokio::test]
async fn flood_of_tiny_frames_is_held_back_and_all_of_it_can_still_be_read() {
    const FRAMES: usize = 200_000;
    if alone("hostile::flood_of_tiny_frames_is_held_back_and_all_of_it_can_still_be_read") {
        return;
    }
    let before = resident_bytes();
    let (_link, mut running) =
        asked_of_guest_saying(Transport::Socket, data(OUTPUT, b"x").repeat(FRAMES)).await;
    // Time for the link to read as much as it ever will.
    let stuck = timeout(std::time::Duration::from_millis(300), &mut running.end).await;
    assert!(stuck.is_err());
    let grown = resident_bytes().saturating_sub(before);
    // The test itself holds the flood, 13 bytes per frame.
    assert!(grown < (8 << 20) + FRAMES * 13 * 2, "the link holds {grown} bytes");
    let mut all = vec![0; FRAMES];
    timeout(LIMIT, running.stdout.read_exact(&mut all)).await.unwrap().unwrap();
    assert!(all.iter().all(|byte| *byte == b'x'));
}
