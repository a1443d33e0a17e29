//! Leaves out each layer of the wall in turn. A layer without which every probe still holds is not
//! covered by any probe.

use std::collections::BTreeMap;

use crate::bench::{Bench, Inputs};
use crate::catalogue::catalogue;
use crate::judge::{Verdict, judge};
use crate::probe::Probe;

/// Layers that a weakened build can leave out.
pub const LAYERS: [&str; 16] = [
    "capabilities",
    "cgroup",
    "cgroup-view",
    "files",
    "identity",
    "ipc",
    "landlock",
    "network",
    "pins",
    "proc",
    "read-only",
    "rlimits",
    "seccomp",
    "sockets",
    "tools",
    "user-namespaces",
];

/// Which probes to run without each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The probes that the page names for the layer.
    Named,
    /// All probes.
    All,
}

/// The probes that fail without each layer, and the errors of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// For each layer the ids that fail without it and hold with it.
    pub red: BTreeMap<&'static str, Vec<&'static str>>,
    /// The failures of the run.
    pub failures: Vec<String>,
}

/// Leaves out each layer and compares the result with the table of a page, whose rows start with
/// the layer in backquotes and end with the ids.
pub fn layers(inputs: &Inputs, page: &str, scope: Scope) -> Result<Matrix, String> {
    let rows = rows(page);
    let bench = Bench::new(inputs).map_err(|error| format!("the bench: {error}"))?;
    let whole = bench.wall(None).map_err(|error| error.to_string())?;
    let mut matrix = Matrix::default();
    for layer in LAYERS {
        let named = rows.get(layer).cloned().unwrap_or_default();
        // The check for leftovers does not belong to one layer.
        let tried = |probe: &&Probe| match scope {
            Scope::Named => named.contains(&probe.id),
            Scope::All => probe.id != "J14",
        };
        let weak = bench.weakened(&whole, layer);
        let mut red = Vec::new();
        for probe in catalogue().filter(tried) {
            // The weakened run first: most probes hold without any one layer, so the second run is
            // rare.
            let fails = judge(&bench, &weak, probe) != Verdict::Held;
            if fails && judge(&bench, &whole, probe) == Verdict::Held {
                red.push(probe.id);
            }
        }
        matrix.failures.extend(complaints(layer, &named, &red));
        matrix.red.insert(layer, red);
    }
    let unknown_ids = rows.keys().filter(|layer| !LAYERS.contains(layer));
    matrix.failures.extend(unknown_ids.map(|layer| format!("the page names a layer {layer}")));
    Ok(matrix)
}

/// The errors of the page about one layer.
fn complaints(layer: &str, named: &[&str], red: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    if named.is_empty() {
        complaints.push(format!("the page has no probe for the layer {layer}"));
    }
    if red.is_empty() {
        complaints.push(format!("no probe fails without the layer {layer}"));
    }
    let held = named.iter().filter(|id| !red.contains(id));
    complaints.extend(held.map(|id| format!("the page claims that {id} fails without {layer}")));
    complaints
}

/// The layers of a page's table with their ids.
fn rows(page: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let layer = cells[0].strip_prefix("layer `").and_then(|rest| rest.strip_suffix('`'));
        if let (Some(layer), Some(ids)) = (layer, cells.last()) {
            rows.insert(layer, ids.split(", ").filter(|id| !id.is_empty()).collect());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_the_table_are_read() {
        let page = "text\n| layer | left out | red |\n|---|---|---|\n\
                    | layer `ipc` | the namespace | G05, G13 |\n| other | x | A01 |\n";
        assert_eq!(rows(page), BTreeMap::from([("ipc", vec!["G05", "G13"])]));
    }

    #[test]
    fn page_with_a_wrong_or_missing_id_is_an_error() {
        assert!(complaints("ipc", &["G05"], &["F01", "G05"]).is_empty());
        assert_eq!(
            complaints("ipc", &["G05"], &["F01"]),
            ["the page claims that G05 fails without ipc"]
        );
        assert_eq!(complaints("ipc", &[], &[]).len(), 2);
    }
}
