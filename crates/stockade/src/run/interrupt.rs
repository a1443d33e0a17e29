//! Signals that cancel a run.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves when a person or the system wants the run to end. A signal that was ignored when we
/// started stays so, as `nohup` and shells with background jobs expect.
pub(crate) fn interrupted() -> io::Result<impl Future<Output = ()> + Send> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let wanted = kinds.into_iter().filter(|kind| !is_in(ignored, kind.as_raw_value()));
    let mut signals: Vec<Signal> = wanted.map(signal).collect::<io::Result<_>>()?;
    Ok(poll_fn(move |context| {
        let came = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if came { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// The mask of ignored signals in the text of /proc/self/status; nothing where it does not say.
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
