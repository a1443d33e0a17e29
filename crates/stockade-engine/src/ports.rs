//! Ports of servers inside, forwarded to loopback ports of the host.
//!
//! ```text
//! client of the owner ── connects ──▶ listener on loopback ── its user is the owner? ──▶ link ──▶ server
//! client of another user ───────────▶          └── no, or unknown ──▶ reset
//! ```
//! Who may connect is decided by the kernel's table of connections, before the server inside sees
//! anything. Dropping the session closes the listeners.

mod counted;
mod forward;
mod peer;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_policy::{Control, Denial, Limit};
use stockade_record::PortEvent;
use tokio::net::TcpListener;

use crate::{RunError, Session};
use forward::Forward;

/// A forwarded port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedPort {
    /// The port inside.
    pub port: u16,
    /// The address on the host.
    pub address: SocketAddr,
    /// How many connections are open.
    pub open: u64,
    /// How many connections were relayed so far.
    pub connections: u64,
    /// How many connections were refused: those of other users, and those over the limit.
    pub refused: u64,
}

/// A port cannot be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The policy refuses it.
    #[error("denied port {port}: {}", denial.why)]
    Denied {
        /// The port inside.
        port: u16,
        /// The denial.
        denial: Box<Denial>,
    },
    /// No connection goes to port zero.
    #[error("0 is not a port of a server")]
    Zero,
    /// Other users of other machines could connect.
    #[error("cannot listen on {address}: only loopback addresses are possible")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The kernel refused the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The port is not forwarded.
    #[error("port {port} is not forwarded")]
    NotForwarded {
        /// The port inside.
        port: u16,
    },
    /// Stockade itself could not forward it.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl PortError {
    /// What to do next; `None` if the inner error has its own remedy.
    pub fn remedy(&self) -> Option<&str> {
        Some(match self {
            PortError::Denied { denial, .. } => &denial.how_to_allow,
            PortError::Zero => "pass the port that the server inside listens on",
            PortError::NotLoopback { .. } => {
                "choose an address of loopback, such as 127.0.0.1:8000 or [::1]:8000"
            }
            PortError::Listen { .. } => "choose another port, or none: then a free one is used",
            PortError::NotForwarded { .. } => {
                "list the forwarded ports with `stockade port SESSION`"
            }
            PortError::Run(_) => return None,
        })
    }
}

/// The forwarded ports of a session.
#[derive(Default)]
pub(crate) struct ForwardedPorts(Mutex<BTreeMap<u16, Vec<Forward>>>);

impl ForwardedPorts {
    /// Closes every listener and connection, and returns when all are recorded.
    pub(crate) async fn close_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        for forward in all.into_values().flatten() {
            forward.close().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Vec<Forward>>> {
        // No critical section leaves the table inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> u64 {
        self.lock().values().map(|forwards| forwards.len() as u64).sum()
    }
}

impl Session {
    /// Forwards a port of a server inside to an address of loopback, until [`Session::close_port`]
    /// or the end of the session. Only the user of this process can connect.
    ///
    /// A port that is already forwarded keeps its address unless the caller names another.
    pub async fn forward_port(
        &self,
        port: u16,
        listen: Option<SocketAddr>,
    ) -> Result<ForwardedPort, PortError> {
        if port == 0 {
            return Err(PortError::Zero);
        }
        {
            let forwarded = self.forwarded.lock();
            let known = forwarded.get(&port).and_then(|forwards| match listen {
                None => forwards.first(),
                Some(address) => forwards.iter().find(|forward| forward.address == address),
            });
            if let Some(known) = known {
                return Ok(known.view());
            }
        }
        self.check_forwarding(port)?;
        let address = listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
        if !is_loopback(address.ip()) {
            return Err(PortError::NotLoopback { address });
        }
        let ports = self.sandbox().ports().map_err(RunError::from)?;
        let listening = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            listening.await.map_err(|source| PortError::Listen { address, source })?;
        let opened = PortEvent {
            address: Some(address.to_string()),
            user: Some(rustix::process::geteuid().as_raw()),
            ..PortEvent::of(PortEvent::OPENED, port)
        };
        self.record.port(opened)?;
        let forward = Forward::start(port, address, listener, ports, self.record.clone());
        let view = forward.view();
        self.forwarded.lock().entry(port).or_default().push(forward);
        Ok(view)
    }

    /// The forwarded ports.
    pub fn forwarded_ports(&self) -> Vec<ForwardedPort> {
        self.forwarded.lock().values().flatten().map(Forward::view).collect()
    }

    /// Stops forwarding a port, and closes its connections.
    pub async fn close_port(&self, port: u16) -> Result<(), PortError> {
        let forwards = self.forwarded.lock().remove(&port);
        for forward in forwards.ok_or(PortError::NotForwarded { port })? {
            forward.close().await;
        }
        Ok(())
    }

    /// Refuses what the policy does not allow, and records the denial.
    fn check_forwarding(&self, port: u16) -> Result<(), PortError> {
        let limit = self.policy.limits.get(Limit::ForwardedPorts);
        let most = limit.map_or(u64::MAX, |limit| limit.value);
        if self.forwarded.count() < most {
            return Ok(());
        }
        let key = Limit::ForwardedPorts.spec().path();
        let denial = Denial {
            control: Control::Limit(Limit::ForwardedPorts).as_str().into(),
            rule: limit.map_or_else(String::new, |limit| limit.basis.to_string()),
            target: format!("forward port {port}"),
            why: match most {
                0 => format!("{key} is 0, so that no port is forwarded"),
                most => format!("{key} is {most}, and as many ports are forwarded"),
            },
            how_to_allow: match most {
                0 => format!("set {key} to 1 or more"),
                _ => format!("close a forwarded port, or raise {key}"),
            },
        };
        let event =
            PortEvent { denial: Some(denial.clone()), ..PortEvent::of(PortEvent::DENIED, port) };
        self.record.port(event)?;
        Err(PortError::Denied { port, denial: Box::new(denial) })
    }
}

fn is_loopback(address: IpAddr) -> bool {
    // A mapped address would listen for IPv4, whose connections have another form in the kernel's
    // table.
    address.is_loopback()
}

/// What the connections of a port share.
#[derive(Debug, Default)]
struct Counts {
    open: std::sync::atomic::AtomicU64,
    connections: std::sync::atomic::AtomicU64,
    refused: std::sync::atomic::AtomicU64,
}

type SharedCounts = Arc<Counts>;
