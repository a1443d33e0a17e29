//! The commands that the hardened image denies and a program tried.
//!
//! ```text
//! stub ── name ──▶ guest ── stream ──▶ Reports ── a name of the recipe ──▶ Denials ──▶ the report
//!                                        └── anything else: dropped
//! ```
//! The image denies the commands; this only records them. A program can send a name itself, which
//! adds a true word about what it says and nothing else: only names of the recipe are kept, each
//! once, so that no text from inside gets into the record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_core::future::BoxFuture;
use stockade_policy::Denial;
use stockade_provider::{Carried, Destination, Duplex, Gateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::recipe::{ALWAYS_ALLOWED, default_names, denied_names};

/// How many stubs may report at once. Further ones are dropped.
const MOST_REPORTS: usize = 64;
/// The longest line, with its end.
const MOST_BYTES: u64 = 64;
/// How long a stub may take to send its name.
const PATIENCE: Duration = Duration::from_secs(2);

/// The denied commands that programs of one sandbox tried.
#[derive(Debug, Default)]
pub struct Denials {
    heard: Mutex<Heard>,
    listeners: AtomicU64,
}

#[derive(Debug, Default)]
struct Heard {
    all: BTreeSet<&'static str>,
    /// For each execution that runs, the names since its start. With several at once each has all
    /// of them: the host cannot distinguish whose program it was, and no name may be lost.
    running: BTreeMap<u64, BTreeSet<&'static str>>,
}

/// Collects the denied commands of one execution until it is dropped.
#[derive(Debug)]
pub struct Listening {
    denials: Arc<Denials>,
    number: u64,
}

impl Denials {
    /// Starts to collect for an execution.
    pub fn listen(denials: &Arc<Denials>) -> Listening {
        let number = denials.listeners.fetch_add(1, Ordering::Relaxed);
        denials.lock().running.insert(number, BTreeSet::new());
        Listening { denials: Arc::clone(denials), number }
    }

    /// Every command so far.
    pub fn all(&self) -> Vec<Denial> {
        self.lock().all.iter().copied().map(denial).collect()
    }

    /// Adds a command, if the recipe denies it.
    fn add(&self, name: &str) {
        let Some(known) = denied_names().find(|known| *known == name) else { return };
        let mut heard = self.lock();
        heard.all.insert(known);
        for names in heard.running.values_mut() {
            names.insert(known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // The sets are always consistent, so a poisoned lock can be used.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    /// The commands since the start of the execution.
    pub fn heard(&self) -> Vec<Denial> {
        let heard = self.denials.lock();
        let names = heard.running.get(&self.number);
        names.into_iter().flatten().copied().map(denial).collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.denials.lock().running.remove(&self.number);
    }
}

fn denial(name: &'static str) -> Denial {
    let allowed: Vec<&str> =
        default_names().filter(|it| *it != ALWAYS_ALLOWED).chain([name]).collect();
    Denial {
        control: "image".into(),
        rule: "the hardened image".to_owned(),
        target: name.to_owned(),
        why: "the image denies network, cloud and package tools".to_owned(),
        how_to_allow: format!(
            "name another image with --image, or build this one with `stockade image build \
             --hardened --allow {}`",
            allowed.join(",")
        ),
    }
}

/// A gateway that also receives the reports of stubs. Other connections go to `inner`, if any.
pub fn reported(denials: &Arc<Denials>, inner: Option<Arc<dyn Gateway>>) -> Arc<dyn Gateway> {
    let places = Arc::new(Semaphore::new(MOST_REPORTS));
    Arc::new(Reports { denials: Arc::clone(denials), places, inner })
}

#[derive(Debug)]
struct Reports {
    denials: Arc<Denials>,
    places: Arc<Semaphore>,
    inner: Option<Arc<dyn Gateway>>,
}

impl Gateway for Reports {
    fn serve(&self, destination: Destination, stream: Box<dyn Duplex>) -> BoxFuture<'static, ()> {
        match (destination, &self.inner) {
            (Destination::Denials, _) => {
                let (denials, places) = (Arc::clone(&self.denials), Arc::clone(&self.places));
                Box::pin(async move {
                    let Ok(_place) = places.try_acquire() else { return };
                    // A stub that sends nothing in time reports nothing.
                    let _ = timeout(PATIENCE, hear(&denials, stream)).await;
                })
            }
            (other, Some(inner)) => inner.serve(other, stream),
            // No other socket inside leads to the host.
            (_, None) => Box::pin(async {}),
        }
    }

    fn carries(&self) -> Carried {
        self.inner.as_ref().map(|inner| inner.carries()).unwrap_or_default()
    }

    fn most_streams(&self) -> usize {
        MOST_REPORTS + self.inner.as_ref().map_or(0, |inner| inner.most_streams())
    }
}

/// Reads one name. The end of the stream shows the stub that it was recorded.
async fn hear(denials: &Denials, mut stream: Box<dyn Duplex>) {
    let mut line = Vec::new();
    let mut limited = (&mut stream).take(MOST_BYTES);
    while !line.ends_with(b"\n") {
        match limited.read_buf(&mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    if let Some(name) = std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix('\n')) {
        denials.add(name);
    }
    // The guest may be gone already.
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(denials: &[Denial]) -> Vec<&str> {
        denials.iter().map(|denial| denial.target.as_str()).collect()
    }

    async fn report(denials: &Arc<Denials>, bytes: &[u8]) {
        let gateway = reported(denials, None);
        let (mut stub, host) = tokio::io::duplex(1024);
        stub.write_all(bytes).await.unwrap();
        stub.shutdown().await.unwrap();
        gateway.serve(Destination::Denials, Box::new(host)).await;
    }

    #[tokio::test]
    async fn only_names_of_the_recipe_are_kept_and_each_once() {
        let denials = Arc::new(Denials::default());
        for bytes in [
            &b"az\n"[..],
            b"az\n",
            b"kubectl\n",
            b"python3\n",
            b"az",
            b"az\ncurl\n",
            b"\x1b[2J\n",
            b"\xff\n",
            b"",
            &[b'a'; 1000],
        ] {
            report(&denials, bytes).await;
        }
        assert_eq!(names(&denials.all()), ["az", "kubectl"]);
    }

    #[tokio::test]
    async fn execution_has_the_names_since_its_start() {
        let denials = Arc::new(Denials::default());
        report(&denials, b"az\n").await;
        let first = Denials::listen(&denials);
        report(&denials, b"git\n").await;
        let second = Denials::listen(&denials);
        report(&denials, b"az\n").await;
        assert_eq!(names(&first.heard()), ["az", "git"]);
        assert_eq!(names(&second.heard()), ["az"]);
        drop(first);
        report(&denials, b"apt\n").await;
        assert_eq!(names(&second.heard()), ["apt", "az"]);
        assert_eq!(denials.lock().running.len(), 1);
    }

    #[tokio::test]
    async fn other_destinations_are_dropped_without_a_gateway_of_their_own() {
        let gateway = reported(&Arc::default(), None);
        assert_eq!(gateway.carries(), Carried::default());
        let (mut stub, host) = tokio::io::duplex(64);
        gateway.serve(Destination::Proxy, Box::new(host)).await;
        assert_eq!(stub.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn silent_stub_frees_its_place() {
        let denials = Arc::new(Denials::default());
        let gateway = reported(&denials, None);
        let (_stub, host) = tokio::io::duplex(64);
        gateway.serve(Destination::Denials, Box::new(host)).await;
        assert_eq!(denials.all(), []);
    }
}
