//! The micro-VM wall, in a nested machine of the lab, which has a real `/dev/kvm`.
//!
//! That programs ran in a virtual machine is shown by the kernel's own count of exits from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cargo::{count_tests, failed_tests};
use super::{python, wasm};
use crate::component::{self, ComponentOptions};
use crate::lab::{self, Job, Kernel, Size};
use crate::program::{cargo, executable, finish};
use crate::scratch::Scratch;
use crate::suite::Outcome;
use crate::{cache, hyperlight};

const SIZE: Size =
    Size { memory_mib: 4096, cpus: 2, timeout: Duration::from_secs(1500), nested: true };

/// The cache of the machine's user, with the worker, the component and what is compiled of it.
const CACHE: &str = "/root/.cache/stockade";
const STOCKADE: &str = "/usr/local/bin/stockade";
const TESTS: &str = "/srv/tests/wasm";
/// The tests of the Python package, in the tree.
const PYTHON_TESTS: &str = "crates/stockade-python/tests";

/// Prepares the machine's user and prints the exits of virtual machines at the end.
const SMOKE: &str = include_str!("hyperlight/smoke.sh");
const WHOLE: &str = include_str!("hyperlight/whole.sh");

/// Before the times of a machine, as the doctor prints them.
const MEASURED: &str = "measured now: ";
/// What shows in the output that a virtual machine ran.
const EXITS: &str = "kvm exits: ";

/// The suite `hyperlight-smoke`: one program, and one that does not end.
pub(crate) fn smoke(root: &Path) -> Result<Outcome> {
    run(root, SMOKE, &[], |output| {
        ensure!(output.contains("hello from the micro-VM"), "no greeting\n{output}");
        ensure!(output.contains("\"outcome\": \"timed_out\""), "no timeout\n{output}");
        Ok("a program and an endless loop in a micro-VM".to_owned())
    })
}

/// The suite `hyperlight`: every test that the WebAssembly wall has, and those of the Python
/// package, in micro-VMs; the latter also on this host with the wall that stands in, and those of the
/// WebAssembly wall.
pub(crate) fn whole(root: &Path) -> Result<Outcome> {
    let scratch = Scratch::new("hyperlight-python")?;
    let site = match python::site(root, scratch.path())? {
        Ok(site) => site,
        Err(reason) => return Ok(Outcome::skipped(reason)),
    };
    let tests = root.join(PYTHON_TESTS);
    let mut stand_in = Command::new("python3");
    stand_in.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    stand_in.args(["test_hyperlight.py", "test_wasm.py"].map(|name| tests.join(name)));
    stand_in.current_dir(scratch.path()).env("AGENT_README", site.join(python::README));
    stand_in.env("PYTHONPATH", &site).env("STOCKADE_HYPERLIGHT_WALL", "wasm");
    let stood_in = finish(stand_in)?;
    // A wall that cannot be used skips its tests.
    let ran = stood_in.output.contains(" passed") && !stood_in.output.contains(" skipped");
    if !stood_in.success || !ran {
        return Ok(Outcome::failed(format!("with the wall that stands in: {}", stood_in.output)));
    }
    let more = [(site, "/srv/python/site".to_owned()), (tests, "/srv/python/tests".to_owned())];
    run(root, WHOLE, &more, |output| {
        let passed = count_tests(output).passed;
        ensure!(passed > 0 && output.contains("python: passed"), "no test ran at all\n{output}");
        let times = output.lines().find_map(|line| line.trim().strip_prefix(MEASURED));
        let times = times.context("the doctor measured no machine")?;
        Ok(format!("{passed} tests and those of the Python package in micro-VMs; {times}"))
    })
}

fn run(
    root: &Path,
    script: &str,
    more: &[(PathBuf, String)],
    judge: impl Fn(&str) -> Result<String>,
) -> Result<Outcome> {
    if let Some(missing) = hyperlight::missing().or_else(lab::missing_programs) {
        return Ok(Outcome::skipped(missing));
    }
    let scratch = Scratch::new("hyperlight")?;
    let mut files = files(root, scratch.path())?;
    files.extend_from_slice(more);
    let job = Job {
        environment: vec![
            format!("STOCKADE_UNDER_TEST={STOCKADE}"),
            "STOCKADE_EXAMPLES=/srv/lab/examples".to_owned(),
            "STOCKADE_COMPONENT_WALL=hyperlight".to_owned(),
        ],
        files,
        ..Job::of(&["sh", "-c", script])
    };
    let (code, output) = lab::capture(Kernel::Stable, &job, SIZE)?;
    if code != 0 {
        return Ok(Outcome::failed(format!("{}\n{output}", failed_tests(&output))));
    }
    let note = judge(&output)?;
    let exits = exits(&output).context("the kernel counted no exits of virtual machines")?;
    ensure!(exits > 0, "no virtual machine ran\n{output}");
    Ok(Outcome::passed(format!("{note}; {exits} KVM exits")))
}

/// How many exits the kernel counted.
fn exits(output: &str) -> Option<u64> {
    let line = output.lines().rev().find_map(|line| line.trim().strip_prefix(EXITS))?;
    line.trim().parse().ok()
}

/// The command line and the tests with the wall, its worker, and what the first use would compile,
/// which takes a translated processor many minutes.
fn files(root: &Path, scratch: &Path) -> Result<Vec<(PathBuf, String)>> {
    let worker = hyperlight::build(root)?;
    let component = component::build(root, &ComponentOptions::python())?;
    let mut build = cargo(root);
    build.args(["test", "--quiet", "--locked", "--no-run", "--message-format=json"]);
    build.args(wasm::TESTS);
    let built = finish(build)?;
    ensure!(built.success, "the tests do not build\n{}", built.output);
    let stockade = executable(&built.output, "stockade")?;
    let image = image(&worker, &component, scratch)?;
    let name = |path: &Path| -> Result<String> {
        let name = path.file_name().context("a file has a name")?;
        Ok(name.to_string_lossy().into_owned())
    };
    let compiled = format!("{CACHE}/wasm/compiled/{}", name(&image)?);
    Ok(vec![
        (stripped(&stockade, scratch)?, STOCKADE.to_owned()),
        (stripped(&executable(&built.output, "wasm")?, scratch)?, TESTS.to_owned()),
        (root.join("examples"), "/srv/lab/examples".to_owned()),
        (worker, format!("{CACHE}/hyperlight/worker")),
        (component.clone(), format!("{CACHE}/wasm/{}", name(&component)?)),
        (image, compiled),
    ])
}

/// A copy without the tables that debuggers read: the machine unpacks it slowly.
fn stripped(executable: &Path, scratch: &Path) -> Result<PathBuf> {
    let name = executable.file_name().context("a file has a name")?;
    let copy = scratch.join(name);
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&copy).arg(executable);
    ensure!(finish(strip)?.success, "cannot strip {}", executable.display());
    Ok(copy)
}

/// The component compiled for the worker, as the wall itself keeps it.
fn image(worker: &Path, component: &Path, scratch: &Path) -> Result<PathBuf> {
    let folder = cache::folder()?.join("hyperlight");
    let (of_worker, of_component) = (component::digest(worker)?, component::digest(component)?);
    let prefix = format!("python-{}-hyperlight-{}-", &of_component[..16], &of_worker[..16]);
    let kept = fs::read_dir(&folder)?.flatten().map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let made = scratch.join("image");
    let mut compile = Command::new(worker);
    compile.arg("compile").arg(component).arg(&made);
    let finished = finish(compile)?;
    ensure!(finished.success, "cannot compile the component: {}", finished.output);
    let name = format!("{prefix}{}.cwasm", component::digest(&made)?);
    let place = folder.join(&name);
    let aside = folder.join(format!(".{name}-{}", std::process::id()));
    fs::copy(&made, &aside)?;
    fs::rename(&aside, &place)?;
    Ok(place)
}
