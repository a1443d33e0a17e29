//! `stockade policy plan`.

use serde_json::json;
use stockade_provider::{
    Finding, HostFacts, Obstacle, PlanReport, Precision, RefusedControl, WallReport, report,
};

use crate::args::PlanArgs;
use crate::render::{self, Output};
use crate::{ERROR, load};

pub(crate) fn run(args: &PlanArgs, output: Output) -> anyhow::Result<u8> {
    let policy = load::combined(&args.policy.files)?;
    let host = walls(args.provider.as_deref())?;
    let report = report(&policy, &host);
    match output {
        Output::Json => render::json(&json!({
            "policy": policy.name,
            "enforceable": report.provider.is_some(),
            "provider": report.provider,
            "walls": report.walls,
        }))?,
        Output::Text => render::text(&text(&policy.name, &report))?,
    }
    Ok(if report.provider.is_some() { 0 } else { ERROR })
}

/// The controls that a wall refuses, then each reason once.
pub(crate) fn refusals(wall: &WallReport) -> String {
    let mut text: String = refused(wall).map(refused_line).collect();
    reasons(wall, &mut text);
    text
}

/// Why something cannot be enforced, and how to fix that.
pub(crate) fn because(obstacle: &Obstacle) -> String {
    format!("  because {}\n        = {}\n", obstacle.reason, obstacle.remedy)
}

/// The walls to check: the named one, or all.
fn walls(provider: Option<&str>) -> anyhow::Result<HostFacts> {
    let mut host = load::host_facts()?;
    host.walls.retain(|wall| provider.is_none_or(|name| wall.provider.as_str() == name));
    Ok(host)
}

fn text(name: &str, report: &PlanReport) -> String {
    let chosen = report.walls.iter().find(|wall| wall.enforceable).or(report.walls.first());
    let Some(wall) = chosen else { return "no wall was asked\n".to_owned() };
    let mut text = if wall.enforceable {
        format!("`{name}` can be enforced by the {} wall:\n", wall.provider)
    } else {
        let reason = match report.walls.len() {
            1 => format!("the {} wall cannot enforce all of it here", wall.provider),
            _ => "no wall can enforce all of it here".to_owned(),
        };
        format!("`{name}` is refused: {reason}\n\n{} wall:\n", wall.provider)
    };
    controls(wall, &mut text);
    for other in report.walls.iter().filter(|other| other.provider != wall.provider) {
        let count = refused(other).count();
        let state = if count == 0 {
            "enforces all".to_owned()
        } else {
            format!("refuses {count} controls")
        };
        text.push_str(&format!("{} wall: {state}\n", other.provider));
    }
    text
}

/// One line per control, then each reason once.
fn controls(wall: &WallReport, text: &mut String) {
    for finding in &wall.controls {
        match finding {
            Finding::Enforced(held) => {
                let control = held.requirement.control.as_str();
                let asks = &held.requirement.asks;
                let how = match held.precision {
                    Precision::Exact => "enforced",
                    Precision::Approximate => "approx.",
                    Precision::Unverified => "unverif.",
                };
                text.push_str(&format!("  {how:<8} {control:<28} {asks} — {}\n", held.mechanism));
            }
            Finding::Refused(refused) => text.push_str(&refused_line(refused)),
        }
    }
    reasons(wall, text);
}

fn refused_line(refused: &RefusedControl) -> String {
    let control = refused.requirement.control.as_str();
    format!("  refused  {control:<28} {}\n", refused.requirement.asks)
}

fn reasons(wall: &WallReport, text: &mut String) {
    let mut seen = Vec::new();
    for refused in refused(wall) {
        if !seen.contains(&&refused.obstacle) {
            seen.push(&refused.obstacle);
            text.push_str(&because(&refused.obstacle));
        }
    }
}

fn refused(wall: &WallReport) -> impl Iterator<Item = &RefusedControl> {
    wall.controls.iter().filter_map(|finding| match finding {
        Finding::Refused(refused) => Some(refused),
        Finding::Enforced(_) => None,
    })
}
