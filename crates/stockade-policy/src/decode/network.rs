//! `network_allowlist`, `network_ports` and `network_blocklist`.

use stockade_text::{Kind, Node, Table, describe};

use crate::host::split_port;
use crate::pattern::{BlockPattern, HostPattern, PatternError};
use crate::policy::{Inspect, NetworkEntry, Protocol};
use crate::request::{Method, PathPattern};
use crate::source::{Basis, Sourced};

use super::keys;
use super::values::Decoder;

/// The most ports in one list.
const MAX_PORTS: usize = 64;

impl Decoder<'_, '_> {
    pub(super) fn allowlist(&mut self, table: &Table<'_>, ports: &[u16]) -> Vec<NetworkEntry> {
        let items =
            table.get("network_allowlist").and_then(|node| self.list(node, "network_allowlist"));
        let items = items.unwrap_or_default();
        items.iter().filter_map(|item| self.network_entry(item, ports)).collect()
    }

    fn network_entry(&mut self, node: &Node, ports: &[u16]) -> Option<NetworkEntry> {
        let basis = Basis::Line(self.report.origin(node.place));
        if !matches!(node.kind, Kind::Map(_)) {
            let (host, port) = self.host_and_port(node)?;
            let ports = port.map_or_else(|| ports.to_vec(), |port| vec![port]);
            let (methods, paths, protocol) = (None, None, Protocol::Web);
            let inspect = Inspect::Pass;
            return Some(NetworkEntry { host, ports, protocol, methods, paths, inspect, basis });
        }
        let table = self.table(node, "network_allowlist[]", keys::NETWORK_ENTRY)?;
        let what = "network_allowlist[]";
        let named = self.required(&table, "host", what);
        let named = named.and_then(|node| Some((node, self.host_and_port(node)?)));
        let own_ports = self.optional(&table, "ports", |decoder, node| {
            decoder.non_empty(node, "network_allowlist[].ports", Self::ports)
        });
        let methods = self.optional(&table, "methods", |decoder, node| {
            decoder.non_empty(node, "network_allowlist[].methods", Self::methods)
        });
        let paths = self.optional(&table, "paths", |decoder, node| {
            decoder.non_empty(node, "network_allowlist[].paths", Self::url_paths)
        });
        let protocol = self.optional(&table, "protocol", Self::protocol);
        let inspect = self.optional(&table, "inspect", |decoder, node| {
            decoder.boolean(node, "network_allowlist[].inspect")
        });
        // Every part is checked before the first mistake ends the entry.
        let ((host_node, (host, port)), own_ports) = (named?, own_ports?);
        let (methods, paths) = (methods?, paths?);
        let protocol = protocol?.unwrap_or(Protocol::Web);
        let inspect = match inspect? {
            Some(true) => Inspect::Requests,
            Some(false) | None => Inspect::Pass,
        };
        let ports = match (port, own_ports) {
            (Some(_), Some(_)) => {
                let message = "the port is given twice: after the host and in `ports`";
                self.mistake(host_node.place, message, "keep one of the two");
                return None;
            }
            (Some(port), None) => vec![port],
            (None, Some(ports)) => ports,
            (None, None) => ports.to_vec(),
        };
        if protocol == Protocol::Tcp && inspect == Inspect::Requests {
            let message = "`protocol: tcp` carries any bytes; the gate sees no requests to inspect";
            self.mistake(node.place, message, "remove `protocol: tcp`, or `inspect`");
            return None;
        }
        if protocol == Protocol::Tcp && (methods.is_some() || paths.is_some()) {
            let message = "`protocol: tcp` carries any bytes; the gate sees no methods or paths";
            self.mistake(node.place, message, "remove `protocol: tcp`, or `methods` and `paths`");
            return None;
        }
        Some(NetworkEntry { host, ports, protocol, methods, paths, inspect, basis })
    }

    /// A key that may be absent; `None` if it has a mistake.
    fn optional<T>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<Option<T>> {
        match table.get(key) {
            Some(node) => read(self, node).map(Some),
            None => Some(None),
        }
    }

    fn protocol(&mut self, node: &Node) -> Option<Protocol> {
        if matches!(&node.kind, Kind::Scalar { text, .. } if text == "https") {
            let message = "protocol cannot be `https`: it is called `tls` here";
            self.mistake(node.place, message, "write `tls`");
            return None;
        }
        let words = [Protocol::Tls, Protocol::Http, Protocol::Tcp];
        self.word(node, "protocol", &words.map(|word| (word.as_str(), word)))
    }

    fn host_and_port(&mut self, node: &Node) -> Option<(HostPattern, Option<u16>)> {
        let text = self.text(node, "an allowed host")?;
        // A URL goes to the host parser, which names the mistake.
        let split = if text.contains('/') { Ok((text.as_str(), None)) } else { split_port(&text) };
        let (host, port) = match split {
            Ok(split) => split,
            Err(error) => {
                self.mistake(node.place, format!("{} {error}", describe(node)), error.remedy());
                return None;
            }
        };
        let host = self.pattern(HostPattern::parse_allowed(host), node)?;
        Some((host, port))
    }

    pub(super) fn pattern<T>(&mut self, read: Result<T, PatternError>, node: &Node) -> Option<T> {
        match read {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                self.mistake(node.place, format!("{} {error}", describe(node)), error.remedy());
                None
            }
        }
    }

    /// A list that must not be empty: its entry would match nothing.
    fn non_empty<T>(
        &mut self,
        node: &Node,
        what: &str,
        read: impl Fn(&mut Self, &Node, &str) -> Option<Vec<T>>,
    ) -> Option<Vec<T>> {
        let items = read(self, node, what)?;
        if matches!(&node.kind, Kind::List(written) if written.is_empty()) {
            let message = format!("{what} is empty, so the entry can match nothing");
            self.mistake(node.place, message, "list what is allowed, or remove the entry");
            return None;
        }
        Some(items)
    }

    /// Port numbers, sorted.
    pub(super) fn ports(&mut self, node: &Node, what: &str) -> Option<Vec<u16>> {
        let mut ports = Vec::new();
        for item in self.list_up_to(node, what, MAX_PORTS)? {
            let Some(held) = self.number(item, "a port", 1) else { continue };
            match u16::try_from(held) {
                Ok(port) if port != 0 => ports.push(port),
                _ => {
                    let message = format!("{} is not a port", describe(item));
                    self.mistake(item.place, message, "write a number from 1 to 65535");
                }
            }
        }
        ports.sort_unstable();
        ports.dedup();
        Some(ports)
    }

    fn methods(&mut self, node: &Node, what: &str) -> Option<Vec<Method>> {
        let mut methods = Vec::new();
        for item in self.list(node, what)? {
            let Some(text) = self.text(item, "a method") else { continue };
            match Method::parse(&text) {
                Ok(method) => methods.push(method),
                Err(error) => {
                    self.mistake(item.place, format!("{} {error}", describe(item)), error.remedy());
                }
            }
        }
        methods.sort();
        methods.dedup();
        Some(methods)
    }

    fn url_paths(&mut self, node: &Node, what: &str) -> Option<Vec<PathPattern>> {
        let mut paths = Vec::new();
        for item in self.list(node, what)? {
            let Some(text) = self.text(item, "a path pattern") else { continue };
            match PathPattern::parse(&text) {
                Ok(path) => paths.push(path),
                Err(error) => {
                    self.mistake(item.place, format!("{} {error}", describe(item)), error.remedy());
                }
            }
        }
        Some(paths)
    }

    pub(super) fn blocklist(&mut self, table: &Table<'_>) -> Vec<Sourced<BlockPattern>> {
        let items =
            table.get("network_blocklist").and_then(|node| self.list(node, "network_blocklist"));
        let mut blocked = Vec::new();
        for item in items.unwrap_or_default() {
            let Some(text) = self.text(item, "a blocked host") else { continue };
            if let Some(pattern) = self.pattern(BlockPattern::parse(&text), item) {
                blocked.push(self.sourced(pattern, item));
            }
        }
        blocked
    }
}
