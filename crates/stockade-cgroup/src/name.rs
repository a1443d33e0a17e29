//! Names of groups: the owner, and 64 random bits.

use std::fmt;
use std::path::Path;

use stockade_sys::random_bytes;

use super::CgroupError;
use super::owner::{Life, Owner, Realm};

/// The prefix of the names of our groups.
const PREFIX: &str = "stockade-";

/// The name of one group: its owner process, and unguessable random bits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    pub(super) owner: Owner,
    random: u64,
}

impl GroupName {
    /// A new name, owned by this process.
    pub fn new() -> Result<GroupName, CgroupError> {
        let owner = Owner::current()
            .map_err(|source| CgroupError::Read { path: "/proc/self".into(), source })?;
        let random = random_bytes().map_err(|source| CgroupError::Random { source })?;
        Ok(GroupName { owner, random: u64::from_ne_bytes(random) })
    }

    /// Whether the last component of a path is one of our names and its owner is certainly dead.
    pub fn is_left_at(path: &Path) -> bool {
        let Some(name) = GroupName::of(path) else { return false };
        Realm::current().is_ok_and(|here| name.owner.life(here) == Life::Dead)
    }

    /// Parses a directory name; `None` if it is not exactly one of ours.
    pub(super) fn parse(text: &str) -> Option<GroupName> {
        let fields: Vec<&str> = text.strip_prefix(PREFIX)?.split('-').collect();
        let [pid, start, realm, random] = fields.as_slice() else { return None };
        let hex = |field: &str| u64::from_str_radix(field, 16).ok();
        let owner =
            Owner { pid: pid.parse().ok()?, start: start.parse().ok()?, realm: Realm(hex(realm)?) };
        let name = GroupName { owner, random: hex(random)? };
        // A sign, a leading zero or a capital letter would also parse.
        (name.to_string() == text).then_some(name)
    }

    /// The name of a group's directory, if it is one of ours.
    pub(super) fn of(path: &Path) -> Option<GroupName> {
        GroupName::parse(path.file_name()?.to_str()?)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { pid, start, realm } = self.owner;
        write!(f, "{PREFIX}{pid}-{start}-{:016x}-{:016x}", realm.0, self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_survives_a_round_trip_through_a_directory() {
        let name = GroupName::new().unwrap();
        assert_eq!(GroupName::parse(&name.to_string()), Some(name.clone()));
        let path = Path::new("/sys/fs/cgroup").join(name.to_string());
        assert_eq!(GroupName::of(&path), Some(name));
    }

    #[test]
    fn two_names_differ() {
        assert_ne!(GroupName::new().unwrap(), GroupName::new().unwrap());
    }

    #[test]
    fn foreign_names_are_rejected() {
        let good = "stockade-12-345-00000000000000ab-00000000000000cd";
        assert!(GroupName::parse(good).is_some());
        for bad in [
            "",
            "guest",
            "stockade-12-345-ab-cd",
            "stockade-+12-345-00000000000000ab-00000000000000cd",
            "stockade-012-345-00000000000000ab-00000000000000cd",
            "stockade-12-345-00000000000000AB-00000000000000cd",
            "stockade-12-345-00000000000000ab-00000000000000cd-",
            "stockade-12-345-00000000000000ab-00000000000000cd ",
            "stockade--12-345-00000000000000ab-00000000000000cd",
        ] {
            assert_eq!(GroupName::parse(bad), None, "{bad}");
        }
        let without = good.strip_prefix(PREFIX).unwrap();
        assert_eq!(GroupName::of(&Path::new("/sys/fs/cgroup").join(without)), None);
    }
}
