//! Resolves names as this machine does.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use hickory_proto::rr::RecordType;
use stockade_policy::HostName;

use super::files::{Servers, read_hosts, read_servers};
use super::stub::{Step, ask};
use super::{MAX_ADDRESSES, MAX_ALIASES, Resolve, ResolveError, Resolved};
use crate::settings::GateError;

/// The largest of these files that is read.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Queries the name servers of `/etc/resolv.conf`, after `/etc/hosts`. Reads both files once, and
/// caches no answers.
#[derive(Clone, Debug)]
pub struct SystemResolver {
    servers: Arc<Servers>,
    hosts: Arc<HashMap<HostName, Vec<IpAddr>>>,
}

impl SystemResolver {
    /// Reads both files. A missing file counts as empty; an unreadable one is an error.
    pub fn read() -> Result<SystemResolver, GateError> {
        let text = |file: &'static str| match std::fs::read(file) {
            Ok(mut bytes) => {
                bytes.truncate(MAX_FILE_BYTES);
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(GateError::Unreadable { file, source }),
        };
        Ok(SystemResolver::from_texts(&text("/etc/resolv.conf")?, &text("/etc/hosts")?))
    }

    /// The same with the contents of the two files.
    pub fn from_texts(resolv_conf: &str, hosts: &str) -> SystemResolver {
        SystemResolver {
            servers: Arc::new(read_servers(resolv_conf)),
            hosts: Arc::new(read_hosts(hosts)),
        }
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, Result<Resolved, ResolveError>> {
        let (name, servers) = (name.clone(), Arc::clone(&self.servers));
        let written = self.hosts.get(&name).cloned();
        Box::pin(async move {
            if let Some(addresses) = written {
                return Ok(Resolved { addresses, aliases: Vec::new() });
            }
            let (first, second) = tokio::join!(
                follow(&servers, &name, RecordType::A),
                follow(&servers, &name, RecordType::AAAA)
            );
            join(name, first, second)
        })
    }
}

/// Follows aliases to the addresses of one family.
async fn follow(
    servers: &Servers,
    name: &HostName,
    kind: RecordType,
) -> Result<Resolved, ResolveError> {
    let mut found = Resolved::default();
    let mut current = name.clone();
    // A recursive server follows aliases itself; any other is queried again.
    for _ in 0..MAX_ALIASES {
        let Step { aliases, addresses, is_end } = ask(servers, name, &current, kind).await?;
        found.aliases.extend(aliases);
        if found.aliases.len() > MAX_ALIASES {
            break;
        }
        found.addresses.extend(addresses);
        match found.aliases.last() {
            Some(last) if !is_end && *last != current => current = last.clone(),
            _ => return Ok(found),
        }
    }
    Err(ResolveError::BadAlias { name: name.clone() })
}

/// Merges the answers for both address families. A refused alias takes precedence.
fn join(
    name: HostName,
    first: Result<Resolved, ResolveError>,
    second: Result<Resolved, ResolveError>,
) -> Result<Resolved, ResolveError> {
    let mut found = Resolved::default();
    let mut missing = None;
    for answer in [first, second] {
        match answer {
            Ok(resolved) => {
                found.addresses.extend(resolved.addresses);
                found.aliases.extend(resolved.aliases);
            }
            Err(error @ ResolveError::BadAlias { .. }) => return Err(error),
            Err(error) => missing = Some(error),
        }
    }
    found.addresses.truncate(MAX_ADDRESSES);
    found.aliases.dedup();
    match (found.addresses.is_empty(), missing) {
        (false, _) => Ok(found),
        (true, Some(error)) => Err(error),
        (true, None) => Err(ResolveError::NoAddress { name }),
    }
}
