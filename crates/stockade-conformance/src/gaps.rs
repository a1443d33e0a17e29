//! Known gaps: probes that fail, each with its wall and the reason, and probes whose subject a wall
//! does not have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file `gaps.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gaps {
    #[serde(default)]
    gap: Vec<Gap>,
    #[serde(default)]
    not_applicable: Vec<Gap>,
    #[serde(default)]
    unprobed: Vec<Unprobed>,
}

/// A wall that no probe runs behind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Unprobed {
    /// The name of the wall.
    pub wall: String,
    /// Why.
    pub reason: String,
}

/// Why a probe is known not to hold behind a wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    /// The wall does not stop it.
    Gap(&'a str),
    /// The wall lacks what the probe attacks or needs.
    NotApplicable(&'a str),
}

/// The walls by name; `any` is every one.
const WALLS: [&str; 6] = ["any", "root", "user 65534", "docker", "docker runc", "docker runsc"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    id: String,
    /// One of [`WALLS`]; `docker` is every runtime.
    wall: String,
    reason: String,
}

impl Gaps {
    /// Parses the file. Every gap needs a reason.
    pub(crate) fn parse(text: &str) -> Result<Gaps, String> {
        let gaps: Gaps = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut seen = BTreeMap::new();
        for gap in gaps.gap.iter().chain(&gaps.not_applicable) {
            if gap.reason.trim().is_empty() {
                return Err(format!("{} has no reason", gap.id));
            }
            if !WALLS.contains(&gap.wall.as_str()) {
                return Err(format!("{} names an unknown wall: {}", gap.id, gap.wall));
            }
            if seen.insert((&gap.id, &gap.wall), ()).is_some() {
                return Err(format!("{} is listed twice for {}", gap.id, gap.wall));
            }
        }
        for Unprobed { wall, reason } in &gaps.unprobed {
            if reason.trim().is_empty() {
                return Err(format!("no reason says why {wall} is not probed"));
            }
            if WALLS.contains(&wall.as_str()) || seen.insert((wall, wall), ()).is_some() {
                return Err(format!("{wall} is probed, or listed twice as not probed"));
            }
        }
        Ok(gaps)
    }

    /// The walls that no probe runs behind.
    pub(crate) fn unprobed(&self) -> &[Unprobed] {
        &self.unprobed
    }

    /// Why a probe is known not to hold behind a wall.
    pub(crate) fn known(&self, id: &str, wall: &str) -> Option<Known<'_>> {
        let gap = find(&self.gap, id, wall).map(Known::Gap);
        gap.or_else(|| find(&self.not_applicable, id, wall).map(Known::NotApplicable))
    }

    /// Ids that no probe has.
    pub(crate) fn unknown_ids<'a>(&'a self, known: &[&str]) -> Vec<&'a str> {
        let ids = self.gap.iter().chain(&self.not_applicable).map(|gap| gap.id.as_str());
        ids.filter(|id| !known.contains(id)).collect()
    }
}

fn find<'a>(list: &'a [Gap], id: &str, wall: &str) -> Option<&'a str> {
    let covers =
        |named: &str| ["any", wall].contains(&named) || wall.split(' ').next() == Some(named);
    let found = list.iter().find(|gap| gap.id == id && covers(&gap.wall));
    found.map(|gap| gap.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_every_wall_that_no_probe_runs_behind() {
        let gaps = Gaps::parse(include_str!("../gaps.toml")).unwrap();
        let walls: Vec<&str> = gaps.unprobed().iter().map(|it| it.wall.as_str()).collect();
        assert_eq!(walls, ["wasm", "hyperlight", "aca"]);
        let page = include_str!("../../../docs/verification.md");
        for Unprobed { wall, reason } in gaps.unprobed() {
            assert!(page.contains(&format!("| `{wall}` | {reason} |")), "{wall}: {reason}");
        }
    }

    #[test]
    fn gap_needs_a_reason_and_a_known_wall() {
        let gap = |wall: &str, reason: &str| {
            format!("[[gap]]\nid = \"A14\"\nwall = \"{wall}\"\nreason = \"{reason}\"\n")
        };
        let gaps = Gaps::parse(&gap("root", "because")).unwrap();
        assert_eq!(gaps.known("A14", "root"), Some(Known::Gap("because")));
        assert_eq!(gaps.known("A14", "user 65534"), None);
        let foreign = Gaps::parse(&gap("docker", "because").replace("gap", "not_applicable"));
        let foreign = foreign.unwrap();
        for wall in ["docker runc", "docker runsc"] {
            assert_eq!(foreign.known("A14", wall), Some(Known::NotApplicable("because")));
        }
        assert_eq!(foreign.known("A14", "root"), None);
        assert_eq!(gaps.unknown_ids(&["A01"]), ["A14"]);
        assert!(Gaps::parse(&gap("root", " ")).is_err());
        assert!(Gaps::parse(&gap("moon", "because")).is_err());
        assert!(Gaps::parse(&gap("root", "a").repeat(2)).is_err());
        let unprobed = |wall: &str, reason: &str| {
            Gaps::parse(&format!("[[unprobed]]\nwall = \"{wall}\"\nreason = \"{reason}\"\n"))
        };
        assert_eq!(unprobed("wasm", "because").unwrap().unprobed()[0].reason, "because");
        assert!(unprobed("wasm", " ").is_err() && unprobed("docker", "because").is_err());
        assert!(Gaps::parse("").unwrap().unknown_ids(&[]).is_empty());
    }
}
