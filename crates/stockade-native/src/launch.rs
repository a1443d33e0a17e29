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
use crate::launcher::{Launcher, Starting};
use crate::processor::{Aside, Beside, aside, start_beside};

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

/// The sockets of a launcher that is not started yet.
struct Sockets {
    control: UnixStream,
    stream: UnixStream,
    launchers_end: UnixStream,
    guests_end: UnixStream,
}

impl Sockets {
    fn make() -> Result<Sockets, StartError> {
        let prepare = || StartError::prepare("make the sockets of a sandbox");
        let (control, launchers_end) = UnixStream::pair().map_err(prepare())?;
        let (stream, guests_end) = UnixStream::pair().map_err(prepare())?;
        Ok(Sockets { control, stream, launchers_end, guests_end })
    }

    /// Starts the launcher, with nothing of this process but two sockets.
    fn start(self) -> Result<Waiting, StartError> {
        let Sockets { control, stream, launchers_end, guests_end } = self;
        let program = stockade_carrier::guest_file()?;
        let Beside { child, processors } =
            start_beside(|| start(&program, launchers_end, guests_end))?;
        let launcher = Starting::done(Launcher::new(child));
        Ok(Waiting { control, stream, launcher, processors })
    }

    /// The same by a thread of its own.
    fn start_aside(self) -> Result<Waiting, StartError> {
        let Sockets { control, stream, launchers_end, guests_end } = self;
        let work = move || -> Result<Launcher, StartError> {
            let program = stockade_carrier::guest_file()?;
            start(&program, launchers_end, guests_end).map(Launcher::new)
        };
        let Aside { thread, processors } = aside("stockade-launch", work)
            .map_err(StartError::prepare("start a thread for the launcher"))?;
        Ok(Waiting { control, stream, launcher: Starting::aside(thread), processors })
    }
}

/// A launcher that waits for its plan. Dropping it ends it.
pub(crate) struct Waiting {
    control: UnixStream,
    stream: UnixStream,
    launcher: Starting,
    /// What it may run on when it is done, where that is less for now.
    processors: Option<Vec<u32>>,
}

impl Waiting {
    /// Lets a launcher be started while this thread goes on.
    pub(crate) fn start_aside() -> Result<Waiting, StartError> {
        Sockets::make()?.start_aside()
    }

    /// Lets the first process be born. `kept` is held by the launcher as long as the sandbox lives.
    pub(crate) fn begin(
        mut self,
        beginning: &Beginning,
        kept: &[BorrowedFd<'_>],
    ) -> Result<Begun, StartError> {
        match say(&mut self.control, beginning, kept) {
            Ok(()) => Ok(Begun(self)),
            // Nobody listens where none could be started, and that is what is told.
            Err(error) => self.launcher.wait().and(Err(error)),
        }
    }
}

fn say(
    control: &mut UnixStream,
    beginning: &Beginning,
    kept: &[BorrowedFd<'_>],
) -> Result<(), StartError> {
    stockade_launcher::send(control, beginning, kept)
        .map_err(StartError::prepare("hand the plan to the launcher"))
}

/// A sandbox whose first process waits for its steps. Dropping it ends it.
pub(crate) struct Begun(Waiting);

impl Begun {
    /// Starts a launcher which finds its words when it looks for them: one that waits is woken on the
    /// processor of whoever says something, and goes on when that one pauses.
    pub(crate) fn start(
        beginning: &Beginning,
        kept: &[BorrowedFd<'_>],
    ) -> Result<Begun, StartError> {
        let mut sockets = Sockets::make()?;
        say(&mut sockets.control, beginning, kept)?;
        sockets.start().map(Begun)
    }

    /// What everything inside may run on, where the first process may run on less for now.
    pub(crate) fn processors(&self) -> Option<Vec<u32>> {
        self.0.processors.clone()
    }

    /// Hands over steps, which are carried out at once.
    pub(crate) fn hand_over(
        &mut self,
        steps: &[Step],
        beside: &[BorrowedFd<'_>],
    ) -> Result<(), StartError> {
        match stockade_launcher::send(&mut self.0.control, &steps, beside) {
            // A launcher that has refused its own part listens no more; its report is there to read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(StartError::prepare("hand the plan to the launcher")),
        }
    }

    /// Lets the wall be finished, by steps that were handed over. The guest is greeted while that
    /// happens; what it opens goes to the gateway.
    pub(crate) fn build(self, gateway: Option<Arc<dyn Gateway>>) -> Result<Building, StartError> {
        let Waiting { control, stream, launcher, .. } = self.0;
        let launcher = launcher.wait()?;
        // From here on a failure leaves a launcher, which ends when its control socket does.
        let control =
            Control::open(control).map_err(StartError::prepare("listen to the launcher"))?;
        let link = Link::open(stream, gateway)?;
        Ok(Building { control: Arc::new(control), link, launcher })
    }
}

/// A wall that is being built. Dropping it ends it.
pub(crate) struct Building {
    control: Arc<Control>,
    link: Link,
    launcher: Launcher,
}

impl Building {
    /// Hands a program over, which is started when the wall stands. If it never does, that is the
    /// error to tell, and not this one.
    pub(crate) async fn start(&mut self, command: Command) -> Result<Running, Error> {
        self.link.execute(command).await
    }

    /// Waits until the wall stands.
    pub(crate) async fn finish(self) -> Result<Standing, StartError> {
        let Building { control, link, launcher } = self;
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
