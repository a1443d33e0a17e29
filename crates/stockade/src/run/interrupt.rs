//! Signals that cancel a run.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use stockade_sys::{default_signal, kernel_text};
use tokio::signal::unix::{SignalKind, signal};

/// The signals that cancel a run. A signal that was ignored at startup stays ignored, as `nohup`
/// and shells with background jobs expect.
#[derive(Clone)]
pub(crate) struct Interrupts(Vec<Signal>);

impl Interrupts {
    pub(crate) fn wanted() -> Interrupts {
        let ignored = ignored(&kernel_text("/proc/self/status").unwrap_or_default());
        let mut wanted = vec![Signal::INT, Signal::TERM, Signal::HUP];
        wanted.retain(|signal| !is_in(ignored, signal.as_raw()));
        Interrupts(wanted)
    }

    /// Resolves when one of them arrives; awaited again, when the next one does.
    pub(crate) fn come(&self) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let listen = |wanted: &Signal| signal(SignalKind::from_raw(wanted.as_raw()));
        let mut signals: Vec<_> = self.0.iter().map(listen).collect::<io::Result<_>>()?;
        Ok(poll_fn(move |context| {
            let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if came { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    /// Restores their default action, so that they kill this process while it waits for a slow
    /// reader.
    pub(crate) fn release(&self) {
        for signal in &self.0 {
            // Fails only for invalid signal numbers.
            let _ = default_signal(*signal);
        }
    }
}

/// The mask of ignored signals in the text of /proc/self/status; 0 if it is missing.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    let bit = u32::try_from(signal).ok().and_then(|signal| signal.checked_sub(1));
    bit.and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let mask = ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert!(is_in(mask, 1) && is_in(mask, 13));
        assert!(!is_in(mask, 2) && !is_in(mask, 15) && !is_in(mask, 0) && !is_in(mask, 99));
        assert_eq!(ignored("nothing"), 0);
    }
}
