//! `STOCKADE_REQUIRE`: the suites that may not be skipped.

use anyhow::{Result, bail};

use crate::suite::Outcome;

/// Host features that single tests require. The tests read the variable themselves and fail instead
/// of skipping; here the names only need to be known.
const HOST_PARTS: [&str; 8] =
    ["cgroup", "clients", "gvisor", "internet", "landlock", "namespaces", "node", "terminals"];

/// Which suites are required.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Every suite of the run.
    All,
    /// These, whether or not the run would include them.
    Named(Vec<String>),
}

impl Requirement {
    /// Parses a comma-separated list of suite names, or `all`. An unknown name is an error: a typo
    /// must not silently drop a requirement.
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Requirement> {
        let is_suite = |name: &&str| !name.is_empty() && !HOST_PARTS.contains(name);
        let names: Vec<&str> = text.split(',').map(str::trim).filter(is_suite).collect();
        if let Some(unknown) = names.iter().find(|name| **name != "all" && !known.contains(name)) {
            bail!(
                "STOCKADE_REQUIRE names no suite: {unknown}; known are all, {}",
                known.join(", ")
            );
        }
        match names.contains(&"all") {
            true => Ok(Requirement::All),
            false => Ok(Requirement::Named(names.into_iter().map(str::to_owned).collect())),
        }
    }

    /// The final outcome: a skipped suite that is required becomes a failure.
    pub(crate) fn judge(&self, suite: &str, outcome: Outcome) -> Outcome {
        let required = match self {
            Requirement::All => true,
            Requirement::Named(names) => names.iter().any(|name| name == suite),
        };
        match outcome {
            Outcome::Skipped { reason } if required => {
                Outcome::failed(format!("required, but skipped: {reason}"))
            }
            other => other,
        }
    }

    /// The required suites that the run did not include.
    pub(crate) fn missing(&self, held: impl Fn(&str) -> bool) -> Vec<&str> {
        match self {
            Requirement::All => Vec::new(),
            Requirement::Named(names) => {
                names.iter().map(String::as_str).filter(|name| !held(name)).collect()
            }
        }
    }

    /// The outcome of a suite that [`Requirement::missing`] returned.
    pub(crate) fn not_in_this_run(&self) -> Outcome {
        Outcome::failed("required, but not part of this run; ./test --nightly runs every suite")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["format", "fuzz", "mutations"];

    #[test]
    fn skip_fails_only_where_it_is_required() {
        let required = Requirement::parse("fuzz, format", &KNOWN).unwrap();
        let skip = || Outcome::skipped("no compiler");
        let failed = Outcome::failed("required, but skipped: no compiler");
        assert_eq!(required.judge("fuzz", skip()), failed);
        assert_eq!(required.judge("mutations", skip()), skip());
        assert_eq!(Requirement::All.judge("mutations", skip()), failed);
    }

    #[test]
    fn pass_stays_a_pass_when_required() {
        assert_eq!(Requirement::All.judge("fuzz", Outcome::passed("")), Outcome::passed(""));
    }

    #[test]
    fn unknown_name_is_an_error_that_names_the_known_ones() {
        let error = Requirement::parse("fuz", &KNOWN).unwrap_err().to_string();
        assert_eq!(
            error,
            "STOCKADE_REQUIRE names no suite: fuz; known are all, format, fuzz, mutations"
        );
        assert!(Requirement::parse("all,fuz", &KNOWN).is_err());
    }

    #[test]
    fn empty_list_requires_nothing() {
        assert_eq!(Requirement::parse("", &KNOWN).unwrap(), Requirement::Named(Vec::new()));
        assert_eq!(Requirement::parse("all", &KNOWN).unwrap(), Requirement::All);
    }

    #[test]
    fn host_feature_is_known_and_is_not_a_suite() {
        let required = Requirement::parse("fuzz,cgroup", &KNOWN).unwrap();
        assert_eq!(required, Requirement::Named(vec!["fuzz".to_owned()]));
    }

    #[test]
    fn required_suite_outside_the_run_is_missing() {
        let required = Requirement::parse("fuzz,mutations", &KNOWN).unwrap();
        assert_eq!(required.missing(|name| name == "fuzz"), ["mutations"]);
    }
}
