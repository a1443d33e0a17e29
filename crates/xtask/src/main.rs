//! All automation of the workspace: `cargo xtask --help`.

mod arguments;
mod cache;
mod component;
mod dist;
mod guards;
mod hyperlight;
mod internet;
mod lab;
mod metadata;
mod program;
mod progress;
mod report;
mod requirement;
mod scratch;
mod suite;
mod suites;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use arguments::{HELP, Task};
use report::Report;
use requirement::Requirement;
use suite::{SUITES, Suite, When};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            progress::note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root()?;
    match arguments::parse(&words)? {
        Task::Help => {
            progress::say(HELP);
            Ok(ExitCode::SUCCESS)
        }
        Task::Check => run_suites(&root, |suite| suite.when == When::Always),
        Task::CheckAll => run_suites(&root, |suite| suite.when != When::Nightly),
        Task::CheckNightly => run_suites(&root, |_| true),
        Task::Guards => run_suites(&root, |suite| suite.guard),
        Task::Suites(names) => {
            run_suites(&root, |suite| names.iter().any(|name| name.as_str() == suite.name))
        }
        Task::Lab(options) => Ok(lab::run(&root, options).map_or_else(lab_failed, ExitCode::from)),
        Task::Internet(command) => match internet::run(&root, &command)? {},
        Task::Dist(options) => {
            for name in dist::make(&root, &options)? {
                progress::say(&options.out.join(name).display().to_string());
            }
            Ok(ExitCode::SUCCESS)
        }
        Task::Component(options) => {
            progress::say(&component::build(&root, &options)?.display().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Task::Hyperlight => {
            progress::say(&hyperlight::build(&root)?.display().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Task::Probes => run_suites(&root, |suite| suite.name == "probes"),
        Task::Fuzz(options) => {
            progress::say(&suites::fuzz::fuzz(&root, &options)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reports an error of the lab itself with exit code 255, as ssh does: few commands use it.
fn lab_failed(error: anyhow::Error) -> ExitCode {
    progress::note(&format!("error: {error:#}"));
    ExitCode::from(255)
}

/// Runs the chosen suites in order, prints the result of each, and ends with the summary.
/// A shell ignores these signals for what it starts in the background, and tests send them.
fn restore_interrupts() {
    for signal in [Signal::INT, Signal::QUIT] {
        // Fails only for invalid signal numbers.
        let _ = stockade_sys::default_signal(signal);
    }
}

fn run_suites(root: &Path, chosen: impl Fn(&Suite) -> bool) -> Result<ExitCode> {
    restore_interrupts();
    let asked = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let required = Requirement::parse(&asked, &SUITES.map(|suite| suite.name))?;
    let mut report = Report::default();
    for suite in SUITES.iter().filter(|suite| chosen(suite)) {
        let (outcome, time) = progress::watch(suite.name, || (suite.run)(root));
        report.add(suite.name, required.judge(suite.name, outcome), time);
    }
    for name in required.missing(|name| report.holds(name)) {
        report.add(name, required.not_in_this_run(), Duration::ZERO);
    }
    report.leave_out(SUITES.iter().filter(|suite| !chosen(suite)).map(|suite| suite.name));
    progress::say(&report.summary());
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).context("xtask lives two folders below the root")?;
    ensure!(root.join("Cargo.lock").is_file(), "{} has no Cargo.lock", root.display());
    Ok(root.to_path_buf())
}
