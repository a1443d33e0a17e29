//! Settings of a gate that depend on its machine.

use std::sync::Arc;
use std::time::Duration;

use crate::dial::{Dial, SystemDial};
use crate::resolve::{Resolve, SystemResolver};
use crate::secrets::Secrets;
use crate::tls::{AuthorityError, Trust, TrustError};

/// Why a gate cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// A resolver configuration file cannot be read.
    #[error("cannot read {file}, which configures name resolution; make it readable")]
    Unreadable {
        /// The file.
        file: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The authority of the session cannot be made.
    #[error("cannot make the certificate authority of this session")]
    Authority(#[from] AuthorityError),
    /// Servers of opened connections cannot be verified.
    #[error("cannot verify the servers of opened connections")]
    Trust(#[from] TrustError),
}

/// How a gate resolves names, dials addresses, and how long it waits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Resolves names to addresses.
    pub resolver: Arc<dyn Resolve>,
    /// Opens connections to addresses.
    pub dialer: Arc<dyn Dial>,
    /// How long it waits.
    pub times: Times,
    /// How it verifies the servers of opened connections.
    pub trust: Trust,
    /// The secrets that it sends, in place of the placeholders that programs have.
    pub secrets: Secrets,
}

impl Settings {
    /// Resolves as this machine does, without search domains, by the current contents of its files.
    pub fn system() -> Result<Settings, GateError> {
        let resolver = Arc::new(SystemResolver::read()?);
        Ok(Settings {
            resolver,
            dialer: Arc::new(SystemDial),
            times: Times::default(),
            trust: Trust::System,
            secrets: Secrets::default(),
        })
    }
}

/// The timeouts of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// For a whole head, ClientHello or SOCKS request, from its first byte.
    pub head: Duration,
    /// For the first bytes of a program that must send first.
    pub first_bytes: Duration,
    /// For the resolver.
    pub resolve: Duration,
    /// For a connection to any of a host's addresses.
    pub connect: Duration,
    /// For any byte in either direction.
    pub idle: Duration,
    /// For a refused program to stop sending, so that it can read the reason.
    pub linger: Duration,
    /// For the first bytes of a program that is refused anyway and, while learning, before the gate
    /// assumes that the server sends first.
    pub brief: Duration,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            head: Duration::from_secs(10),
            first_bytes: Duration::from_secs(10),
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            linger: Duration::from_secs(1),
            brief: Duration::from_millis(500),
        }
    }
}
