//! One forwarded port: its listener, and the connections that it relays.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stockade_provider::{Ports, chain};
use stockade_record::PortEvent;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::counted::Counted;
use super::peer::{Peer, peer};
use super::{Counts, ForwardedPort, SharedCounts};
use crate::record::Record;

/// How many connections of one port are open at once; further ones are refused.
const MOST_CONNECTIONS: usize = 64;

/// How many refused connections of one port are recorded; further ones are counted. Any user of the
/// host can cause them.
const MOST_RECORDED: u64 = 1000;

/// Forwards one port until it is closed or dropped.
pub(super) struct Forward {
    pub(super) address: SocketAddr,
    port: u16,
    counts: SharedCounts,
    /// Dropping it ends the task, which closes the connections and records that.
    closing: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Forward {
    pub(super) fn start(
        port: u16,
        address: SocketAddr,
        listener: TcpListener,
        ports: Arc<dyn Ports>,
        record: Record,
    ) -> Forward {
        let counts = SharedCounts::default();
        let served = Served {
            port,
            address,
            ports,
            counts: Arc::clone(&counts),
            record,
            owner: rustix::process::geteuid().as_raw(),
        };
        let (closing, closed) = oneshot::channel();
        let task = tokio::spawn(accept(listener, Arc::new(served), closed));
        Forward { address, port, counts, closing, task }
    }

    /// Closes the listener and the connections, and returns when all are recorded.
    pub(super) async fn close(self) {
        drop(self.closing);
        // Fails only if the task panicked.
        let _ = self.task.await;
    }

    pub(super) fn view(&self) -> ForwardedPort {
        let Counts { open, connections, refused } = &*self.counts;
        ForwardedPort {
            port: self.port,
            address: self.address,
            open: open.load(Ordering::Relaxed),
            connections: connections.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
        }
    }
}

/// What the connections of a port need.
struct Served {
    port: u16,
    address: SocketAddr,
    ports: Arc<dyn Ports>,
    counts: SharedCounts,
    record: Record,
    owner: u32,
}

async fn accept(listener: TcpListener, served: Arc<Served>, mut closed: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut closed => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((client, from)) if connections.len() < MOST_CONNECTIONS => {
                    connections.spawn(serve(client, from, Arc::clone(&served)));
                }
                Ok((client, from)) => {
                    reset(&client);
                    let why = format!("{MOST_CONNECTIONS} connections are open");
                    served.refused(from, None, why);
                }
                // Too many descriptors for now.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
    served.write(PortEvent {
        address: Some(served.address.to_string()),
        ..PortEvent::of(PortEvent::CLOSED, served.port)
    });
}

async fn serve(client: TcpStream, from: SocketAddr, served: Arc<Served>) {
    let (address, owner) = (served.address, served.owner);
    let found = tokio::task::spawn_blocking(move || peer(from, address, owner)).await;
    let refused = match found {
        Ok(Peer::Owner) => None,
        Ok(Peer::Other { user }) => {
            Some((Some(user), format!("it belongs to user {user}, and the session to {owner}")))
        }
        Ok(Peer::Unknown { why }) => Some((None, format!("its user is not known: {why}"))),
        Err(error) => Some((None, format!("its user is not known: {error}"))),
    };
    // A connection that was reset before the lookup may have had another user.
    let refused = refused.or_else(|| match client.take_error() {
        Ok(None) => None,
        _ => Some((None, "it was reset before its user was known".to_owned())),
    });
    if let Some((user, why)) = refused {
        reset(&client);
        served.refused(from, user, why);
        return;
    }
    let server = match served.ports.connect(served.port).await {
        Ok(server) => server,
        Err(error) => {
            reset(&client);
            served.refused(from, Some(owner), chain(&error));
            return;
        }
    };
    // Small requests and replies are not delayed; failing costs only time.
    let _ = client.set_nodelay(true);
    let mut open = Open::new(&served, from);
    let (mut client, mut server) =
        (Counted::new(client, &open.received), Counted::new(server, &open.sent));
    let relayed = copy_bidirectional(&mut client, &mut server).await;
    open.why = relayed.err().map(|error| error.to_string());
}

/// Makes the kernel reset the connection when the socket is closed.
fn reset(client: &TcpStream) {
    // On failure the socket closes without a reset.
    let _ = rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO));
}

impl Served {
    fn refused(&self, from: SocketAddr, user: Option<u32>, why: String) {
        let before = self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if before >= MOST_RECORDED {
            return;
        }
        let event = PortEvent {
            address: Some(self.address.to_string()),
            peer: Some(from.to_string()),
            user,
            why: Some(why),
            ..PortEvent::of(PortEvent::REFUSED, self.port)
        };
        self.write(event);
    }

    fn write(&self, event: PortEvent) {
        // The record reports its own failure to the session.
        let _ = self.record.port(event);
    }
}

/// An open connection: counted until it is dropped, and then recorded, also if its port is closed.
struct Open<'s> {
    served: &'s Served,
    from: SocketAddr,
    began: Instant,
    sent: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
    why: Option<String>,
}

impl Open<'_> {
    fn new(served: &Served, from: SocketAddr) -> Open<'_> {
        served.counts.open.fetch_add(1, Ordering::Relaxed);
        served.counts.connections.fetch_add(1, Ordering::Relaxed);
        Open {
            served,
            from,
            began: Instant::now(),
            sent: Arc::default(),
            received: Arc::default(),
            why: Some("the port was closed".to_owned()),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let served = self.served;
        served.counts.open.fetch_sub(1, Ordering::Relaxed);
        served.write(PortEvent {
            address: Some(served.address.to_string()),
            peer: Some(self.from.to_string()),
            user: Some(served.owner),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            why: self.why.take(),
            ..PortEvent::of(PortEvent::CONNECTION, served.port)
        });
    }
}
