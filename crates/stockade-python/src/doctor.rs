//! What each wall can enforce on this host.

use pyo3::prelude::*;
use serde_json::{Value, json};
use stockade_policy::Control;
use stockade_provider::{Ability, Precision, WallFacts};

use crate::operation::{Answer, Operation};
use crate::runtime::Runtime;

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
