//! `stockade doctor --provider NAME`: one wall with its controls, and for the managed wall a
//! self-test against the real service.

use serde_json::json;
use stockade_backends::{AzureChoice, ContainerChoice, SelfTest};
use stockade_provider::{HostFacts, Probe};

use super::{answer, text, walls};
use crate::render::{self, Output};
use crate::run::request::MANAGED;
use crate::sessions::client;
use crate::{ERROR, Problem};

pub(super) fn run(name: &str, output: Output) -> anyhow::Result<u8> {
    let runtime = client::runtime()?;
    let containers = ContainerChoice::default();
    let facts = runtime.block_on(stockade_backends::wall_facts(name, Probe::Thorough, &containers));
    let facts = facts.ok_or_else(|| {
        Problem::new(format!("no wall is called {name}"), "list the walls with `stockade doctor`")
    })?;
    let is_usable = facts.unusable.is_none();
    let facts = HostFacts { walls: vec![facts] };
    let (answer, walls) =
        (answer::answer(&facts), walls::walls(&facts, stockade_backends::is_built_in));
    let test = match is_usable && name == MANAGED {
        true => Some(runtime.block_on(AzureChoice::default().self_test())),
        false => None,
    };
    let has_failed = test.as_ref().is_some_and(|test| !test.passed);
    match output {
        Output::Json => {
            render::json(&json!({ "can_run": answer, "walls": walls, "self_test": test }))?;
        }
        Output::Text => {
            let mut shown = text::text(&answer, &walls, &[]);
            shown.push_str(&test.iter().map(lines).collect::<String>());
            render::text(&shown)?;
        }
    }
    Ok(if answer.is_empty() || has_failed { ERROR } else { 0 })
}

/// The steps of a self-test, one line each.
fn lines(test: &SelfTest) -> String {
    let mut text = "\nself-test against the service\n".to_owned();
    for step in &test.steps {
        let line = match &step.error {
            None => format!("  passed  {} ({} ms)\n", step.name, step.milliseconds),
            Some(error) => format!("  FAILED  {}: {error}\n", step.name),
        };
        text.push_str(&line);
    }
    text
}
