//! One stream of a sandbox, from its destination on.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stockade_policy::{Control, Denial, Host, Limit, Method, Protocol, UrlPath};
use stockade_provider::Destination;
use stockade_record::Via;

use crate::converse::{converse, refuse_unknown};
use crate::dial::Target;
use crate::egress_record::EgressRecord;
use crate::learned::Learned;
use crate::meter::Meter;
use crate::names::{self, NameTable};
use crate::proxy;
use crate::shared::{ConnectionPermit, Shared};
use crate::side::Side;

/// What is known about a connection for its whole life.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) via: Via,
    /// The method and the path of the only request, if the wall makes it.
    pub(crate) request: Option<(Method, UrlPath)>,
    number: u64,
    has_asked: Arc<AtomicBool>,
    place: Option<Arc<ConnectionPermit>>,
}

/// Serves one stream until it ends.
pub(crate) async fn serve(shared: &Arc<Shared>, destination: Destination, inside: Side) {
    let transparent = || Connection::new(shared, Via::Transparent);
    let (connection, target) = match destination {
        Destination::Names => return names::serve(shared, inside).await,
        Destination::Proxy => {
            return proxy::serve(Connection::new(shared, Via::Http), inside).await;
        }
        // Not a network destination: drops the stream, which closes the connection.
        Destination::Tools | Destination::Denials => return,
        // An address that stands for no name is judged as a literal, as from the proxy.
        Destination::Address { address, port } => {
            let connection = transparent();
            let target = connection.target(Host::Address(IpAddr::V4(address)), port);
            (connection, target)
        }
        Destination::Host { host, port } => {
            let connection = transparent();
            let target = connection.target(host, port);
            (connection, target)
        }
        Destination::Request { host, port, method, path } => {
            let connection = Connection { request: Some((method, path)), ..transparent() };
            let target = connection.target(host, port);
            (connection, target)
        }
    };
    match target {
        Ok(target) => converse(&connection, inside, &target, None).await,
        Err(denial) => refuse_unknown(&connection, inside, denial).await,
    }
}

impl Connection {
    fn new(shared: &Arc<Shared>, via: Via) -> Connection {
        Connection {
            shared: Arc::clone(shared),
            meter: Meter::new(Arc::clone(shared)),
            via,
            request: None,
            number: shared.next_connection(),
            has_asked: Arc::default(),
            place: shared.admit().map(Arc::new),
        }
    }

    /// The same connection with a count of its own, for one of several requests at once.
    pub(crate) fn divided(&self) -> Connection {
        Connection {
            shared: Arc::clone(&self.shared),
            meter: Meter::new(Arc::clone(&self.shared)),
            via: self.via,
            request: None,
            number: self.number,
            has_asked: Arc::clone(&self.has_asked),
            place: self.place.clone(),
        }
    }

    /// A record of an event on this connection.
    pub(crate) fn request_account(&self) -> EgressRecord {
        EgressRecord::new(&self.shared, self.number, self.via, Some(&self.meter))
    }

    /// The host of a destination. A synthetic address is replaced by its name: some programs
    /// resolve names themselves and pass the address to the proxy.
    pub(crate) fn target(&self, host: Host, port: u16) -> Result<Target, Denial> {
        match host {
            Host::Address(IpAddr::V4(address)) if NameTable::is_synthetic(address) => {
                self.name_at(address, port)
            }
            host => Ok(Target { host, port }),
        }
    }

    fn name_at(&self, address: Ipv4Addr, port: u16) -> Result<Target, Denial> {
        let name = self.shared.names().name_at(address);
        let unknown = || Denial {
            control: Control::NetworkHosts.as_str().into(),
            rule: "built in: an address inside stands for the name it was given to".to_owned(),
            target: format!("{address}:{port}"),
            why: "no name was given this address".to_owned(),
            how_to_allow: "ask for the name; addresses go through the proxy only".to_owned(),
        };
        name.map(|name| Target { host: Host::Name(name), port }).ok_or_else(unknown)
    }

    /// Notes that a request came.
    pub(crate) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    /// Whether a request came.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    pub(crate) fn is_overfull(&self) -> bool {
        self.place.is_none()
    }

    /// The denial of a connection over the connection limit.
    pub(crate) fn overfull(&self, target: &Target) -> Option<Denial> {
        if !self.is_overfull() {
            return None;
        }
        let rules = self.shared.rules();
        let held = rules.policy().and_then(|policy| policy.limits.get(Limit::Connections));
        let most = held.map_or(0, |held| held.value);
        Some(Denial {
            control: Control::Limit(Limit::Connections).as_str().into(),
            rule: held.map_or_else(String::new, |held| held.basis.to_string()),
            target: format!("{}:{}", target.host, target.port),
            why: format!("{most} connections were open already, as many as max_connections allows"),
            how_to_allow: "raise limits.max_connections, or close some first".to_owned(),
        })
    }

    /// Records the use, if the gate is learning.
    pub(crate) fn learn(&self, target: &Target, protocol: Protocol) {
        if self.shared.rules.borrow().is_learning() {
            let Target { host, port } = target.clone();
            self.shared.uses().note(Learned { host, port, protocol, request: None });
        }
    }

    /// Records a request that the gate has read, if it is learning.
    pub(crate) fn learn_request(&self, target: &Target, method: &str, path: &str) {
        let rules = self.shared.rules();
        if !rules.is_learning() {
            return;
        }
        // A path that no rule can judge needs an entry without conditions.
        let request = Method::parse(method).ok().zip(UrlPath::normalized(path).ok());
        let Target { host, port } = target.clone();
        // What is learned is not wider than the entry that allowed it.
        let protocol = match rules.protocol(&host, port, None) {
            Some(narrow @ (Protocol::Tls | Protocol::Http)) => narrow,
            _ => Protocol::Web,
        };
        self.shared.uses().note(Learned { host, port, protocol, request });
    }
}
