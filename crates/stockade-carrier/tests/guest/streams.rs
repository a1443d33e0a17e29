//! Input, output and error.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{Guest, LIMIT, Outcome, Transport, command, run_alone, shell};

#[tokio::test]
async fn input_comes_back_as_output() {
    let echoed = run_alone(&command(&["cat"]), b"hello\n").await;
    assert_eq!(echoed, Outcome::exited(0, "hello\n", ""));
}

#[tokio::test]
async fn output_and_error_are_separate_and_can_be_opened_again() {
    let said = run_alone(&shell("echo out > /dev/stdout; echo error > /dev/stderr"), b"").await;
    assert_eq!(said, Outcome::exited(0, "out\n", "error\n"));
}

#[tokio::test]
async fn program_that_does_not_read_its_input_ends() {
    let input = vec![b'x'; 4 << 20];
    let ended = run_alone(&shell("exec <&-; echo done"), &input).await;
    assert_eq!(ended, Outcome::exited(0, "done\n", ""));
}

#[tokio::test]
async fn closed_output_ends_the_writing_program() {
    for transport in Transport::BOTH {
        let (_guest, link) = Guest::linked(transport);
        let mut running = link.execute(command(&["yes"])).unwrap().1;
        let mut first = [0; 2];
        running.stdout.read_exact(&mut first).await.unwrap();
        drop(running.stdout);
        let end = timeout(LIMIT, running.end).await.unwrap().unwrap();
        const SIGPIPE: i32 = 13;
        assert_eq!(end, stockade_provider::ProcessEnd::Signaled { signal: SIGPIPE });
    }
}

/// Byte `index` of a stream in which lost, duplicated or reordered bytes are detected.
fn byte(index: usize) -> u8 {
    (index.wrapping_mul(2_654_435_761) >> 13) as u8
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_megabytes_pass_through_intact_and_the_guest_stays_small() {
    for transport in Transport::BOTH {
        const BYTES: usize = 64 << 20;
        let (guest, link) = Guest::linked(transport);
        let running = link.execute(command(&["cat"])).unwrap().1;
        let stockade_provider::Running { mut stdin, mut stdout, end, .. } = running;
        let feed = async {
            let mut piece = Vec::new();
            for start in (0..BYTES).step_by(100_000) {
                piece.clear();
                piece.extend((start..BYTES.min(start + 100_000)).map(byte));
                stdin.write_all(&piece).await.unwrap();
            }
            stdin.shutdown().await.unwrap();
        };
        let check = async {
            let mut buffer = vec![0; 64 << 10];
            let mut at = 0;
            loop {
                let read = stdout.read(&mut buffer).await.unwrap();
                if read == 0 {
                    return at;
                }
                for (offset, value) in buffer[..read].iter().enumerate() {
                    assert_eq!(*value, byte(at + offset), "at {}", at + offset);
                }
                at += read;
            }
        };
        let (_, read, end) =
            timeout(LIMIT, async { tokio::join!(feed, check, end) }).await.unwrap();
        assert_eq!(
            (read, end.unwrap()),
            (BYTES, stockade_provider::ProcessEnd::Exited { code: 0 })
        );
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", guest.process.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(peak_kib < 8 << 10, "the guest used {peak_kib} KiB");
    }
}
