//! The log of everything that reached the fake internet: one line of JSON each.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One thing that a server saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Who saw it: `packet`, `dns`, `http`, `https`, `tcp` or `udp`.
    pub server: String,
    /// What it was: for a server `query`, `connection`, `hello`, `request`, `data` or `datagram`,
    /// for a packet its protocol.
    pub event: String,
    /// The address it came from, with the port where there is one.
    pub from: String,
    /// The address it was sent to, with the port where there is one.
    pub to: String,
    /// The name that was asked for or spoken to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The first line of a request, the type of a query, or the first bytes of anything else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Entry {
    /// An entry of this moment.
    pub(crate) fn new(server: &str, event: &str) -> Entry {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Entry {
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            server: server.to_owned(),
            event: event.to_owned(),
            ..Entry::default()
        }
    }

    /// With its two ends.
    pub(crate) fn between(mut self, from: SocketAddr, to: SocketAddr) -> Entry {
        self.from = plain(from).to_string();
        self.to = plain(to).to_string();
        self
    }

    /// With a name.
    pub(crate) fn named(mut self, name: &str) -> Entry {
        self.name = name.to_owned();
        self
    }

    /// With a detail, shortened.
    pub(crate) fn with(mut self, detail: &str) -> Entry {
        self.detail = detail.chars().take(300).collect();
        self
    }
}

/// The writing end.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<File>);

impl Log {
    /// Opens the log at its end.
    pub(crate) fn open(path: &Path) -> io::Result<Log> {
        OpenOptions::new().create(true).append(true).open(path).map(|file| Log(Arc::new(file)))
    }

    /// Adds an entry, whole: several writers never mix.
    pub(crate) fn add(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).expect("an entry is plain text");
        line.push(b'\n');
        // Nobody is left to tell when the log is gone: the tests that read it fail.
        let _ = (&*self.0).write_all(&line);
    }
}

/// Listeners for both families see IPv4 peers as mapped addresses.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
