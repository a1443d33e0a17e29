//! Coverage-guided fuzzing on the pinned stable toolchain.
//!
//! Compiler flags that stable accepts enable the coverage pass, without a sanitizer; libFuzzer does
//! the rest. Each run checks that coverage guided it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::metadata::packages;
use crate::program::{cargo, finish, on_path};
use crate::scratch::Scratch;
use crate::suite::Outcome;

const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Fewer edges than any parser has: a run below this was not instrumented.
const LEAST_COVERAGE: u64 = 100;

/// The targets to fuzz and the time for each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FuzzOptions {
    /// One target, or all.
    pub(crate) target: Option<String>,
    /// The time for each target.
    pub(crate) seconds: u32,
}

impl Default for FuzzOptions {
    fn default() -> FuzzOptions {
        FuzzOptions { target: None, seconds: 5 }
    }
}

/// The suite `fuzz`: a short run of each target.
pub(crate) fn run(root: &Path) -> Result<Outcome> {
    run_each(root, &FuzzOptions::default())
}

/// The suite `fuzz-long`: a minute for each target.
pub(crate) fn run_long(root: &Path) -> Result<Outcome> {
    run_each(root, &FuzzOptions { target: None, seconds: 60 })
}

fn run_each(root: &Path, options: &FuzzOptions) -> Result<Outcome> {
    if on_path(&["c++", "g++", "clang++"]).is_none() {
        return Ok(Outcome::skipped("no C++ compiler for libFuzzer; remedy: apt install g++"));
    }
    Ok(Outcome::passed(fuzz(root, options)?))
}

/// Builds and runs the requested targets and reports the result of each.
pub(crate) fn fuzz(root: &Path, options: &FuzzOptions) -> Result<String> {
    let folder = root.join("fuzz");
    let known = packages(&folder)?.into_iter().flat_map(|package| package.executables);
    let known: Vec<String> = known.collect();
    let chosen = match &options.target {
        None => known,
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => bail!("no fuzz target {name}; there are {}", known.join(", ")),
    };
    let programs = build(&folder)?;
    let notes: Vec<String> = chosen
        .iter()
        .map(|target| run_target(&folder, &programs.join(target), target, options.seconds))
        .collect::<Result<_>>()?;
    Ok(notes.join("; "))
}

/// Builds every target and returns the folder they are in.
fn build(folder: &Path) -> Result<PathBuf> {
    let triple = host_triple()?;
    let target_folder = target_folder(folder)?;
    let mut build = cargo(folder);
    // With an explicit target, cargo builds build scripts and macros for the host without these
    // flags.
    build.args(["build", "--release", "--locked", "--quiet", "--bins", "--target", &triple]);
    build.arg("--target-dir").arg(&target_folder);
    build.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")).env_remove("RUSTFLAGS");
    let finished = finish(build)?;
    ensure!(finished.success, "the fuzz targets do not build\n{}", finished.output);
    Ok(target_folder.join(triple).join("release"))
}

fn run_target(folder: &Path, program: &Path, target: &str, seconds: u32) -> Result<String> {
    let corpus = Scratch::new("fuzz-corpus")?;
    let artefacts = folder.join("artifacts").join(target);
    fs::create_dir_all(&artefacts)?;
    let mut fuzzer = Command::new(program);
    fuzzer.arg(format!("-max_total_time={seconds}"));
    fuzzer.args(["-rss_limit_mb=512", "-timeout=5", "-max_len=8192", "-print_final_stats=1"]);
    fuzzer.arg(format!("-artifact_prefix={}/", artefacts.display()));
    // libFuzzer writes new inputs to the first folder and only reads the others.
    fuzzer.arg(corpus.path());
    let seeds = folder.join("seeds").join(target);
    if seeds.is_dir() {
        fuzzer.arg(seeds);
    }
    let finished = finish(fuzzer)?;
    if !finished.success {
        bail!(
            "{target} failed\n{}{}",
            finished.output,
            how_to_reproduce(program, &finished.output)
        );
    }
    let coverage = Coverage::read(&finished.output)
        .with_context(|| format!("{target} printed no coverage\n{}", finished.output))?;
    ensure!(
        coverage.last > LEAST_COVERAGE && coverage.last >= coverage.first,
        "{target} reached {} edges, so it was not guided by coverage",
        coverage.last
    );
    let Coverage { first, last, runs } = coverage;
    Ok(format!("{target} {runs} runs, {first} to {last} edges"))
}

/// The edge counts in libFuzzer's output.
#[derive(Debug, PartialEq, Eq)]
struct Coverage {
    first: u64,
    last: u64,
    runs: u64,
}

impl Coverage {
    fn read(output: &str) -> Option<Coverage> {
        let mut edges = output.lines().filter_map(|line| number_after(line, "cov: "));
        let first = edges.next()?;
        let last = edges.next_back().unwrap_or(first);
        let runs = output
            .lines()
            .find_map(|line| number_after(line, "stat::number_of_executed_units: "))?;
        Some(Coverage { first, last, runs })
    }
}

fn number_after(line: &str, label: &str) -> Option<u64> {
    let (_, rest) = line.split_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

fn how_to_reproduce(program: &Path, output: &str) -> String {
    match output.lines().find_map(|line| line.split_once("Test unit written to ")) {
        Some((_, artefact)) => format!(
            "the input is kept in {artefact}\nreproduce: {} {artefact}\n",
            program.display()
        ),
        None => "no input was kept\n".to_owned(),
    }
}

fn target_folder(folder: &Path) -> Result<PathBuf> {
    let root = folder.parent().context("the fuzz folder is in the root")?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |target| root.join(target));
    Ok(target.join("fuzz"))
}

fn host_triple() -> Result<String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let version = finish(rustc)?.output;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_read_from_the_first_and_the_last_line() {
        let output = "#2\tINITED cov: 83 ft: 84 corp: 1/1b\n#9\tNEW    cov: 90 ft: 99\n\
                      #5000\tDONE   cov: 412 ft: 900\nstat::number_of_executed_units: 5000\n";
        let expected = Coverage { first: 83, last: 412, runs: 5000 };
        assert_eq!(Coverage::read(output), Some(expected));
    }

    #[test]
    fn run_without_coverage_is_detected() {
        assert_eq!(Coverage::read("#2\tINITED exec/s: 0\nstat::number_of_executed_units: 2"), None);
    }

    #[test]
    fn failure_names_the_input_and_how_to_reproduce_it() {
        let output = "x\nartifact_prefix='a/'; Test unit written to a/crash-1\n";
        let text = how_to_reproduce(Path::new("fuzzer"), output);
        assert_eq!(text, "the input is kept in a/crash-1\nreproduce: fuzzer a/crash-1\n");
    }
}
