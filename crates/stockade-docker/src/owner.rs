//! Labels that name the owner of a container, and the removal of what dead owners left.

use std::collections::HashMap;

use bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder,
};
use stockade_cgroup::{Life, Owner, Realm};
use stockade_sys::random_bytes;

use crate::DockerError;
use crate::engine::Engine;

/// The label with the process that owns a container.
const OWNER: &str = "stockade.owner";
/// The label with the user id of that process.
const USER: &str = "stockade.user";
/// The label by which programs of `agent_sandbox` find containers.
const MANAGED: &str = "agent-sandbox.managed";
/// The label with the sandbox's own name.
pub(crate) const SANDBOX: &str = "stockade.sandbox";

/// The name of a new container, and its labels.
pub(crate) struct Labels {
    pub(crate) name: String,
    pub(crate) labels: HashMap<String, String>,
}

impl Labels {
    /// A name that no other sandbox has, and labels that name this process.
    pub(crate) fn new() -> Result<Labels, DockerError> {
        let cannot = |source| DockerError::Prepare { doing: "name a container", source };
        let random: [u8; 8] = random_bytes().map_err(cannot)?;
        let name = format!("stockade-{:016x}", u64::from_be_bytes(random));
        let owner = Owner::current().map_err(cannot)?;
        let labels = HashMap::from([
            (OWNER.to_owned(), owner.to_string()),
            (USER.to_owned(), user()),
            (SANDBOX.to_owned(), name.clone()),
            (MANAGED.to_owned(), "true".to_owned()),
        ]);
        Ok(Labels { name, labels })
    }
}

fn user() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Removes containers and volumes whose owner was a process of this user and has died. Failures are
/// left for the next sweep.
pub(crate) async fn sweep(engine: &Engine) {
    let Ok(here) = Realm::current() else { return };
    let filters = HashMap::from([("label".to_owned(), vec![format!("{USER}={}", user())])]);
    let list = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let found = engine.ask("list containers", engine.docker.list_containers(Some(list))).await;
    for container in found.unwrap_or_default() {
        let Some(id) = container.id.filter(|_| is_left(container.labels.as_ref(), here)) else {
            continue;
        };
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let removal = engine.docker.remove_container(&id, Some(options));
        let _ = engine.ask("remove a container", removal).await;
    }
    let list =
        bollard::query_parameters::ListVolumesOptionsBuilder::new().filters(&filters).build();
    let found = engine.ask("list volumes", engine.docker.list_volumes(Some(list))).await;
    for volume in found.ok().and_then(|found| found.volumes).unwrap_or_default() {
        if is_left(Some(&volume.labels), here) {
            let options = RemoveVolumeOptionsBuilder::new().build();
            let removal = engine.docker.remove_volume(&volume.name, Some(options));
            let _ = engine.ask("remove a volume", removal).await;
        }
    }
}

/// Whether labels name an owner that has certainly died.
fn is_left(labels: Option<&HashMap<String, String>>, here: Realm) -> bool {
    let owner = labels.and_then(|labels| labels.get(OWNER)).and_then(|text| Owner::parse(text));
    owner.is_some_and(|owner| owner.life(here) == Life::Dead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_containers_of_dead_owners_are_left_over() {
        let here = Realm::current().unwrap();
        let own = Labels::new().unwrap().labels;
        assert!(!is_left(Some(&own), here));
        let owner = Owner::current().unwrap();
        let dead = Owner { start: owner.start + 1, ..owner };
        let with = |owner: &str| HashMap::from([(OWNER.to_owned(), owner.to_owned())]);
        assert!(is_left(Some(&with(&dead.to_string())), here));
        let elsewhere = Owner { realm: Realm(1), ..dead };
        for kept in [with(&elsewhere.to_string()), with("nonsense"), HashMap::new()] {
            assert!(!is_left(Some(&kept), here), "{kept:?}");
        }
        assert!(!is_left(None, here));
    }
}
