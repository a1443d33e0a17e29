//! The log of everything that reached the fake internet: one line of JSON per entry.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One event that a server observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The observer: `packet`, `dns`, `http`, `https`, `tcp` or `udp`.
    pub server: String,
    /// The kind of event: for a server `query`, `connection`, `hello`, `request`, `data` or
    /// `datagram`; for a packet its protocol.
    pub event: String,
    /// The source address, with the port if there is one.
    pub from: String,
    /// The destination address, with the port if there is one.
    pub to: String,
    /// The name in the query, the request or the TLS hello.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The first line of a request, the type of a query, or the first bytes of anything else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl LogEntry {
    /// An entry with the current time.
    pub(crate) fn new(server: &str, event: &str) -> LogEntry {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        LogEntry {
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            server: server.to_owned(),
            event: event.to_owned(),
            ..LogEntry::default()
        }
    }

    /// Sets source and destination.
    pub(crate) fn between(mut self, from: SocketAddr, to: SocketAddr) -> LogEntry {
        self.from = plain(from).to_string();
        self.to = plain(to).to_string();
        self
    }

    /// Sets the name.
    pub(crate) fn named(mut self, name: &str) -> LogEntry {
        self.name = name.to_owned();
        self
    }

    /// Sets the detail, shortened.
    pub(crate) fn with(mut self, detail: &str) -> LogEntry {
        self.detail = detail.chars().take(300).collect();
        self
    }
}

/// The writing end of the log.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<File>);

impl Log {
    /// Opens the log for appending.
    pub(crate) fn open(path: &Path) -> io::Result<Log> {
        OpenOptions::new().create(true).append(true).open(path).map(|file| Log(Arc::new(file)))
    }

    /// Appends an entry in one write, so that concurrent writers never interleave.
    pub(crate) fn add(&self, entry: &LogEntry) {
        let mut line = serde_json::to_vec(entry).expect("an entry is plain text");
        line.push(b'\n');
        // Ignored: if the log is gone, the tests that read it fail.
        let _ = (&*self.0).write_all(&line);
    }
}

/// Listeners for both families see IPv4 peers as mapped addresses; this unmaps them.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
