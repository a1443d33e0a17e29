//! The caller's terminal while a program inside has one.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use stockade_api::TerminalParams;

/// The size if the caller has no terminal.
const ORDINARY: TerminalParams = TerminalParams { columns: 80, rows: 24 };

/// The caller's terminal in raw mode: every key goes inside. Dropping it restores the mode.
pub(crate) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Puts the terminal of standard input into raw mode; `None` if it is not a terminal.
    pub(crate) fn of_input() -> io::Result<Option<RawTerminal>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(RawTerminal { before }))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Fails if the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of the caller's terminal.
pub(crate) fn size() -> TerminalParams {
    let (stdout, stdin) = (io::stdout(), io::stdin());
    let found = [stdout.as_fd(), stdin.as_fd()].into_iter().find_map(|it| tcgetwinsize(it).ok());
    match found {
        Some(size) if size.ws_col > 0 && size.ws_row > 0 => {
            TerminalParams { columns: size.ws_col, rows: size.ws_row }
        }
        _ => ORDINARY,
    }
}
