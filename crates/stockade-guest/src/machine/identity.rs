//! What must differ between machines that continue from the same saved one.

use std::io;

use rustix::time::{ClockId, Timespec, clock_settime};
use stockade_sys::reseed_kernel_random;
use stockade_wire::MachineStart;

use super::cannot;

/// The least random bytes that the host sends: the size of the kernel's key.
const LEAST_ENTROPY: usize = 32;
const NANOSECONDS: u64 = 1_000_000_000;

/// Gives the kernel's random generator new state, and sets the clock.
///
/// The kernel makes its boot id at the first read, which nothing before this does; the machine id
/// is a file of the plan.
pub(super) fn renew(start: &MachineStart) -> io::Result<()> {
    if start.entropy.len() < LEAST_ENTROPY {
        return Err(io::Error::other("the host sent too few random bytes"));
    }
    reseed_kernel_random(&start.entropy).map_err(cannot("renew the random generator"))?;
    let whole = |number: u64| i64::try_from(number).map_err(io::Error::other);
    let time = Timespec {
        tv_sec: whole(start.time_ns / NANOSECONDS)?,
        tv_nsec: whole(start.time_ns % NANOSECONDS)?,
    };
    clock_settime(ClockId::Realtime, time).map_err(io::Error::from).map_err(cannot("set the clock"))
}
