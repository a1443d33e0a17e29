//! The suites of a run, in order: cheap and informative first.

use std::path::Path;

use anyhow::Result;

use crate::guards;
use crate::suites::{
    aarch64, cargo, deny, dist, docker, docs, fuzz, hyperlight, install, lab, large, leaks, mcp,
    mutations, native, nested, probes, python, qemu, wasm,
};

/// The result of a suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and found nothing; the note describes what it covered.
    Passed { note: String },
    /// It ran and found something, or could not do its work.
    Failed { why: String },
    /// It could not run here.
    Skipped { reason: String },
}

impl Outcome {
    pub(crate) fn passed(note: impl Into<String>) -> Outcome {
        Outcome::Passed { note: note.into() }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Outcome {
        Outcome::Failed { why: why.into() }
    }

    pub(crate) fn skipped(reason: impl Into<String>) -> Outcome {
        Outcome::Skipped { reason: reason.into() }
    }
}

/// Which runs include a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In every run.
    Always,
    /// Only with `--all` and `--nightly`.
    All,
    /// Only with `--nightly`: slow, and an ordinary change rarely breaks it.
    Nightly,
}

/// One line of the summary.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    /// Whether it is one of the guards, which read files and build nothing.
    pub(crate) guard: bool,
    pub(crate) run: fn(&Path) -> Result<Outcome>,
}

/// Every suite.
pub(crate) const SUITES: [Suite; 37] = [
    guard("rows", guards::run_rows),
    guard("unsafe", guards::run_unsafe),
    guard("prints", guards::run_prints),
    guard("alone", guards::run_alone),
    guard("sizes", guards::run_sizes),
    guard("shell", guards::run_shell),
    guard("features", guards::run_features),
    guard("words", guards::run_words),
    always("format", cargo::format),
    always("lints", cargo::lints),
    always("tests", cargo::tests),
    always("native", native::run),
    always("probes", probes::run),
    always("python", python::run),
    always("docs", docs::run),
    always("deny", deny::run),
    always("aarch64", aarch64::run),
    slow("docker", docker::run),
    slow("fuzz", fuzz::run),
    slow("install", install::run),
    slow("install-python", install::python),
    slow("python-recipes", python::recipes),
    slow("mcp", mcp::run),
    slow("lab", lab::stable_kernel),
    slow("qemu", qemu::run),
    slow("wasm", wasm::run),
    slow("hyperlight-smoke", hyperlight::smoke),
    slow("mutations", mutations::run),
    nightly("hyperlight", hyperlight::whole),
    nightly("dist", dist::run),
    nightly("fuzz-long", fuzz::run_long),
    nightly("docker-whole", docker::run_whole),
    nightly("large", large::run),
    nightly("leaks", leaks::run),
    nightly("lab-newer", lab::newer_kernel),
    nightly("nested", nested::run),
    nightly("matrix", probes::matrix),
];

const fn nightly(name: &'static str, run: fn(&Path) -> Result<Outcome>) -> Suite {
    Suite { name, when: When::Nightly, guard: false, run }
}

const fn slow(name: &'static str, run: fn(&Path) -> Result<Outcome>) -> Suite {
    Suite { name, when: When::All, guard: false, run }
}

const fn guard(name: &'static str, run: fn(&Path) -> Result<Outcome>) -> Suite {
    Suite { name, when: When::Always, guard: true, run }
}

const fn always(name: &'static str, run: fn(&Path) -> Result<Outcome>) -> Suite {
    Suite { name, when: When::Always, guard: false, run }
}
