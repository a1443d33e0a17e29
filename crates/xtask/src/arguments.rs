//! The command line of xtask.

use anyhow::{Context, Result, bail};

use crate::component::ComponentOptions;
use crate::dist::DistOptions;
use crate::lab::LabOptions;
use crate::suite::SUITES;
use crate::suites::fuzz::FuzzOptions;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask check                       every suite of an ordinary run
cargo xtask test [--all | --nightly]    the same; --all adds the slow suites, --nightly
                                        the very slow ones too
cargo xtask suite NAME...               single suites, slow ones too
cargo xtask guards                      the guards alone, in about a second
cargo xtask probes                      the probes alone; STOCKADE_PROBES_JSON names a file for them
cargo xtask fuzz [TARGET] [--seconds N] one fuzz target or all, 5 seconds each by default
cargo xtask lab [OPTIONS] -- COMMAND    a command in a disposable machine with only cgroup v2
    --memory 1024m  --cpus 2  --timeout 120s    its size, and how long it may take
    --user agent    root by default; agent is user 1000, nobody is user 65534
    --delegate      a cgroup belongs to that user
    --nested        with /dev/kvm, by KVM on a translated AMD processor
    --sysctl K=V    sets one; repeat it for more
    --package NAME  a Debian package more; repeat it for more
    --copy A:/B     copies a file or a folder in; repeat it for more
cargo xtask dist [--profile P] [--out DIR]  the files of a release, by default of the profile
                                        `dist` in target/release-files
cargo xtask component python [--update] the CPython component of the WebAssembly wall, in the cache;
                                        --update writes its new digest into the tree
cargo xtask hyperlight                  the micro-VM wall's worker, in the cache; the first time takes
                                        about ten minutes
cargo xtask internet -- COMMAND         a command on a machine whose internet is a fake one

STOCKADE_REQUIRE=a,b or =all turns a skip of those suites into a failure.";

/// The requested task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Check,
    CheckAll,
    CheckNightly,
    Guards,
    Suites(Vec<String>),
    Lab(LabOptions),
    Internet(Vec<String>),
    Probes,
    Dist(DistOptions),
    Component(ComponentOptions),
    Hyperlight,
    Fuzz(FuzzOptions),
}

/// Parses the words after `cargo xtask`.
pub(crate) fn parse(words: &[String]) -> Result<Task> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["--help" | "-h" | "help"] => Ok(Task::Help),
        ["check" | "test"] => Ok(Task::Check),
        ["test", "--all"] => Ok(Task::CheckAll),
        ["test", "--nightly"] => Ok(Task::CheckNightly),
        ["guards"] => Ok(Task::Guards),
        ["suite", first, rest @ ..] => {
            let names: Vec<String> =
                [first].into_iter().chain(rest).map(|name| (*name).to_owned()).collect();
            let known = |name: &String| SUITES.iter().any(|suite| suite.name == name.as_str());
            match names.iter().find(|name| !known(name)) {
                Some(unknown) => bail!("no such suite: {unknown}; docs/testing.md lists them"),
                None => Ok(Task::Suites(names)),
            }
        }
        ["lab", rest @ ..] => Ok(Task::Lab(LabOptions::parse(rest)?)),
        ["internet", "--", first, rest @ ..] => {
            let command = [first].into_iter().chain(rest).map(|word| (*word).to_owned());
            Ok(Task::Internet(command.collect()))
        }
        ["component", rest @ ..] => Ok(Task::Component(ComponentOptions::parse(rest)?)),
        ["hyperlight"] => Ok(Task::Hyperlight),
        ["dist", rest @ ..] => Ok(Task::Dist(parse_dist(rest)?)),
        ["probes"] => Ok(Task::Probes),
        ["fuzz", rest @ ..] => Ok(Task::Fuzz(parse_fuzz(rest)?)),
        [..] => bail!("no such task: {}\n{HELP}", words.join(" ")),
    }
}

fn parse_dist(words: &[&str]) -> Result<DistOptions> {
    let mut options = DistOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match *word {
            "--profile" => options.profile = (*value).to_owned(),
            "--out" => options.out = value.into(),
            _ => bail!("cannot use {word} here\n{HELP}"),
        }
    }
    Ok(options)
}

fn parse_fuzz(words: &[&str]) -> Result<FuzzOptions> {
    let mut options = FuzzOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--seconds" {
            let number = words.next().context("--seconds needs a number")?;
            options.seconds =
                number.parse().with_context(|| format!("--seconds {number} is not a number"))?;
        } else if word.starts_with('-') || options.target.is_some() {
            bail!("cannot use {word} here\n{HELP}");
        } else {
            options.target = Some((*word).to_owned());
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn check_and_test_are_the_same_task() {
        assert_eq!(parsed("check").unwrap(), parsed("test").unwrap());
        assert_eq!(parsed("test --all").unwrap(), Task::CheckAll);
        assert_eq!(parsed("test --nightly").unwrap(), Task::CheckNightly);
    }

    #[test]
    fn suites_are_chosen_by_name() {
        let names = ["rows", "lab"].map(str::to_owned).to_vec();
        assert_eq!(parsed("suite rows lab").unwrap(), Task::Suites(names));
    }

    #[test]
    fn fuzz_takes_a_target_and_a_time() {
        let options = FuzzOptions { target: Some("wire_frame".to_owned()), seconds: 60 };
        assert_eq!(parsed("fuzz --seconds 60 wire_frame").unwrap(), Task::Fuzz(options));
        assert_eq!(parsed("fuzz").unwrap(), Task::Fuzz(FuzzOptions::default()));
    }

    #[test]
    fn dist_takes_a_profile_and_a_folder() {
        let Task::Dist(options) = parsed("dist --profile release --out files").unwrap() else {
            panic!("another task");
        };
        assert_eq!((options.profile.as_str(), options.wheel), ("release", true));
        assert_eq!(options.out, std::path::Path::new("files"));
        assert!(parsed("dist --out").is_err() && parsed("dist --fast x").is_err());
    }

    #[test]
    fn command_on_the_internet_keeps_its_own_options() {
        let words = ["curl", "--silent", "https://files.test/"].map(str::to_owned).to_vec();
        assert_eq!(
            parsed("internet -- curl --silent https://files.test/").unwrap(),
            Task::Internet(words)
        );
    }

    #[test]
    fn unknown_word_is_an_error() {
        for line in [
            "suite",
            "suite lab nosuch",
            "chek",
            "test --al",
            "check extra",
            "fuzz a b",
            "fuzz --secs 3",
            "internet",
            "internet --",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
