//! The abilities of both walls on a current host, for documentation.

use std::collections::BTreeMap;

use stockade_cgroup::Layout;
use stockade_policy::Control;
use stockade_provider::{Ability, ProviderName};
use stockade_seccomp::Ids;

use crate::abilities::abilities;
use crate::machine::{Landlock, Machine};
use crate::{NativeProvider, ReducedProvider, reduced};

/// The Landlock version of the reference host, Linux 6.15.
const LANDLOCK: u32 = 7;

/// What each wall enforces for an ordinary user of a host with Linux 6.15 and cgroup v2.
pub fn reference_abilities() -> [(ProviderName, BTreeMap<Control, Ability>); 2] {
    let machine = Machine {
        user: 1000,
        sub_ids: None,
        landlock: LANDLOCK,
        landlock_found: Landlock::Version(LANDLOCK),
        ..Machine::look()
    };
    let layout = Layout::complete();
    [
        (NativeProvider::NAME, abilities(&machine, &layout, None)),
        (ReducedProvider::NAME, reduced::abilities_of(&machine, &layout, Ids::Callers)),
    ]
}
