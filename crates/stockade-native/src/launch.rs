//! Starting the launcher, and following it until the wall stands.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;

use rustix::process::Pid;
use stockade_carrier::{Command, Link};
use stockade_launcher::{Beginning, Report, Step};
use stockade_provider::{Error, Gateway, Running};

use crate::control::Control;
use crate::error::StartError;
use crate::launcher::{Launcher, Started, Starting};
use crate::processor::aside;

/// A finished wall with nothing in it but the guest.
pub(crate) struct Standing {
    pub(crate) control: Arc<Control>,
    /// The stream to the guest, which has been greeted.
    pub(crate) link: Link,
    /// The launcher; it ends after everything else.
    pub(crate) launcher: Launcher,
    /// The first process inside.
    pub(crate) first: First,
    pub(crate) handed: Handed,
}

/// What the first process inside has handed out, to be watched by.
pub(crate) struct Handed {
    /// The top of the scratch space.
    pub(crate) scratch: Option<OwnedFd>,
    /// Asks before a program is started.
    pub(crate) programs: Option<OwnedFd>,
}

/// The first process inside, as the host sees it.
pub(crate) struct First {
    pub(crate) process: Pid,
    pub(crate) handle: OwnedFd,
}

/// A launcher that waits for its plan, or is about to. Dropping it ends it.
pub(crate) struct Waiting {
    control: UnixStream,
    stream: UnixStream,
    launcher: Starting,
}

impl Waiting {
    /// Lets a launcher be started while this thread goes on.
    pub(crate) fn start() -> Result<Waiting, StartError> {
        let prepare = || StartError::prepare("make the sockets of a sandbox");
        let (control, launchers_end) = UnixStream::pair().map_err(prepare())?;
        let (stream, guests_end) = UnixStream::pair().map_err(prepare())?;
        let work = move |processors| {
            let program = stockade_carrier::guest_file()?;
            let launcher = Launcher::new(start(&program, launchers_end, guests_end)?);
            Ok(Started { launcher, processors })
        };
        let thread = aside("stockade-launch", work)
            .map_err(StartError::prepare("start a thread for the launcher"))?;
        Ok(Waiting { control, stream, launcher: Starting::by(thread) })
    }

    /// Lets the first process be born. `kept` is held by the launcher as long as the sandbox lives.
    pub(crate) fn begin(
        mut self,
        beginning: &Beginning,
        kept: &[BorrowedFd<'_>],
    ) -> Result<Begun, StartError> {
        match stockade_launcher::send(&mut self.control, beginning, kept) {
            Ok(()) => Ok(Begun(self)),
            // Nobody listens where none could be started, and that is what is told.
            Err(error) => {
                self.launcher.wait()?;
                Err(StartError::prepare(HAND_OVER)(error))
            }
        }
    }
}

/// What was being done where the launcher could not be told something.
const HAND_OVER: &str = "hand the plan to the launcher";

/// A sandbox whose first process waits for its steps. Dropping it ends it.
pub(crate) struct Begun(Waiting);

impl Begun {
    /// Hands over steps, which are carried out at once: the first process is waiting for them, or
    /// will when it is born.
    pub(crate) fn hand_over(&mut self, steps: &[Step]) -> Result<(), StartError> {
        heard(stockade_launcher::send(&mut self.0.control, &steps, &[]))
    }

    /// Has the rest of the wall built, by steps that are still to be handed over. The guest is
    /// greeted while that happens; what it opens goes to the gateway.
    pub(crate) fn build(self, gateway: Option<Arc<dyn Gateway>>) -> Result<Building, StartError> {
        let Waiting { control, stream, launcher } = self.0;
        let Started { launcher, processors } = launcher.wait()?;
        // From here on a failure leaves a launcher, which ends when its control socket does.
        let control =
            Control::open(control).map_err(StartError::prepare("listen to the launcher"))?;
        let link = Link::open(stream, gateway)?;
        Ok(Building { control: Arc::new(control), link, launcher, processors })
    }

    /// Ends it. Says whether there was a launcher, which then removes what was made.
    pub(crate) fn end(self) -> bool {
        let Waiting { control, stream, launcher } = self.0;
        drop((control, stream));
        launcher.wait().is_ok()
    }
}

/// A launcher or a first process that has refused its own part listens no more; its report is there
/// to read.
fn heard(said: io::Result<()>) -> Result<(), StartError> {
    match said {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(StartError::prepare(HAND_OVER)),
    }
}

/// A wall that is being built. Dropping it ends it.
pub(crate) struct Building {
    control: Arc<Control>,
    link: Link,
    launcher: Launcher,
    processors: Option<Vec<u32>>,
}

impl Building {
    /// What everything inside may run on, where the first process may run on less for now.
    pub(crate) fn processors(&self) -> Option<Vec<u32>> {
        self.processors.clone()
    }

    /// Hands over the rest of the steps, with what they need beside. A first process that is slow
    /// keeps nobody from giving up.
    pub(crate) async fn hand_over(
        &self,
        steps: &[Step],
        beside: &[BorrowedFd<'_>],
    ) -> Result<(), StartError> {
        heard(self.control.say(&steps, beside).await)
    }

    /// Hands a program over, which is started when the wall stands. If it never does, that is the
    /// error to tell, and not this one.
    pub(crate) async fn start(&mut self, command: Command) -> Result<Running, Error> {
        self.link.execute(command).await
    }

    /// Waits until the wall stands.
    pub(crate) async fn finish(self) -> Result<Standing, StartError> {
        let Building { control, link, launcher, .. } = self;
        match follow(&control).await {
            Ok((first, handed)) => Ok(Standing { control, link, launcher, first, handed }),
            Err(error) => {
                // Refused is refused, however taking down goes; what stays is the group's to remove.
                if control.ended().await.is_ok() {
                    let _ = launcher.wait();
                }
                Err(error)
            }
        }
    }
}

fn start(program: &OwnedFd, control: UnixStream, stream: UnixStream) -> Result<Child, StartError> {
    // In the child `/proc/self` is the child, which still has the descriptor: it closes on exec,
    // after the kernel has opened the file behind it.
    let path = format!("/proc/self/fd/{}", program.as_raw_fd());
    std::process::Command::new(path)
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

/// Hears the launcher and the first process, in whatever order they are heard.
async fn follow(control: &Control) -> Result<(First, Handed), StartError> {
    let (mut first, mut handed) = (None, None);
    let lost = |source: io::Error| StartError::Prepare { what: "hear from the launcher", source };
    loop {
        match control.report().await.map_err(lost)? {
            None => return Err(StartError::Silent),
            Some((Report::Born { process }, beside)) => {
                let handle = beside.into_iter().next().ok_or(StartError::Silent)?;
                let process = Pid::from_raw(process).ok_or(StartError::Silent)?;
                first = Some(First { process, handle });
            }
            Some((Report::Ready { scratch, programs }, beside)) => {
                let mut beside = beside.into_iter();
                let mut next = |is_there: bool| match is_there {
                    true => beside.next().map(Some).ok_or(StartError::Silent),
                    false => Ok(None),
                };
                handed = Some(Handed { scratch: next(scratch)?, programs: next(programs)? });
            }
            Some((Report::Refused(refusal), _)) => return Err(StartError::Refused(refusal)),
            // The first process ended before it was ready; a refusal, if there is one, came before.
            Some((Report::Ended(ending), _)) => return Err(StartError::Died { ending }),
        }
        match (first, handed) {
            (Some(first), Some(handed)) => return Ok((first, handed)),
            heard => (first, handed) = heard,
        }
    }
}
