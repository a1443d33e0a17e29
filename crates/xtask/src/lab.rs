//! The lab: a disposable virtual machine made from Debian packages, with only cgroup v2.

mod accelerator;
mod image;
mod job;
mod machine;
mod offer;
mod options;
mod packages;
mod stream;

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::program::{cargo, finish};
use crate::progress;
use image::Image;
use machine::{Output, boot};

pub(crate) use job::Job;
pub(crate) use machine::Size;
pub(crate) use offer::Kernel;
pub(crate) use options::LabOptions;
pub(crate) use packages::missing_programs;

/// The working directory of commands; it contains the examples.
const PLACE: &str = "/srv/lab";

/// Runs one command in a new machine and passes its output on; returns its exit code.
pub(crate) fn run(root: &Path, options: LabOptions) -> Result<u8> {
    if let Some(missing) = missing_programs() {
        bail!(missing);
    }
    let size = options.size();
    let mut files = ours(root)?;
    files.extend(options.copies);
    let job = Job {
        user: options.user,
        delegate: options.delegate,
        sysctls: options.sysctls,
        environment: Vec::new(),
        files,
        packages: options.packages,
        command: options.command,
    };
    let image = Image::current(options.kernel, &job.packages, progress::note)?;
    let (parcel, mark) = job.pack()?;
    let output = Output { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    boot(&image, accelerator::choose(&image, size)?, size, &parcel, &mark, output)
}

/// Runs a job in a new machine; returns its exit code and output, standard error last.
pub(crate) fn capture(kernel: Kernel, job: &Job, size: Size) -> Result<(u8, String)> {
    let image = Image::current(kernel, &job.packages, progress::note)?;
    let (parcel, mark) = job.pack()?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let output = Output { stdout: &mut stdout, stderr: &mut stderr };
    let code = boot(&image, accelerator::choose(&image, size)?, size, &parcel, &mark, output)?;
    stdout.extend(stderr);
    Ok((code, String::from_utf8_lossy(&stdout).into_owned()))
}

/// The command line as a release build, and the examples.
pub(crate) fn ours(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--locked", "--release", "--package", "stockade"]);
    build.args(["--message-format=json"]);
    let built = finish(build)?;
    ensure!(built.success, "stockade does not build\n{}", built.output);
    let stockade = crate::program::executable(&built.output, "stockade")?;
    Ok(vec![
        (stockade, "/usr/local/bin/stockade".to_owned()),
        (root.join("examples"), format!("{PLACE}/examples")),
    ])
}
