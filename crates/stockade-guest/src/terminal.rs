//! Terminals: the guest's end of a pseudoterminal, see pty(7).

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, ptsname, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, SpecialCodeIndex, Termios, Winsize, tcgetattr, tcsetwinsize,
};
use stockade_wire::WindowSize;

use crate::reactor::{Descriptor, Reactor};

/// Opening it makes a terminal of the sandbox's own devpts, whatever `/dev/ptmx` is.
pub(crate) const MULTIPLEXER: &str = "/dev/pts/ptmx";

/// A special character with this value is disabled, termios(3).
const DISABLED: u8 = 0;

/// The guest's end of a terminal. Dropping it hangs up.
pub(crate) struct Terminal {
    pub(crate) descriptor: Descriptor,
}

impl Terminal {
    /// Opens a terminal. Returns the guest's end and the program's.
    pub(crate) fn open(size: WindowSize, reactor: &Reactor) -> io::Result<(Rc<Terminal>, OwnedFd)> {
        // Without NOCTTY it would become the terminal of the guest, and Ctrl-C its signal.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let ours = rustix::fs::open(MULTIPLEXER, flags, Mode::empty())?;
        unlockpt(&ours)?;
        let theirs = other_end(&ours)?;
        let terminal = Terminal { descriptor: Descriptor::new_nonblocking(ours, reactor) };
        terminal.resize(size)?;
        Ok((Rc::new(terminal), theirs))
    }

    /// Sets the size. If it changes, the kernel sends SIGWINCH to the foreground process group.
    pub(crate) fn resize(&self, size: WindowSize) -> io::Result<()> {
        let WindowSize { columns, rows } = size;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.descriptor, size)?)
    }

    /// The characters that end the input after `last`, the last character of the input so far.
    pub(crate) fn end_of_input(&self, last: Option<u8>) -> Vec<u8> {
        match tcgetattr(&self.descriptor) {
            Ok(settings) => end_of_input(&settings, last),
            // No process uses the terminal.
            Err(_) => Vec::new(),
        }
    }
}

/// The program's end of a terminal.
fn other_end(ours: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    match ioctl_tiocgptpeer(ours, flags) {
        // gVisor lacks the request. No process inside can mount another devpts.
        Err(Errno::NOTTY) => {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(ptsname(ours, Vec::new())?, flags, Mode::empty())
        }
        opened => opened,
    }
}

/// In canonical mode the character only completes a started line; a second one is the end of file.
fn end_of_input(settings: &Termios, last: Option<u8>) -> Vec<u8> {
    let code = |index| settings.special_codes[index];
    let end = code(SpecialCodeIndex::VEOF);
    if end == DISABLED {
        return Vec::new();
    }
    let is_return_a_line_end = settings.input_modes.contains(InputModes::ICRNL);
    let is_line_complete = match last {
        None | Some(b'\n') => true,
        Some(b'\r') => is_return_a_line_end,
        Some(other) => other == end,
    };
    match settings.local_modes.contains(LocalModes::ICANON) && !is_line_complete {
        true => vec![end; 2],
        false => vec![end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (Rc<Terminal>, OwnedFd) {
        let size = WindowSize { columns: 80, rows: 24 };
        Terminal::open(size, &Reactor::default()).expect("this system has /dev/pts")
    }

    #[test]
    fn end_of_input_completes_a_started_line_first() {
        let (terminal, _theirs) = opened();
        for (last, expected) in [
            (None, &b"\x04"[..]),
            (Some(b'\n'), b"\x04"),
            (Some(b'\r'), b"\x04"),
            (Some(4), b"\x04"),
            (Some(b'x'), b"\x04\x04"),
        ] {
            assert_eq!(terminal.end_of_input(last), expected, "{last:?}");
        }
    }

    #[test]
    fn end_of_input_follows_the_settings_of_the_program() {
        let (terminal, theirs) = opened();
        let mut settings = tcgetattr(&theirs).unwrap();
        settings.local_modes -= LocalModes::ICANON;
        let set = |settings: &Termios| {
            let when = rustix::termios::OptionalActions::Now;
            rustix::termios::tcsetattr(&theirs, when, settings).unwrap();
        };
        set(&settings);
        assert_eq!(terminal.end_of_input(Some(b'x')), b"\x04");
        settings.special_codes[SpecialCodeIndex::VEOF] = DISABLED;
        set(&settings);
        assert_eq!(terminal.end_of_input(None), b"");
    }

    #[test]
    fn size_is_what_was_asked_for() {
        let (terminal, theirs) = opened();
        let size = || {
            let size = rustix::termios::tcgetwinsize(&theirs).unwrap();
            (size.ws_col, size.ws_row)
        };
        assert_eq!(size(), (80, 24));
        terminal.resize(WindowSize { columns: 132, rows: 50 }).unwrap();
        assert_eq!(size(), (132, 50));
    }
}
