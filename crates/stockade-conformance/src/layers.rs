//! Each layer of the wall left out in turn: a layer without which every probe still holds is one
//! that nobody would miss.

use std::collections::BTreeMap;

use crate::bench::{Bench, Inputs};
use crate::catalogue::catalogue;
use crate::judge::{Verdict, judge};
use crate::probe::Probe;

/// Layers that a weakened build can leave out.
pub const LAYERS: [&str; 14] = [
    "capabilities",
    "cgroup",
    "cgroup-view",
    "files",
    "identity",
    "ipc",
    "landlock",
    "network",
    "proc",
    "read-only",
    "rlimits",
    "seccomp",
    "tools",
    "user-namespaces",
];

/// Which probes are tried without each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that the page names for it.
    Named,
    /// All of them.
    All,
}

/// What each layer's absence turned red, and where the page is wrong about that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// For each layer the ids that fail without it and hold with it.
    pub red: BTreeMap<&'static str, Vec<&'static str>>,
    /// What makes it a failure.
    pub failures: Vec<String>,
}

/// Leaves out each layer and compares with the table of a page, whose rows begin with the layer in
/// backquotes and end with the ids.
pub fn layers(inputs: &Inputs, page: &str, scope: Scope) -> Result<Matrix, String> {
    let rows = rows(page);
    let bench = Bench::new(inputs).map_err(|error| format!("the bench: {error}"))?;
    let whole = bench.wall(None).map_err(|error| error.to_string())?;
    let mut matrix = Matrix::default();
    for layer in LAYERS {
        let named = rows.get(layer).cloned().unwrap_or_default();
        // What is left of all runs is no matter of one layer.
        let tried = |probe: &&Probe| match scope {
            Scope::Named => named.contains(&probe.id),
            Scope::All => probe.id != "J14",
        };
        let weak = bench.weakened(&whole, layer);
        let mut red = Vec::new();
        for probe in catalogue().filter(tried) {
            // First the cheaper and rarer: most probes hold without any one layer.
            let fails = judge(&bench, &weak, probe) != Verdict::Held;
            if fails && judge(&bench, &whole, probe) == Verdict::Held {
                red.push(probe.id);
            }
        }
        matrix.failures.extend(complaints(layer, &named, &red));
        matrix.red.insert(layer, red);
    }
    let strangers = rows.keys().filter(|layer| !LAYERS.contains(layer));
    matrix.failures.extend(strangers.map(|layer| format!("the page names a layer {layer}")));
    Ok(matrix)
}

/// What is wrong about one layer.
fn complaints(layer: &str, named: &[&str], red: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    if named.is_empty() {
        complaints.push(format!("the page has no probe for the layer {layer}"));
    }
    if red.is_empty() {
        complaints.push(format!("no probe fails without the layer {layer}"));
    }
    let held = named.iter().filter(|id| !red.contains(id));
    complaints.extend(held.map(|id| format!("the page says that {id} fails without {layer}")));
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
    fn rows_of_the_table_are_read_and_nothing_else() {
        let page = "text\n| layer | left out | red |\n|---|---|---|\n\
                    | layer `ipc` | the namespace | G05, G13 |\n| other | x | A01 |\n";
        assert_eq!(rows(page), BTreeMap::from([("ipc", vec!["G05", "G13"])]));
    }

    #[test]
    fn page_that_names_too_much_or_nothing_is_wrong() {
        assert!(complaints("ipc", &["G05"], &["F01", "G05"]).is_empty());
        assert_eq!(
            complaints("ipc", &["G05"], &["F01"]),
            ["the page says that G05 fails without ipc"]
        );
        assert_eq!(complaints("ipc", &[], &[]).len(), 2);
    }
}
