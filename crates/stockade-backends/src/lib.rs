//! The only crate that names every wall.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use stockade_native::{CgroupLook, HostLook, InterpreterLook, Knobs, Landlock, User};
use stockade_native::{NativeProvider, ReducedProvider};
use stockade_policy::Isolation;
use stockade_provider::{HostFacts, Obstacle, Probe, Provider, ProviderName, WallFacts};

/// Every wall, fastest first, with its strength.
const WALLS: [(&str, Isolation); 10] = [
    ("native", Isolation::Process),
    ("reduced", Isolation::Reduced),
    ("wasm", Isolation::Process),
    ("docker", Isolation::Container),
    ("kubernetes", Isolation::Container),
    ("gvisor", Isolation::UserKernel),
    ("hyperlight", Isolation::Vm),
    ("kata", Isolation::Vm),
    ("qemu", Isolation::Vm),
    ("aca", Isolation::Vm),
];

/// The names `--provider` takes, fastest wall first.
pub fn provider_names() -> Vec<&'static str> {
    WALLS.iter().map(|(name, _)| *name).collect()
}

/// The walls that are built in, fastest first.
pub fn providers(user: User) -> Vec<Arc<dyn Provider>> {
    vec![Arc::new(NativeProvider::new(user)), Arc::new(ReducedProvider::new(user))]
}

/// What each wall can do on this host, from probing it. One that is not built in says so.
pub fn host_facts() -> HostFacts {
    let providers = providers(User::Stays);
    let facts = |&(name, isolation): &(&'static str, Isolation)| {
        let provider = providers.iter().find(|provider| provider.name().as_str() == name);
        provider.map_or_else(|| absent(name, isolation), |found| found.facts(Probe::Thorough))
    };
    HostFacts { walls: WALLS.iter().map(facts).collect() }
}

/// Whether a wall is part of this version at all.
pub fn is_built_in(name: &str) -> bool {
    providers(User::Stays).iter().any(|provider| provider.name().as_str() == name)
}

fn absent(name: &'static str, isolation: Isolation) -> WallFacts {
    WallFacts {
        provider: ProviderName::new(name),
        isolation,
        unusable: Some(Obstacle {
            reason: format!("the {name} wall is not built into this version of Stockade"),
            remedy: "use the native wall, or wait for a version that has this one".to_owned(),
        }),
        abilities: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_facts_and_a_wall_that_is_not_built_in_says_so() {
        let facts = host_facts();
        assert_eq!(facts.walls.len(), provider_names().len());
        let built_in: Vec<&str> =
            providers(User::Stays).iter().map(|it| it.name().as_str()).collect();
        assert_eq!(built_in, ["native", "reduced"]);
        for name in provider_names().into_iter().filter(|name| !built_in.contains(name)) {
            let unusable = facts.wall(name).unwrap().unusable.as_ref().unwrap();
            assert!(unusable.reason.contains("not built into this version"), "{name}");
        }
    }
}
