//! `/etc/resolv.conf` and `/etc/hosts`, parsed leniently: the administrator wrote them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use stockade_policy::{Host, HostName};

use super::MAX_ADDRESSES;

/// The most name servers that are used, as in the C library; resolv.conf(5).
const MAX_SERVERS: usize = 3;

/// The name servers, the timeout and the number of attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) timeout: Duration,
    pub(super) attempts: u32,
}

/// Parses resolv.conf(5). Ignores search domains: every name is absolute.
pub(super) fn read_servers(text: &str) -> Servers {
    let mut servers =
        Servers { addresses: Vec::new(), timeout: Duration::from_secs(3), attempts: 2 };
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => servers.addresses.extend(words.next().and_then(server_address)),
            Some("options") => {
                for option in words {
                    match option.split_once(':') {
                        Some(("timeout", value)) => {
                            let seconds = value.parse().unwrap_or(3).clamp(1, 10);
                            servers.timeout = Duration::from_secs(seconds);
                        }
                        Some(("attempts", value)) => {
                            servers.attempts = value.parse().unwrap_or(2).clamp(1, 5);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    servers.addresses.truncate(MAX_SERVERS);
    if servers.addresses.is_empty() {
        servers.addresses.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53));
    }
    servers
}

/// The address of a name server, which may be link-local with an interface number.
fn server_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, 53));
    }
    let (address, zone) = text.split_once('%')?;
    Some(SocketAddrV6::new(address.parse().ok()?, 53, 0, zone.parse().ok()?).into())
}

/// Parses hosts(5).
pub(super) fn read_hosts(text: &str) -> HashMap<HostName, Vec<IpAddr>> {
    let mut hosts: HashMap<HostName, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else {
            continue;
        };
        for word in words {
            if let Ok(Host::Name(name)) = Host::parse(word) {
                let addresses = hosts.entry(name).or_default();
                if addresses.len() < MAX_ADDRESSES && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_patience_come_from_resolv_conf() {
        let text = "# c\nsearch evil.example\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n\
                    nameserver fe80::1%2\nnameserver 192.0.2.4\noptions timeout:1 attempts:99\n";
        let expected = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%2]:53"];
        let servers = read_servers(text);
        assert_eq!(servers.addresses, expected.map(|text| text.parse().unwrap()).to_vec());
        assert_eq!((servers.timeout, servers.attempts), (Duration::from_secs(1), 5));
        assert_eq!(read_servers("").addresses, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn hosts_file_gives_every_address_of_its_lines() {
        let text =
            "127.0.0.1 localhost\n192.0.2.7 A.example.org a # b\n2001:db8::7 a.example.org\n";
        let hosts = read_hosts(text);
        let Ok(Host::Name(name)) = Host::parse("a.example.org") else { unreachable!() };
        let expected: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(hosts[&name], expected);
        assert_eq!(hosts.len(), 3);
    }
}
