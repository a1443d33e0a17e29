//! The launcher runs beside us and not behind us.
//!
//! The kernel wakes a process where its waker is when it takes that one for done. On a virtual
//! machine with few processors it does not look for an idle one then, and whoever was woken waits
//! until the waker pauses. So what builds the wall keeps away from our processor, and gets all of
//! them back before anything runs inside.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Keeps a child away from our own processor. Says what it could run on before; nothing where it
/// stays so, which is only slower.
pub(crate) fn set_beside(child: Pid) -> Option<Vec<u32>> {
    let all = sched_getaffinity(Some(child)).ok()?;
    let mut others = all;
    others.unset(sched_getcpu());
    if others.count() == 0 {
        return None;
    }
    sched_setaffinity(Some(child), &others).ok()?;
    Some(numbers(&all))
}

fn numbers(set: &CpuSet) -> Vec<u32> {
    (0..CpuSet::MAX_CPU as u32).filter(|number| set.is_set(*number as usize)).collect()
}
