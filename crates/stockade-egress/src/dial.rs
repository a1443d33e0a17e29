//! Connects to an allowed host: resolves once, judges every address, dials a judged one.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use stockade_policy::{Control, Denial, Effect, Host, Verdict};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::meter::Meter;
use crate::resolve::{MAX_ADDRESSES, ResolveError};
use crate::rules::{Rules, Spoken};
use crate::shared::Shared;
use crate::side::Side;

/// Opens connections. It receives only addresses that were judged.
pub trait Dial: Send + Sync + fmt::Debug {
    /// Opens a connection to exactly this address. Dropping the future cancels the attempt.
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// Dials from this machine, without a proxy.
#[derive(Clone, Copy, Debug)]
pub struct SystemDial;

impl Dial for SystemDial {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// A destination that a program requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// An open connection to a judged address.
pub(crate) struct Dialled {
    pub(crate) outside: Side,
    pub(crate) address: IpAddr,
    pub(crate) is_own: bool,
    /// The rule that allowed it.
    pub(crate) verdict: Verdict,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// It is not allowed.
    Denied(Denial),
    /// The name does not resolve.
    Unresolved(String),
    /// No server answers there.
    Unreachable(String),
    /// It took too long.
    TooSlow(String),
}

/// An address that may be dialled.
struct Candidate {
    address: IpAddr,
    is_own: bool,
    verdict: Verdict,
}

/// Opens a connection to a host. Of a mixed answer it tries only the allowed addresses; if none is
/// allowed, it returns the denial of the first. The protocol may not be known yet.
pub(crate) async fn dial(
    shared: &Shared,
    target: &Target,
    spoken: Option<Spoken>,
    meter: &Arc<Meter>,
) -> Result<Dialled, DialError> {
    let rules = shared.rules();
    if let Some(denial) = rules.judge_host(&target.host, target.port).denial() {
        return Err(DialError::Denied(denial));
    }
    let addresses = resolve(shared, &rules, target).await?;
    // Read each time: interfaces come and go, and a missed one would be a hole.
    let own = stockade_sys::interface_addresses().map_err(|error| {
        DialError::Unreachable(format!("this machine's own addresses cannot be listed: {error}"))
    })?;
    let candidates =
        candidates(&rules, target, &addresses, &own, spoken).map_err(DialError::Denied)?;
    let deadline = Instant::now() + shared.settings.times.connect;
    let mut last = DialError::TooSlow(format!("{} did not answer", target.host));
    let count = candidates.len();
    for (tried, candidate) in candidates.into_iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(count - tried).unwrap_or(1);
        let address = SocketAddr::new(candidate.address, target.port);
        last = match timeout(share, shared.settings.dialer.dial(address)).await {
            Ok(Ok(stream)) => {
                let Candidate { address, is_own, verdict } = candidate;
                // Disables Nagle's algorithm, which would delay small writes.
                let _ = stream.set_nodelay(true);
                let outside = Side::outside(stream, Arc::clone(meter));
                return Ok(Dialled { outside, address, is_own, verdict });
            }
            Ok(Err(error)) => unreachable(&target.host, address, &error),
            Err(_) => DialError::TooSlow(format!("{} at {address} did not answer", target.host)),
        };
    }
    Err(last)
}

async fn resolve(
    shared: &Shared,
    rules: &Rules,
    target: &Target,
) -> Result<Vec<IpAddr>, DialError> {
    let name = match &target.host {
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) => name,
    };
    // The queried name leaves this machine as well, so it counts as sent bytes.
    if let Err(error) = shared.budget.spend(name.as_str().len() as u64).await {
        return Err(DialError::Unreachable(error.to_string()));
    }
    let answer = shared.settings.resolver.resolve(name);
    let resolved = match timeout(shared.settings.times.resolve, answer).await {
        Ok(Ok(resolved)) => resolved,
        Ok(Err(ResolveError::BadAlias { name })) => {
            return Err(DialError::Denied(bad_alias(target, name.as_str())));
        }
        Ok(Err(error)) => return Err(DialError::Unresolved(error.to_string())),
        Err(_) => return Err(DialError::TooSlow(format!("{name} could not be resolved in time"))),
    };
    for alias in resolved.aliases {
        if let Some(refusal) = rules.judge_alias(&Host::Name(alias.clone())) {
            let why = format!("{} is an alias of {alias}: {}", target.host, refusal.why);
            let target = format!("{}:{}", target.host, target.port);
            let refusal = Verdict { effect: Effect::Deny, why, target, ..refusal };
            if let Some(denial) = refusal.denial() {
                return Err(DialError::Denied(denial));
            }
        }
    }
    let mut addresses = resolved.addresses;
    addresses.truncate(MAX_ADDRESSES);
    // IPv4 first: a network that drops IPv6 silently would cost its whole share of the time.
    addresses.sort_by_key(IpAddr::is_ipv6);
    Ok(addresses)
}

/// The addresses that may be dialled, or the denial of the first if none may.
fn candidates(
    rules: &Rules,
    target: &Target,
    addresses: &[IpAddr],
    own: &[IpAddr],
    spoken: Option<Spoken>,
) -> Result<Vec<Candidate>, Denial> {
    let Target { host, port } = target;
    let mut allowed = Vec::new();
    let mut refusal = None;
    for address in addresses.iter().copied() {
        let verdict = rules.judge_address(host, *port, address, own);
        let is_own = own.contains(&address);
        let denial = verdict.denial().or_else(|| {
            let spoken = spoken?;
            rules.judge_speech(host, *port, Some(address), spoken)
        });
        match denial {
            None => allowed.push(Candidate { address, is_own, verdict }),
            Some(denial) => refusal = refusal.or(Some(denial)),
        }
    }
    match refusal {
        Some(denial) if allowed.is_empty() => Err(denial),
        _ => Ok(allowed),
    }
}

fn bad_alias(target: &Target, name: &str) -> Denial {
    Denial {
        control: Control::NetworkHosts.as_str().into(),
        rule: "built in: every alias of a name is judged".to_owned(),
        target: format!("{}:{}", target.host, target.port),
        why: format!("{name} leads through aliases that are no host names, or through too many"),
        how_to_allow: "nothing: use a name with plain aliases".to_owned(),
    }
}

fn unreachable(host: &Host, address: SocketAddr, error: &io::Error) -> DialError {
    DialError::Unreachable(format!("{host} at {address} cannot be reached: {error}"))
}
