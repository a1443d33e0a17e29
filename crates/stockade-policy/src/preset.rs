//! Policies to start from. A person writes one out and edits it; they are never applied implicitly.

/// A policy to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Only code, with small limits.
    Strict,
    /// The policy that applies if none is given.
    Default,
    /// Read-only input, writable output, no network.
    Data,
    /// A few hosts over HTTPS.
    Web,
    /// An agent that works on a project.
    CodingAgent,
}

impl Preset {
    /// Every preset, strictest first.
    pub const ALL: [Preset; 5] =
        [Preset::Strict, Preset::Default, Preset::Data, Preset::Web, Preset::CodingAgent];

    /// The preset's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Strict => "strict",
            Preset::Default => "default",
            Preset::Data => "data",
            Preset::Web => "web",
            Preset::CodingAgent => "coding-agent",
        }
    }

    /// Its purpose in a few words.
    pub fn summary(self) -> &'static str {
        match self {
            Preset::Strict => "code only: small limits, one interpreter, nothing else",
            Preset::Default => "the policy that applies when none is given",
            Preset::Data => "a read-only input directory, a writable output directory",
            Preset::Web => "a few hosts by name, over HTTPS",
            Preset::CodingAgent => "a project behind a private layer, git hosting by name",
        }
    }

    /// The commented policy text.
    pub fn text(self) -> &'static str {
        match self {
            Preset::Strict => include_str!("../presets/strict.yaml"),
            Preset::Default => include_str!("../presets/default.yaml"),
            Preset::Data => include_str!("../presets/data.yaml"),
            Preset::Web => include_str!("../presets/web.yaml"),
            Preset::CodingAgent => include_str!("../presets/coding-agent.yaml"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Policy;

    #[test]
    fn every_preset_parses_and_has_its_own_name() {
        for preset in Preset::ALL {
            let policy = Policy::parse_str(preset.as_str(), preset.text(), Path::new("/srv/p"));
            assert_eq!(policy.unwrap().name, preset.as_str());
        }
    }

    #[test]
    fn the_default_preset_equals_an_empty_policy() {
        let base = Path::new("/srv/p");
        let written = Policy::parse_str("default", Preset::Default.text(), base).unwrap();
        let mut empty = Policy::parse_str("empty", "{}", base).unwrap();
        empty.name.clone_from(&written.name);
        empty.description.clone_from(&written.description);
        empty.gates[0].name.clone_from(&written.name);
        assert_eq!(written, empty);
    }

    #[test]
    fn strict_is_nowhere_wider_than_default() {
        let parse =
            |preset: Preset| Policy::parse_str("p", preset.text(), Path::new("/srv/p")).unwrap();
        assert_eq!(parse(Preset::Strict).widenings(&parse(Preset::Default)), []);
        assert_ne!(parse(Preset::Default).widenings(&parse(Preset::Strict)), []);
    }
}
