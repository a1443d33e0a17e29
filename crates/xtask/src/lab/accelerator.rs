//! Whether KVM can run the lab. An openable `/dev/kvm` is not enough, so a trial machine boots once
//! and the result is cached with the image.

use std::fs::{self, File};
use std::io;
use std::time::Duration;

use anyhow::Result;

use super::image::Image;
use super::job::Job;
use super::machine::{Accelerator, Output, Size, boot};

/// The limits of the trial; with a working KVM it takes a second.
const TRIAL: Size =
    Size { memory_mib: 512, cpus: 1, timeout: Duration::from_secs(20), nested: false };

/// The fastest accelerator that works here. A nested machine is always translated: whether the
/// host's KVM lets its machines use KVM is the host's setting.
pub(crate) fn choose(image: &Image, size: Size) -> Result<Accelerator> {
    if size.nested {
        return Ok(Accelerator::Tcg);
    }
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return Ok(Accelerator::Tcg);
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let answer = image.sibling(&format!("kvm-{}", kernel.trim()));
    let works = match fs::read_to_string(&answer) {
        Ok(answer) => answer == "works\n",
        Err(_) => {
            let works = trial(image)?;
            fs::write(answer, if works { "works\n" } else { "fails\n" })?;
            works
        }
    };
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

fn trial(image: &Image) -> Result<bool> {
    let (parcel, mark) = Job::of(&["true"]).pack()?;
    let output = Output { stdout: &mut io::sink(), stderr: &mut io::sink() };
    Ok(boot(image, Accelerator::Kvm, TRIAL, &parcel, &mark, output).is_ok_and(|code| code == 0))
}
