//! All walls by name; no other crate names every wall.

mod azure;
#[cfg(all(test, feature = "docker", feature = "hyperlight"))]
mod choosing_table;
mod components;
mod containers;
#[cfg(all(test, feature = "docker"))]
mod control_table;
mod hyperlight;
#[cfg(test)]
mod install_page;
mod machines;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use azure::{AcaError, AzureChoice, Secret, SelfTest, SweepError, Token, TokenSource};
pub use components::{ComponentState, component_state, show_progress};
pub use containers::{
    ContainerChoice, ContainerImage, ContainerImageWanted, ContainerLook, HardenedBuilt,
    HardenedChoice, RUNTIMES, build_hardened, container_image, container_images, container_look,
};
pub use hyperlight::{WALL_VARIABLE, hyperlight_look};
pub use machines::{
    BootImageError, BootStore, BuildRequest, Kept, Manifest, Source, build_machine_image,
    machine_images, machine_look,
};
pub use stockade_native::{
    CgroupLook, HostLook, HostProcess, InterpreterLook, Knobs, Landlock, OWN_DIRECTORIES,
    Surroundings,
};
use stockade_native::{NativeProvider, ReducedProvider};
use stockade_policy::Isolation;
use stockade_provider::{
    HostFacts, Obstacle, Probe, ProgramKinds, Provider, ProviderName, WallFacts,
};

/// Every wall, fastest first, with its isolation level.
const WALLS: [(&str, Isolation); 8] = [
    ("native", Isolation::Process),
    ("reduced", Isolation::Reduced),
    ("wasm", Isolation::Process),
    ("docker", Isolation::Container),
    ("kubernetes", Isolation::Container),
    ("hyperlight", Isolation::Vm),
    ("qemu", Isolation::Vm),
    ("aca", Isolation::Vm),
];

/// The values of `--provider`, fastest wall first.
pub fn provider_names() -> Vec<&'static str> {
    WALLS.iter().map(|(name, _)| *name).collect()
}

/// The walls that are built in, fastest first. `surroundings` determines the host interpreter that
/// programs use behind a wall that mounts the host's, and `containers` the container engine.
pub fn providers(
    user: HostProcess,
    surroundings: &Surroundings,
    containers: &ContainerChoice,
) -> Vec<Arc<dyn Provider>> {
    let mut providers: Vec<Arc<dyn Provider>> = vec![
        Arc::new(NativeProvider::new(user, surroundings.clone())),
        Arc::new(ReducedProvider::new(user, surroundings.clone())),
    ];
    providers.extend(components::provider());
    providers.extend(containers.provider());
    providers.extend(hyperlight::provider(user));
    providers.push(machines::provider(user));
    providers.extend(containers.azure.as_ref().map(AzureChoice::provider));
    providers
}

/// What each wall can enforce on this host, from probing it. A wall that is not built in reports
/// that.
pub async fn host_facts() -> HostFacts {
    let providers = built_in();
    let mut walls = Vec::with_capacity(WALLS.len());
    for (name, isolation) in WALLS {
        let provider = providers.iter().find(|provider| provider.name().as_str() == name);
        walls.push(match provider {
            Some(provider) => provider.facts(Probe::Thorough).await,
            None => absent(name, isolation),
        });
    }
    HostFacts { walls }
}

/// What one wall can enforce on this host; `None` if no wall has this name. `containers` determines
/// the container engine.
pub async fn wall_facts(
    name: &str,
    probe: Probe,
    containers: &ContainerChoice,
) -> Option<WallFacts> {
    let (name, isolation) = WALLS.into_iter().find(|(known, _)| *known == name)?;
    let azure = Some(containers.azure.clone().unwrap_or_default());
    let containers = ContainerChoice { azure, ..containers.clone() };
    let providers = providers(HostProcess::Continues, &Surroundings::default(), &containers);
    Some(match providers.iter().find(|provider| provider.name().as_str() == name) {
        Some(provider) => provider.facts(probe).await,
        None => absent(name, isolation),
    })
}

/// Whether a wall is part of this version.
pub fn is_built_in(name: &str) -> bool {
    built_in().iter().any(|provider| provider.name().as_str() == name)
}

fn built_in() -> Vec<Arc<dyn Provider>> {
    let azure = Some(AzureChoice::default());
    let containers = ContainerChoice { azure, ..ContainerChoice::default() };
    providers(HostProcess::Continues, &Surroundings::default(), &containers)
}

fn absent(name: &'static str, isolation: Isolation) -> WallFacts {
    WallFacts {
        provider: ProviderName::new(name),
        isolation,
        unusable: Some(Obstacle {
            reason: format!("the {name} wall is not built into this version of Stockade"),
            remedy: remedy(name),
        }),
        programs: ProgramKinds::NONE,
        abilities: BTreeMap::new(),
    }
}

/// How to get a wall that is not built in.
fn remedy(name: &str) -> String {
    match name {
        "wasm" | "docker" | "hyperlight" => format!(
            "build it in with `cargo install --profile dist --path crates/stockade --features \
             {name}`, for Python with `MATURIN_PEP517_ARGS=\"--features {name}\" pip install .`, or use the native wall"
        ),
        _ => "use the native wall, or wait for a version that has this one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_name_has_facts_and_a_missing_wall_reports_that_it_is_not_built_in() {
        let facts = host_facts().await;
        assert_eq!(facts.walls.len(), provider_names().len());
        let built_in: Vec<&str> = built_in().iter().map(|it| it.name().as_str()).collect();
        let mut expected = vec!["native", "reduced"];
        expected.extend(cfg!(feature = "wasm").then_some("wasm"));
        expected.extend(cfg!(feature = "docker").then_some("docker"));
        expected.extend(cfg!(feature = "hyperlight").then_some("hyperlight"));
        expected.extend(["qemu", "aca"]);
        assert_eq!(built_in, expected);
        for name in provider_names().into_iter().filter(|name| !built_in.contains(name)) {
            let unusable = facts.wall(name).unwrap().unusable.as_ref().unwrap();
            assert!(unusable.reason.contains("not built into this version"), "{name}");
        }
    }

    #[test]
    fn wall_of_a_feature_names_the_command_that_builds_it_in() {
        let unusable = absent("wasm", Isolation::Process).unusable.unwrap();
        for command in [
            "cargo install --profile dist --path crates/stockade --features wasm",
            "MATURIN_PEP517_ARGS=\"--features wasm\" pip install .",
        ] {
            assert!(unusable.remedy.contains(command), "{unusable:?}");
        }
    }
}
