use std::time::Duration;

use tokio::io::duplex;

use super::*;

use OutputStream::{Stderr, Stdout};

/// Output that is captured for a report.
fn captured(limit: u64) -> Output {
    Output::new(limit, &Streams { capture: true, ..Streams::default() })
}

/// Output that is relayed to a reader.
fn passed_on(limit: u64) -> Output {
    let live = Some((Box::new(tokio::io::sink()) as Box<_>, Box::new(tokio::io::sink()) as Box<_>));
    Output::new(limit, &Streams { live, ..Streams::default() })
}

#[test]
fn both_streams_share_the_limit_and_every_byte_is_counted() {
    let output = captured(10);
    for (stream, chunk) in [(Stdout, "abcdef"), (Stderr, "ghijkl"), (Stdout, "mno")] {
        output.record(stream, chunk.as_bytes());
    }
    let (stdout, stderr, tail) = output.take();
    let stream = |bytes: &[u8], kept_bytes, dropped_bytes| StreamOutput {
        bytes: bytes.to_vec(),
        kept_bytes,
        dropped_bytes,
    };
    assert_eq!(stdout, stream(b"abcdef", 6, 3));
    assert_eq!(stderr, stream(b"ghij", 4, 2));
    assert_eq!(tail, b"ghijkl");
}

#[test]
fn tail_is_the_end_of_standard_error_whatever_was_kept() {
    let output = captured(0);
    for round in 0..5_u8 {
        output.record(Stderr, &vec![b'a' + round; TAIL_BYTES / 2]);
    }
    let (_, _, tail) = output.take();
    assert_eq!(tail.len(), TAIL_BYTES);
    assert_eq!((tail[0], tail[TAIL_BYTES - 1]), (b'd', b'e'));
}

#[tokio::test]
async fn only_kept_bytes_are_relayed() {
    let output = passed_on(5);
    let (live, mut seen) = duplex(64);
    let read = output.read(Stdout, Box::new(&b"hello world"[..]));
    let ((), passed) = tokio::join!(read, output.pass_on(Stdout, Box::new(live)));
    passed.unwrap();
    let mut text = String::new();
    seen.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello");
    let (stdout, ..) = output.take();
    assert_eq!((stdout.kept_bytes, stdout.dropped_bytes, stdout.bytes.len()), (5, 6, 0));
}

#[tokio::test]
async fn writer_sees_that_the_reader_closed() {
    let output = passed_on(5);
    let (live, seen) = duplex(64);
    let (source, mut writer) = duplex(64);
    drop(seen);
    writer.write_all(b"hello").await.unwrap();
    let read = output.read(Stdout, Box::new(source));
    let ((), passed) = tokio::join!(read, output.pass_on(Stdout, Box::new(live)));
    passed.unwrap();
    output.reader_left().await;
    assert_eq!(writer.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_blocks_the_program_while_it_runs_and_nothing_after_its_end() {
    const BYTES: usize = 6 << 20;
    let output = passed_on(u64::MAX);
    let (live, mut seen) = duplex(16);
    let (source, mut writer) = duplex(CHUNK_BYTES);
    let writing = tokio::spawn(async move { writer.write_all(&vec![b'x'; BYTES]).await });
    let passing = output.pass_on(Stdout, Box::new(live));
    let mut passing = std::pin::pin!(passing);
    let mut reading = std::pin::pin!(output.read(Stdout, Box::new(source)));
    let held = async { tokio::join!(&mut passing, &mut reading) };
    assert!(tokio::time::timeout(Duration::from_secs(60), held).await.is_err());
    let seen_so_far = output.bytes_seen();
    assert!(seen_so_far <= (WAITING_BYTES + 2 * CHUNK_BYTES) as u64, "{seen_so_far}");
    output.end();
    let rest = async {
        tokio::select! {
            _ = &mut passing => unreachable!("nobody reads"),
            () = &mut reading => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(60), rest).await.expect("nothing waits any more");
    assert_eq!(output.bytes_seen(), BYTES as u64);
    writing.await.unwrap().unwrap();
    let mut all = Vec::new();
    let (passed, read) = tokio::join!(passing, seen.read_to_end(&mut all));
    passed.unwrap();
    assert_eq!((read.unwrap(), all.len()), (BYTES, BYTES));
}
