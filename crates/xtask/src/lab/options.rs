//! The words after `cargo xtask lab`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::machine::Size;
use super::offer::Kernel;

/// The parsed options of the lab.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LabOptions {
    pub(crate) memory_mib: u32,
    pub(crate) cpus: u32,
    pub(crate) timeout: Duration,
    /// Whether the machine has `/dev/kvm`.
    pub(crate) nested: bool,
    pub(crate) kernel: Kernel,
    pub(crate) user: String,
    /// Whether the user gets a delegated cgroup.
    pub(crate) delegate: bool,
    /// `name=value`.
    pub(crate) sysctls: Vec<String>,
    /// A path on the host, and an absolute path in the machine.
    pub(crate) copies: Vec<(PathBuf, String)>,
    /// Packages in addition to those of every machine.
    pub(crate) packages: Vec<String>,
    pub(crate) command: Vec<String>,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            memory_mib: 1024,
            cpus: 2,
            timeout: Duration::from_secs(120),
            nested: false,
            kernel: Kernel::Stable,
            user: "root".to_owned(),
            delegate: false,
            sysctls: Vec::new(),
            copies: Vec::new(),
            packages: Vec::new(),
            command: Vec::new(),
        }
    }
}

impl LabOptions {
    /// Parses the words; everything after `--` is the command.
    pub(crate) fn parse(words: &[&str]) -> Result<LabOptions> {
        let mut options = LabOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--" {
                options.command = words.map(|word| (*word).to_owned()).collect();
                ensure!(!options.command.is_empty(), "the lab needs a command after --");
                return Ok(options);
            }
            if *word == "--delegate" {
                options.delegate = true;
                continue;
            }
            if *word == "--nested" {
                options.nested = true;
                continue;
            }
            let value = *words.next().with_context(|| format!("{word} needs a value"))?;
            let wrong = |example: &str| format!("{word} {value} is not like {example}");
            match *word {
                "--memory" => {
                    options.memory_mib = mebibytes(value).with_context(|| wrong("1024m or 2g"))?;
                }
                "--cpus" => options.cpus = value.parse().with_context(|| wrong("2"))?,
                "--timeout" => {
                    options.timeout = duration(value).with_context(|| wrong("120s or 5m"))?;
                }
                "--kernel" => {
                    options.kernel =
                        Kernel::named(value).with_context(|| wrong("stable or newer"))?;
                }
                "--user" => options.user = value.to_owned(),
                "--sysctl" => {
                    ensure!(value.contains('='), wrong("name=value"));
                    options.sysctls.push(value.to_owned());
                }
                "--package" => options.packages.push(value.to_owned()),
                "--copy" => options.copies.push(copy(value).with_context(|| wrong("HERE:/THERE"))?),
                _ => bail!("the lab has no option {word}; the command comes after --"),
            }
        }
        bail!("the lab needs a command after --")
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            memory_mib: self.memory_mib,
            cpus: self.cpus,
            timeout: self.timeout,
            nested: self.nested,
        }
    }
}

fn mebibytes(value: &str) -> Option<u32> {
    match value.split_at_checked(value.len().checked_sub(1)?)? {
        (number, "m") => number.parse().ok(),
        (number, "g") => number.parse::<u32>().ok()?.checked_mul(1024),
        _ => None,
    }
}

fn duration(value: &str) -> Option<Duration> {
    match value.split_at_checked(value.len().checked_sub(1)?)? {
        (number, "s") => Some(Duration::from_secs(number.parse().ok()?)),
        (number, "m") => Some(Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(60)?)),
        _ => None,
    }
}

fn copy(value: &str) -> Option<(PathBuf, String)> {
    let (from, to) = value.rsplit_once(':')?;
    to.starts_with('/').then(|| (PathBuf::from(from), to.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<LabOptions> {
        LabOptions::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn every_option_is_read_and_the_rest_is_the_command() {
        let line = "--memory 2g --cpus 1 --kernel newer --user agent --delegate --nested --sysctl a.b=1 --timeout 5m \
                    --package gcc --copy here:/there -- stockade run --cpus 3";
        let expected = LabOptions {
            memory_mib: 2048,
            cpus: 1,
            timeout: Duration::from_secs(300),
            nested: true,
            kernel: Kernel::Newer,
            user: "agent".to_owned(),
            delegate: true,
            sysctls: vec!["a.b=1".to_owned()],
            copies: vec![(PathBuf::from("here"), "/there".to_owned())],
            packages: vec!["gcc".to_owned()],
            command: ["stockade", "run", "--cpus", "3"].map(str::to_owned).to_vec(),
        };
        assert_eq!(parsed(line).unwrap(), expected);
    }

    #[test]
    fn malformed_option_is_an_error() {
        let lines = [
            "",
            "--",
            "true",
            "--memory 1024 -- true",
            "--memory 9999999g -- true",
            "--timeout 5 -- true",
            "--sysctl a -- true",
            "--kernel 6 -- true",
            "--copy here:there -- true",
            "--copy",
            "--colour red -- true",
        ];
        for line in lines {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
