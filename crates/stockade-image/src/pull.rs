//! Whether an engine may download an image.

use std::str::FromStr;

/// When an engine downloads an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pull {
    /// Never: the engine has it, or the run fails.
    #[default]
    Never,
    /// If the engine does not have it.
    Missing,
    /// Each time; a failed download is an error, also if the engine has an older one.
    Always,
}

/// The value of `--pull` is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} does not say when to pull; known are never, missing and always")]
pub struct UnknownPull {
    /// The value.
    pub word: String,
}

impl Pull {
    /// Every value of `--pull`.
    pub const NAMES: [&str; 3] = ["never", "missing", "always"];
}

impl FromStr for Pull {
    type Err = UnknownPull;

    fn from_str(word: &str) -> Result<Pull, UnknownPull> {
        match word {
            "never" => Ok(Pull::Never),
            "missing" => Ok(Pull::Missing),
            "always" => Ok(Pull::Always),
            _ => Err(UnknownPull { word: word.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_and_another_is_refused() {
        let parsed = Pull::NAMES.map(|name| name.parse::<Pull>().unwrap());
        assert_eq!(parsed, [Pull::Never, Pull::Missing, Pull::Always]);
        assert_eq!("Always".parse::<Pull>(), Err(UnknownPull { word: "Always".to_owned() }));
    }
}
