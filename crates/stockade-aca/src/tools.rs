//! Tool calls without a connection to this host: the runner writes what programs send as files, and
//! the host looks for them, judges and answers them with files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stockade_provider::{Destination, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::execution::counted;
use crate::runner::RunId;
use crate::sandbox::Shared;

/// The pause between two polls while calls arrive, and the longest one while none arrives.
const QUICK: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_millis(500);
/// The most bytes of one file.
const MOST_BYTES: usize = (64 << 10) + 32;
/// The most connections that are served in one execution.
const MOST_CONNECTIONS: u64 = 1024;

/// One connection of a program to the tool socket.
struct Connection {
    /// The number of its next file.
    next: u64,
    to_broker: WriteHalf<DuplexStream>,
}

/// Serves the tool calls of one execution. Never finishes: dropping the future ends the calls.
pub(crate) async fn relay(shared: &Arc<Shared>, id: RunId) {
    let Some(gateway) = &shared.gateway else { return std::future::pending().await };
    let mut connections: BTreeMap<u64, Connection> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut pause = QUICK;
    loop {
        sleep(pause).await;
        pause = match look(shared, id, gateway, &mut connections, &mut tasks).await {
            true => QUICK,
            false => (pause * 2).min(SLOW),
        };
        while tasks.try_join_next().is_some() {}
    }
}

/// Forwards what programs sent since the last poll. Returns whether there was anything.
async fn look(
    shared: &Arc<Shared>,
    id: RunId,
    gateway: &Arc<dyn Gateway>,
    connections: &mut BTreeMap<u64, Connection>,
    tasks: &mut JoinSet<()>,
) -> bool {
    let directory = format!("{}/calls", id.directory());
    // The directory appears when the program starts; a failed poll is repeated.
    let Ok(listing) = shared.service.entries(&shared.id, &directory).await else { return false };
    let mut files: Vec<(u64, u64)> =
        listing.entries.iter().filter_map(|entry| parsed(&entry.name)).collect();
    files.sort_unstable();
    let mut is_any = false;
    for (number, part) in files {
        if number >= MOST_CONNECTIONS {
            continue;
        }
        let connection = connections.entry(number).or_insert_with(|| {
            let (near, far) = duplex(256 << 10);
            let (from_broker, to_broker) = split(near);
            tasks.spawn(gateway.serve(Destination::Tools, Box::new(far)));
            tasks.spawn(answer(Arc::clone(shared), id, number, from_broker));
            Connection { next: 0, to_broker }
        });
        if part != connection.next {
            continue;
        }
        let path = format!("{directory}/{number}-{part}");
        let Ok(file) = shared.service.fetch(&shared.id, &path, MOST_BYTES).await else { continue };
        let Some(data) = content(&file) else { continue };
        connection.next += 1;
        is_any = true;
        // The broker may have closed the connection.
        let _ = match data.is_empty() {
            true => connection.to_broker.shutdown().await,
            false => connection.to_broker.write_all(data).await,
        };
        // It is read; a later listing is shorter without it.
        let _ = shared.service.remove(&shared.id, &path, false).await;
    }
    is_any
}

/// Writes what the broker answers as numbered files; an empty one is the end.
async fn answer(
    shared: Arc<Shared>,
    id: RunId,
    number: u64,
    mut from_broker: ReadHalf<DuplexStream>,
) {
    let mut chunk = vec![0; 64 << 10];
    for part in 0_u64.. {
        let read = from_broker.read(&mut chunk).await.unwrap_or(0);
        let path = format!("{}/answers/{number}-{part}", id.directory());
        let put = shared.service.put(&shared.id, &path, None, counted(&chunk[..read])).await;
        if read == 0 || put.is_err() {
            return;
        }
    }
}

/// The numbers in the name of a file: its connection and its place.
fn parsed(name: &str) -> Option<(u64, u64)> {
    let (number, part) = name.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(number) || !is_number(part) {
        return None;
    }
    Some((number.parse().ok()?, part.parse().ok()?))
}

/// The content of a file that starts with its length.
fn content(file: &[u8]) -> Option<&[u8]> {
    let end = file.iter().position(|byte| *byte == b'\n')?;
    let length: usize = std::str::from_utf8(&file[..end]).ok()?.parse().ok()?;
    file[end + 1..].get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_of_files_are_read_strictly() {
        assert_eq!(parsed("3-14"), Some((3, 14)));
        for wrong in ["", "-", "3", "3-", "-3", "+3-1", "3-1.new", "3-1-2", "../3-1", " 3-1"] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
        assert_eq!(content(b"2\nab"), Some(&b"ab"[..]));
        assert_eq!(content(b"0\n"), Some(&b""[..]));
        assert_eq!(content(b"1\nab"), Some(&b"a"[..]));
        for wrong in [&b""[..], b"2", b"2\na", b"x\nab", b"-1\n", b"99999999999999999999\n"] {
            assert_eq!(content(wrong), None, "{wrong:?}");
        }
    }
}
