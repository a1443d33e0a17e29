//! What each wall can enforce on this host.

use pyo3::prelude::*;
use serde_json::{Value, json};
use stockade_backends::ContainerChoice;
use stockade_policy::Control;
use stockade_provider::{Ability, Precision, Probe, WallFacts};

use crate::azure::AzureOptions;
use crate::failure::Problem;
use crate::operation::{Answer, Operation};
use crate::runtime::Runtime;
use crate::session::container_choice;

/// Probes every wall. The result is JSON.
#[pyfunction]
pub(crate) fn doctor(runtime: &Runtime) -> PyResult<Operation> {
    Ok(Operation::abortable(&runtime.inner, async {
        let facts = stockade_backends::host_facts().await;
        let walls: Vec<Value> = facts.walls.iter().map(view).collect();
        let text = json!(walls).to_string();
        let answer: Answer = Box::new(move |py| Ok(text.into_pyobject(py)?.into_any().unbind()));
        Ok(answer)
    })?)
}

/// Probes one wall; `container` has the address of the engine and the name of the runtime. A quick
/// probe builds no wall. The result is JSON, None if no wall has this name.
#[pyfunction]
#[pyo3(signature = (runtime, name, quick, container, azure))]
pub(crate) fn wall(
    runtime: &Runtime,
    name: String,
    quick: bool,
    container: (Option<String>, Option<String>),
    azure: Option<AzureOptions>,
) -> PyResult<Operation> {
    let azure = azure.map(AzureOptions::choice);
    let containers = ContainerChoice { azure, ..container_choice(container)? };
    Ok(Operation::abortable(&runtime.inner, async move {
        let probe = if quick { Probe::Quick } else { Probe::Thorough };
        let facts = stockade_backends::wall_facts(&name, probe, &containers).await;
        let text = facts.map(|facts| view(&facts).to_string());
        let answer: Answer = Box::new(move |py| Ok(text.into_pyobject(py)?.into_any().unbind()));
        Ok(answer)
    })?)
}

/// Whether a container engine has an image; `container` as for `wall`.
#[pyfunction]
pub(crate) fn has_image(
    runtime: &Runtime,
    image: String,
    container: (Option<String>, Option<String>),
) -> PyResult<Operation> {
    let containers = container_choice(container)?;
    Ok(Operation::abortable(&runtime.inner, async move {
        let found = containers
            .has_image(&image)
            .await
            .map_err(|obstacle| Problem::new("unavailable", obstacle.reason, obstacle.remedy))?;
        let answer: Answer =
            Box::new(move |py| Ok(found.into_pyobject(py)?.to_owned().into_any().unbind()));
        Ok(answer)
    })?)
}

fn view(wall: &WallFacts) -> Value {
    let controls = |wanted: fn(&Ability) -> bool| -> Vec<&'static str> {
        let all = Control::all().into_iter();
        all.filter(|control| wanted(&wall.ability(*control))).map(Control::as_str).collect()
    };
    let approximate = controls(|ability| {
        matches!(ability, Ability::Enforced { precision: Precision::Approximate, .. })
    });
    let missing = match wall.unusable {
        Some(_) => Vec::new(),
        None => controls(|ability| matches!(ability, Ability::Missing(_))),
    };
    json!({
        "provider": wall.provider,
        "isolation": wall.isolation.as_str(),
        "built_in": stockade_backends::is_built_in(wall.provider.as_str()),
        "usable": wall.unusable.is_none(),
        "reason": wall.unusable.as_ref().map(|obstacle| &obstacle.reason),
        "remedy": wall.unusable.as_ref().map(|obstacle| &obstacle.remedy),
        "approximate": approximate,
        "missing": missing,
    })
}
