//! Starts a sandbox of the native or the reduced wall.
//!
//! ```text
//! launcher started ── Inputs, plan ──▶ Prepared ── plan sent ──▶ Wall ── watched ──▶ NativeSandbox
//!        └── nothing to send          └── a step is refused, or dropped: the launcher releases everything
//! ```
//! The launcher starts and waits. A provider plans everything and allocates all resources; none of
//! it runs. Then the launcher receives the plan as one message, and the sandbox exists when the
//! guest is ready inside the finished wall.

mod control;
mod deadline;
mod group;
mod launcher;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::process::Pid;
use stockade_carrier::{Link, LinkSettings, Liveness};
use stockade_hostfiles::ProgramFilters;
use stockade_launcher::{Plan, Report};
use stockade_policy::Policy;
use stockade_provider::Gateway;

use crate::error::StartError;
use crate::facts_cache::{blocking, in_turn, release};
use crate::filters::for_link;
use crate::leaves::Leaves;
use crate::programs::Listed;
use crate::reduced::ScratchDirectory;
use crate::sandbox::NativeSandbox;
use stockade_cgroup::Group;
use stockade_image::Denials;
use stockade_interpreters::ProgramSetup;

pub(crate) use control::LauncherSocket;
pub(crate) use deadline::{Deadline, Held};
pub(crate) use group::{Grouped, make_group};
pub use launcher::HostProcess;
pub(crate) use launcher::Launcher;

/// A planned sandbox with its resources allocated. Dropping it releases them.
pub(crate) struct Prepared {
    /// The encoded plan. It is encoded before, because that takes too long for a thread of the
    /// runtime.
    pub(crate) plan: Vec<u8>,
    /// The descriptors that are sent with the plan, by SCM_RIGHTS.
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) gateway: Option<Arc<dyn Gateway>>,
    /// The denied commands that stubs report, if the root is the hardened image.
    pub(crate) denials: Option<Arc<Denials>>,
    /// The maximum number of concurrent executions.
    pub(crate) executions: usize,
    /// Set if the policy has a `command_allowlist`.
    pub(crate) listed: Option<Listed>,
    pub(crate) group: Option<Group>,
    /// The leaves of executions, if there is a group.
    pub(crate) leaves: Option<Arc<Leaves>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) setup: Arc<ProgramSetup>,
    /// The seccomp profiles of the policy, for programs.
    pub(crate) filters: ProgramFilters,
    /// The host directory for everything that programs write, if there is no tmpfs.
    pub(crate) scratch: Option<ScratchDirectory>,
    /// Whether a cgroup enforces the memory limit, and the CPU limit.
    pub(crate) memory_held: bool,
    pub(crate) cpu_held: bool,
    /// Whether the kernel enforces the process limit.
    pub(crate) pids_held: bool,
    /// Whether the sandbox has its own `/dev/pts`.
    pub(crate) has_terminals: bool,
    /// Whether it has a network namespace of its own.
    pub(crate) has_loopback: bool,
    pub(crate) user: HostProcess,
}

/// A finished wall that contains only the guest.
pub(crate) struct Wall {
    pub(crate) control: Arc<LauncherSocket>,
    /// The stream to the guest, after the handshake.
    pub(crate) link: Link,
    /// The launcher; it ends after everything else.
    pub(crate) launcher: Launcher,
    /// The first process inside.
    pub(crate) process: Pid,
    pub(crate) handle: OwnedFd,
    /// The root of the scratch space, for measurements.
    pub(crate) scratch: Option<OwnedFd>,
    /// The listener for seccomp notifications of starts.
    pub(crate) programs: Option<OwnedFd>,
    /// Ends everything even if this process is stopped.
    pub(crate) deadline: Arc<Deadline>,
}

/// The default maximum of concurrent executions in one sandbox.
pub(crate) const EXECUTIONS: usize = 64;

impl Drop for Prepared {
    fn drop(&mut self) {
        // Removing a cgroup can take seconds. A finished sandbox has already taken both.
        if self.group.is_some() || self.scratch.is_some() {
            release((self.group.take(), self.scratch.take()), self.user);
        }
    }
}

/// Encodes a plan for the launcher.
pub(crate) fn encoded(plan: &Plan) -> Result<Vec<u8>, StartError> {
    stockade_launcher::encode(plan).map_err(StartError::prepare("write the plan for the launcher"))
}

/// Prepares a sandbox, starts it and waits until its wall is finished.
pub(crate) async fn start<F>(prepare: F) -> Result<NativeSandbox, StartError>
where
    F: FnOnce() -> Result<Prepared, StartError> + Send + 'static,
{
    let launch = || {
        let sockets = || StartError::prepare("make the sockets of a sandbox");
        let (control, launchers_end) = UnixStream::pair().map_err(sockets())?;
        let (stream, guests_end) = UnixStream::pair().map_err(sockets())?;
        // Its executable is loaded while this thread prepares. Without a plan it does nothing, and
        // it ends when the control socket closes.
        let launcher = Launcher::start(launchers_end, guests_end)?;
        let prepared = prepare()?;
        Ok::<_, StartError>((prepared, launcher, control, stream))
    };
    let (mut prepared, launcher, control, stream) = in_turn(launch).await?;
    // The first leaf, while the launcher builds the wall.
    let leaves = prepared.leaves.clone();
    let first = tokio::task::spawn_blocking(move || leaves.map(|leaves| leaves.make_ahead(1)));
    let wall = build(&prepared, launcher, control, stream).await?;
    // An error is repeated, and returned, when a program needs the leaf.
    let _ = first.await;
    // Only now: if the start fails or is dropped earlier, this process removes both.
    if let Some(scratch) = &mut prepared.scratch {
        scratch.disown();
    }
    if let Some(group) = &mut prepared.group {
        group.disown();
    }
    NativeSandbox::new(wall, prepared)
}

async fn build(
    prepared: &Prepared,
    launcher: Launcher,
    control: UnixStream,
    stream: UnixStream,
) -> Result<Wall, StartError> {
    // From here on a failure leaves a launcher behind, which ends when its control socket closes.
    let control =
        LauncherSocket::open(control).map_err(StartError::prepare("listen to the launcher"))?;
    let control = Arc::new(control);
    // The kernel closes the socket when either process ends, so no heartbeats are needed: a
    // Stockade that is stopped for a while keeps its sandboxes.
    let settings =
        LinkSettings { executions: prepared.executions, liveness: Liveness::EndOfStream };
    let link = Link::open_socket(stream, prepared.gateway.clone(), settings)?
        .with_filters(for_link(&prepared.filters.programs));
    let deadline = Deadline::new(&prepared.policy);
    let deadline = Arc::new(deadline.map_err(StartError::prepare("make a timer"))?);
    let descriptors = prepared.descriptors.iter().map(AsFd::as_fd).chain([deadline.timer()]);
    let descriptors: Vec<_> = descriptors.collect();
    match control.send(&prepared.plan, &descriptors).await {
        // A launcher that has refused the plan stops receiving; its report can still be read.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent.map_err(StartError::prepare("send the plan to the launcher"))?,
    }
    match follow(&control).await {
        Ok(((process, handle), (scratch, programs))) => {
            Ok(Wall { control, link, launcher, process, handle, scratch, programs, deadline })
        }
        Err(error) => {
            // Returns the refusal even if the cleanup fails; dropping the group removes what
            // remains.
            if control.ended().await.is_ok() {
                let _ = blocking(move || launcher.wait()).await;
            }
            Err(error)
        }
    }
}

type Born = (Pid, OwnedFd);
type Ready = (Option<OwnedFd>, Option<OwnedFd>);

/// Receives the reports of the launcher and of the first process, in any order.
async fn follow(control: &LauncherSocket) -> Result<(Born, Ready), StartError> {
    let (mut born, mut ready) = (None, None);
    loop {
        let report = control.report().await;
        match report.map_err(StartError::prepare("receive the launcher's report"))? {
            None => return Err(StartError::Silent),
            Some((Report::Born { process }, descriptors)) => {
                let handle = descriptors.into_iter().next().ok_or(StartError::Silent)?;
                born = Some((Pid::from_raw(process).ok_or(StartError::Silent)?, handle));
            }
            Some((Report::Ready { scratch, programs }, descriptors)) => {
                let mut descriptors = descriptors.into_iter();
                let mut next = |is_there: bool| match is_there {
                    true => descriptors.next().map(Some).ok_or(StartError::Silent),
                    false => Ok(None),
                };
                ready = Some((next(scratch)?, next(programs)?));
            }
            Some((Report::Refused(refusal), _)) => return Err(StartError::Refused(refusal)),
            // The first process ended before it was ready; it would have sent a refusal first.
            Some((Report::Ended(ending), _)) => return Err(StartError::Died { ending }),
        }
        match (born, ready) {
            (Some(born), Some(ready)) => return Ok((born, ready)),
            received => (born, ready) = received,
        }
    }
}
