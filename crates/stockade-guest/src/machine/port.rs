//! The stream to the host: a virtio-serial port.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stockade_wire::MACHINE_PORT;

use super::cannot;

/// How long the host's side of the devices may take to appear.
const MOST: Duration = Duration::from_secs(20);
/// How often to look: the kernel reports neither the name of a port nor its host by an event that
/// can be awaited before the port is open.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Opens the port and waits until the host has opened its side; before that a read returns the end
/// of the stream.
pub(super) fn open() -> io::Result<OwnedFd> {
    let deadline = Instant::now() + MOST;
    let opened = || {
        let device = loop {
            match find()? {
                Some(device) => break device,
                None => pause(deadline)?,
            }
        };
        let port = File::options().read(true).write(true).open(device)?;
        loop {
            let mut watched = [PollFd::new(&port, PollFlags::OUT)];
            poll(&mut watched, Some(&LOOK))?;
            if !watched[0].revents().contains(PollFlags::HUP) {
                break;
            }
            pause(deadline)?;
        }
        Ok(OwnedFd::from(port))
    };
    opened().map_err(cannot("open the port to the host"))
}

/// The device of the port with the host's name.
fn find() -> io::Result<Option<PathBuf>> {
    let ports = match fs::read_dir("/sys/class/virtio-ports") {
        Ok(ports) => ports,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for port in ports {
        let port = port?;
        // The name comes a moment after the port.
        let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
        if name.trim() == MACHINE_PORT {
            return Ok(Some(PathBuf::from("/dev").join(port.file_name())));
        }
    }
    Ok(None)
}

fn pause(deadline: Instant) -> io::Result<()> {
    if Instant::now() > deadline {
        return Err(io::ErrorKind::TimedOut.into());
    }
    poll(&mut [], Some(&LOOK))?;
    Ok(())
}
