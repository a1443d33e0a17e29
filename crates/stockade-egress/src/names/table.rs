//! The synthetic addresses and their names.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use stockade_policy::HostName;

/// The most names of one sandbox.
pub(crate) const MAX_NAMES: usize = 1024;
/// Usable addresses per third octet: those that end in 0 or 255 are left out.
const PER_BLOCK: usize = 254;

/// Names in the order of their first query. No name is ever removed, so an address never changes
/// its name.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    names: Vec<HostName>,
    places: HashMap<HostName, usize>,
}

impl NameTable {
    /// The address of a name, allocated on first use. `None` when all are allocated.
    pub(crate) fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        if let Some(place) = self.places.get(name) {
            return Some(address_at(*place));
        }
        let place = self.names.len();
        if place >= MAX_NAMES {
            return None;
        }
        self.names.push(name.clone());
        self.places.insert(name.clone(), place);
        Some(address_at(place))
    }

    /// The name of a synthetic address.
    pub(crate) fn name_at(&self, address: Ipv4Addr) -> Option<HostName> {
        let [_, _, block, last] = address.octets();
        let place = usize::from(block) * PER_BLOCK + usize::from(last).checked_sub(1)?;
        (address_at(place) == address).then(|| self.names.get(place).cloned()).flatten()
    }

    /// Whether an address is in the synthetic range, allocated or not.
    pub(crate) fn is_synthetic(address: Ipv4Addr) -> bool {
        let [first, second, ..] = address.octets();
        first == 127 && second & 0b1100_0000 == 64
    }
}

/// The address at an index of the table, in 127.64.0.0/10.
fn address_at(place: usize) -> Ipv4Addr {
    let octet = |value: usize| u8::try_from(value % 256).unwrap_or_default();
    Ipv4Addr::new(127, 64, octet(place / PER_BLOCK), octet(place % PER_BLOCK + 1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use stockade_policy::Host;

    use super::*;

    fn name(number: usize) -> HostName {
        match Host::parse(&format!("n{number}.example.org")).unwrap() {
            Host::Name(name) => name,
            Host::Address(_) => unreachable!("it is a name"),
        }
    }

    #[test]
    fn each_name_has_one_address_and_each_address_one_name() {
        let mut table = NameTable::default();
        let first: Vec<_> = (0..MAX_NAMES).map(|number| table.address_of(&name(number))).collect();
        let again: Vec<_> = (0..MAX_NAMES).map(|number| table.address_of(&name(number))).collect();
        assert_eq!(first, again);
        let different: HashSet<_> = first.iter().flatten().collect();
        assert_eq!(different.len(), MAX_NAMES);
        for (number, address) in first.iter().flatten().enumerate() {
            assert_eq!(table.name_at(*address), Some(name(number)));
            assert!(NameTable::is_synthetic(*address));
            assert!(!matches!(address.octets()[3], 0 | 255));
        }
        assert_eq!(table.address_of(&name(MAX_NAMES)), None);
        assert_eq!(table.address_of(&name(7)), first[7]);
    }

    #[test]
    fn unallocated_addresses_have_no_name() {
        let mut table = NameTable::default();
        assert_eq!(table.address_of(&name(0)), Some(Ipv4Addr::new(127, 64, 0, 1)));
        for other in
            ["127.64.0.2", "127.64.0.0", "127.64.1.1", "127.65.0.1", "127.0.0.1", "1.1.1.1"]
        {
            assert_eq!(table.name_at(other.parse().unwrap()), None, "{other}");
        }
    }
}
