//! The launcher runs beside us and not behind us.
//!
//! The kernel wakes a process where its waker is when it takes that one for done. On a virtual
//! machine with few processors it does not look for an idle one then, and whoever was woken waits
//! until the waker pauses. So we stay where we are while the launcher is started, what builds the
//! wall keeps away from there, and it gets all processors back before anything runs inside.

use std::process::Child;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A child, and what it could run on if it were not kept away from our processor.
pub(crate) struct Beside {
    pub(crate) child: Child,
    pub(crate) processors: Option<Vec<u32>>,
}

/// Starts a child that keeps away from our processor, where there is another one. Where the kernel
/// does not let it, the start is only slower.
pub(crate) fn start_beside<E>(start: impl FnOnce() -> Result<Child, E>) -> Result<Beside, E> {
    let Some(stay) = Stay::begin() else {
        return Ok(Beside { child: start()?, processors: None });
    };
    let child = start()?;
    // What it has inherited is less, and everything inside gets back what is told here.
    let _ = sched_setaffinity(Some(Pid::from_child(&child)), &stay.others);
    Ok(Beside { child, processors: Some(numbers(&stay.all)) })
}

/// This thread stays on one processor as long as this lives.
struct Stay {
    all: CpuSet,
    others: CpuSet,
}

impl Stay {
    fn begin() -> Option<Stay> {
        let own = sched_getcpu();
        let all = sched_getaffinity(None).ok()?;
        let (mut others, mut here) = (all, CpuSet::new());
        others.unset(own);
        here.set(own);
        if others.count() == 0 {
            return None;
        }
        sched_setaffinity(None, &here).ok()?;
        Some(Stay { all, others })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // What could be narrowed can be widened again to what it was.
        let _ = sched_setaffinity(None, &self.all);
    }
}

fn numbers(set: &CpuSet) -> Vec<u32> {
    (0..CpuSet::MAX_CPU as u32).filter(|number| set.is_set(*number as usize)).collect()
}
