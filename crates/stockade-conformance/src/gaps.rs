//! Known gaps: probes that fail, each with its wall and the reason.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file `gaps.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gaps {
    #[serde(default)]
    gap: Vec<Gap>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    id: String,
    /// `root`, `user 65534`, or `any`.
    wall: String,
    reason: String,
}

impl Gaps {
    /// Parses the file. Every gap needs a reason.
    pub(crate) fn parse(text: &str) -> Result<Gaps, String> {
        let gaps: Gaps = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut seen = BTreeMap::new();
        for gap in &gaps.gap {
            if gap.reason.trim().is_empty() {
                return Err(format!("{} has no reason", gap.id));
            }
            if !["any", "root", "user 65534"].contains(&gap.wall.as_str()) {
                return Err(format!("{} names an unknown wall: {}", gap.id, gap.wall));
            }
            if seen.insert((&gap.id, &gap.wall), ()).is_some() {
                return Err(format!("{} is listed twice for {}", gap.id, gap.wall));
            }
        }
        Ok(gaps)
    }

    /// The reason why a probe is known to fail behind a wall.
    pub(crate) fn reason(&self, id: &str, wall: &str) -> Option<&str> {
        let is_it = |gap: &&Gap| gap.id == id && (gap.wall == wall || gap.wall == "any");
        self.gap.iter().find(is_it).map(|gap| gap.reason.as_str())
    }

    /// Ids that no probe has.
    pub(crate) fn unknown_ids<'a>(&'a self, known: &[&str]) -> Vec<&'a str> {
        let ids = self.gap.iter().map(|gap| gap.id.as_str());
        ids.filter(|id| !known.contains(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_needs_a_reason_and_a_known_wall() {
        let gap = |wall: &str, reason: &str| {
            format!("[[gap]]\nid = \"A14\"\nwall = \"{wall}\"\nreason = \"{reason}\"\n")
        };
        let gaps = Gaps::parse(&gap("root", "because")).unwrap();
        assert_eq!(gaps.reason("A14", "root"), Some("because"));
        assert_eq!(gaps.reason("A14", "user 65534"), None);
        assert_eq!(gaps.unknown_ids(&["A01"]), ["A14"]);
        assert!(Gaps::parse(&gap("root", " ")).is_err());
        assert!(Gaps::parse(&gap("moon", "because")).is_err());
        assert!(Gaps::parse(&gap("root", "a").repeat(2)).is_err());
        assert!(Gaps::parse("").unwrap().unknown_ids(&[]).is_empty());
    }
}
