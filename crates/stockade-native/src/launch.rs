//! Starting the launcher, and following it until the wall stands.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;
use stockade_launcher::{Plan, Report};

use crate::control::Control;
use crate::error::StartError;

/// A finished wall with nothing in it but the guest.
pub(crate) struct Standing {
    pub(crate) control: Control,
    /// The stream to the guest.
    pub(crate) stream: UnixStream,
    /// The launcher; it ends after everything else.
    pub(crate) launcher: Child,
    /// The first process inside.
    pub(crate) first: First,
    /// The top of the scratch space.
    pub(crate) scratch: Option<OwnedFd>,
}

/// The first process inside, as the host sees it.
pub(crate) struct First {
    pub(crate) process: Pid,
    pub(crate) handle: OwnedFd,
}

/// Builds a wall. `kept` is held by the launcher as long as the sandbox lives.
pub(crate) async fn launch(plan: &Plan, kept: &[BorrowedFd<'_>]) -> Result<Standing, StartError> {
    let prepare = || StartError::prepare("make the sockets of a sandbox");
    let (control, launchers_end) = UnixStream::pair().map_err(prepare())?;
    let (stream, guests_end) = UnixStream::pair().map_err(prepare())?;
    let mut launcher = start(launchers_end, guests_end)?;
    let control = Control::open(control, plan, kept);
    // From here on a failure leaves a launcher, which ends when its control socket does.
    let followed = match control {
        Ok(control) => follow(control).await,
        Err(source) => Err(StartError::Prepare { what: "hand the plan to the launcher", source }),
    };
    match followed {
        Ok((control, first, scratch)) => Ok(Standing { control, stream, launcher, first, scratch }),
        Err(error) => {
            let _ = launcher.wait();
            Err(error)
        }
    }
}

fn start(control: UnixStream, stream: UnixStream) -> Result<Child, StartError> {
    let file = stockade_carrier::guest_file()?;
    // In the child `/proc/self` is the child, which still has the descriptor: it closes on exec,
    // after the kernel has opened the file behind it.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Command::new(path)
        // What is seen of it from inside says nothing of the host.
        .arg0("stockade-guest")
        .arg("launch")
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(control))
        .stdout(OwnedFd::from(stream))
        .stderr(Stdio::null())
        .spawn()
        .map_err(StartError::prepare("start the launcher"))
}

type Followed = (Control, First, Option<OwnedFd>);

async fn follow(mut control: Control) -> Result<Followed, StartError> {
    // The launcher reports the birth and the first process that it is ready, in either order: the
    // launcher may have to wait for a processor all the while.
    let (mut first, mut ready) = (None, None);
    let lost = |source: io::Error| StartError::Prepare { what: "hear from the launcher", source };
    loop {
        match control.report().await.map_err(lost)? {
            None => return Err(StartError::Silent),
            Some((Report::Born { process }, beside)) => {
                let process = Pid::from_raw(process);
                let born = process.zip(beside.into_iter().next()).ok_or(StartError::Silent)?;
                first = Some(born);
            }
            Some((Report::Ready, beside)) => ready = Some(beside.into_iter().next()),
            Some((Report::Refused(refusal), _)) => return Err(StartError::Refused(refusal)),
            // The first process ended before it was ready; a refusal, if there is one, came before.
            Some((Report::Ended(_), _)) => return Err(StartError::Silent),
        }
        match (first.take(), ready.take()) {
            (Some((process, handle)), Some(scratch)) => {
                return Ok((control, First { process, handle }, scratch));
            }
            waiting => (first, ready) = waiting,
        }
    }
}
