use std::sync::mpsc;

use tokio::io::AsyncWriteExt;

use super::*;

/// A writer that forwards its input, and fails on request.
struct Probe {
    seen: mpsc::Sender<Vec<u8>>,
    fails: Option<io::ErrorKind>,
}

impl Write for Probe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.fails {
            return Err(kind.into());
        }
        self.seen.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn live(
    fails: Option<io::ErrorKind>,
    harmless: Option<Harmless>,
) -> (Live, mpsc::Receiver<Vec<u8>>) {
    let (seen, receiver) = mpsc::channel();
    (Live::new(Box::new(Probe { seen, fails }), harmless), receiver)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn shutdown_writes_everything_in_order() {
    let (mut live, seen) = live(None, None);
    let text: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    run(async {
        live.write_all(&text).await.unwrap();
        live.shutdown().await.unwrap();
    });
    assert_eq!(seen.try_iter().flatten().collect::<Vec<u8>>(), text);
}

#[test]
fn unfinished_character_is_shown_at_the_end() {
    let (mut live, seen) = live(None, Some(Harmless::default()));
    run(async {
        live.write_all(b"a\x1b\xe2").await.unwrap();
        live.shutdown().await.unwrap();
    });
    assert_eq!(seen.try_iter().flatten().collect::<Vec<u8>>(), b"a\\x1b\\xe2");
}

#[test]
fn error_of_the_thread_reaches_the_writer_permanently() {
    let (mut live, _seen) = live(Some(io::ErrorKind::StorageFull), None);
    run(async {
        live.write_all(b"a").await.unwrap();
        for _ in 0..2 {
            let error = live.shutdown().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    });
}

#[test]
fn shutdown_of_an_unused_stream_is_immediate() {
    let (mut live, seen) = live(None, None);
    run(async { live.shutdown().await.unwrap() });
    assert_eq!(seen.try_iter().count(), 0);
}
