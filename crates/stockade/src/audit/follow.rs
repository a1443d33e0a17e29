//! `stockade audit follow`.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use stockade_record::Reader;

use crate::Problem;
use crate::render::{self, Output};

use super::{find, text, unreadable};

/// How often to check that the writer is alive: inotify may not report its death.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

pub(super) fn run(
    session: Option<&str>,
    named: Option<&Path>,
    output: Output,
) -> anyhow::Result<u8> {
    let path = find(session, named)?;
    let changes = watch(&path).map_err(|error| {
        let message = format!("cannot wait for changes of {}: {error}", path.display());
        Problem::new(message, "see fs.inotify.max_user_instances, or use `stockade audit show`")
    });
    let mut reader = Reader::open(&path).map_err(|error| unreadable(&error))?;
    let changes = changes?;
    loop {
        // Checked before reading: if the writer is dead here, the loop below reads all it wrote.
        let is_live = reader.is_live();
        while let Some(event) = reader.next().map_err(|error| unreadable(&error))? {
            match output {
                Output::Json => render::json_line(&event)?,
                Output::Text => render::text(&text::event(&event))?,
            }
        }
        if reader.is_complete() {
            return Ok(0);
        }
        if !is_live {
            render::talk("the session has no end: Stockade was killed");
            return Ok(0);
        }
        wait(&changes)?;
    }
}

fn watch(path: &Path) -> Result<OwnedFd, Errno> {
    let changes = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let wanted = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&changes, path, wanted)?;
    Ok(changes)
}

/// Waits for a change and discards all pending inotify events.
fn wait(changes: &OwnedFd) -> anyhow::Result<()> {
    match poll(&mut [PollFd::new(changes, PollFlags::IN)], Some(&LOOK)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(std::io::Error::from(error).into()),
    }
    let mut seen = [0; 4096];
    while rustix::io::read(changes, &mut seen).is_ok_and(|read| read > 0) {}
    Ok(())
}
