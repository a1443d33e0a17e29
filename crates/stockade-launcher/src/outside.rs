//! The launcher itself: reads a plan, enters cgroups, clones, and writes the maps of ids.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::process::Pid;
use stockade_sys::{Cloned, Namespaces, Parent, clone_process};

use crate::inside;
use crate::plan::{Birth, IdMap, OutsideStep, Plan};
use crate::report::{self, Phase, Refusal, Report};

/// Reads a plan from the control stream and carries it out.
///
/// Returns in the launcher once the first process inside was born or could not be; in that first
/// process it returns only when a step failed. Either way the stream has said what happened, and
/// the caller ends with the returned code.
pub fn launch(stream: &mut File) -> u8 {
    let plan: Plan = match report::read(stream) {
        Ok(Some(plan)) => plan,
        // Nobody is there to be told.
        Ok(None) => return 1,
        Err(error) => return refuse(stream, Phase::Outside, 0, "plan", "", &error),
    };
    for (index, step) in plan.outside.iter().enumerate() {
        let OutsideStep::EnterCgroup { file } = step;
        if let Err(error) = write_once(file, "0") {
            let target = file.display().to_string();
            return refuse(stream, Phase::Outside, index, "enter_cgroup", &target, &error);
        }
    }
    match bear(&plan.birth) {
        Ok(Side::Launcher(process)) => {
            // If the host is gone, the process inside ends by itself when it sees that.
            let told = Report::Born { process: process.as_raw_nonzero().get() }.write(stream);
            u8::from(told.is_err())
        }
        Ok(Side::Inside) => inside::carry_out(&plan.inside, stream),
        Err((step, error)) => refuse(stream, Phase::Birth, 0, step, "", &error),
    }
}

/// Which process goes on.
enum Side {
    Launcher(Pid),
    Inside,
}

type BirthError = (&'static str, io::Error);

/// Clones, and lets the child go on only when its ids are mapped.
fn bear(birth: &Birth) -> Result<Side, BirthError> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| ("clone", error.into()))?;
    let cgroup = match &birth.cgroup {
        Some(path) => Some(File::open(path).map_err(|error| ("clone", error))?),
        None => None,
    };
    let directory = cgroup.as_ref().map(|directory| directory.as_fd());
    let cloned = clone_process(Namespaces::ALL, Parent::CallersParent, directory);
    match cloned.map_err(|error| ("clone", error))? {
        Cloned::Child => {
            drop(theirs);
            wait_for_maps(ours).map_err(|error| ("maps", error))?;
            Ok(Side::Inside)
        }
        Cloned::Original { child, handle } => {
            drop(ours);
            match write_maps(child, birth).and_then(|()| File::from(theirs).write_all(b"m")) {
                Ok(()) => Ok(Side::Launcher(child)),
                Err(error) => {
                    // It waits for maps that will not come; nothing was executed yet.
                    let _ =
                        rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::KILL);
                    Err(("maps", error))
                }
            }
        }
    }
}

fn wait_for_maps(pipe: OwnedFd) -> io::Result<()> {
    let mut byte = [0];
    File::from(pipe).read_exact(&mut byte)
}

fn write_maps(child: Pid, birth: &Birth) -> io::Result<()> {
    let process = format!("/proc/{}", child.as_raw_nonzero());
    let process = Path::new(&process);
    // An unprivileged caller may map its own group only after giving up setgroups(2) inside.
    if !rustix::process::geteuid().is_root() {
        write_once(&process.join("setgroups"), "deny")?;
    }
    write_once(&process.join("gid_map"), &line(birth.groups))?;
    write_once(&process.join("uid_map"), &line(birth.users))
}

fn line(map: IdMap) -> String {
    format!("{} {} {}\n", map.inside, map.outside, map.count)
}

/// Writes a file of the kernel in one call, as those files want it.
fn write_once(file: &Path, text: &str) -> io::Result<()> {
    let mut open = OpenOptions::new().write(true).open(file)?;
    match open.write(text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Tells the host and gives the code to end with.
pub(crate) fn refuse(
    stream: &mut impl Write,
    phase: Phase,
    index: usize,
    step: &str,
    target: &str,
    error: &io::Error,
) -> u8 {
    let refusal = Refusal {
        phase,
        index,
        step: step.to_owned(),
        target: target.to_owned(),
        errno: error.raw_os_error(),
        reason: error.to_string(),
    };
    // A host that is gone cannot be told; ending is all that is left, and it is done.
    let _ = Report::Refused(refusal).write(stream);
    1
}
