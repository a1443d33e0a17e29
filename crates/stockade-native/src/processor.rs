//! The launcher runs beside us and not behind us.
//!
//! The kernel wakes a process where its waker is when it takes that one for done. On a virtual
//! machine with few processors it does not look for an idle one then, and whoever was woken waits
//! until the waker pauses. So we stay where we are while the launcher is started, what builds the
//! wall keeps away from there, and it gets all processors back before anything runs inside.

use std::io;
use std::process::Child;
use std::thread::JoinHandle;

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
    let _ = sched_setaffinity(Some(Pid::from_child(&child)), &stay.0.others);
    Ok(Beside { child, processors: Some(numbers(&stay.0.all)) })
}

/// What a thread of its own does, and what its children could run on if it were not kept away from
/// our processor.
pub(crate) struct Aside<T> {
    pub(crate) thread: JoinHandle<T>,
    pub(crate) processors: Option<Vec<u32>>,
}

/// Does something in a thread that keeps away from our processor, where there is another one.
pub(crate) fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Aside<T>> {
    // Whoever may not choose here could not undo it inside either.
    let choice = Choice::here().filter(|choice| sched_setaffinity(None, &choice.all).is_ok());
    let work = move || {
        if let Some(choice) = choice {
            // Where it fails it is only slower.
            let _ = sched_setaffinity(None, &choice.others);
        }
        work()
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    // It may begin behind us, and leaves when it does.
    std::thread::yield_now();
    Ok(Aside { thread, processors: choice.map(|choice| numbers(&choice.all)) })
}

/// Where we are, among the processors that we may run on.
#[derive(Clone, Copy)]
struct Choice {
    own: usize,
    all: CpuSet,
    /// All but our own: there is at least one.
    others: CpuSet,
}

impl Choice {
    /// Nothing where there is no other, or where the kernel has more than can be told.
    fn here() -> Option<Choice> {
        let own = sched_getcpu();
        let all = sched_getaffinity(None).ok()?;
        let mut others = all;
        others.unset(own);
        (others.count() > 0).then_some(Choice { own, all, others })
    }
}

/// This thread stays on one processor as long as this lives.
struct Stay(Choice);

impl Stay {
    fn begin() -> Option<Stay> {
        let choice = Choice::here()?;
        let mut here = CpuSet::new();
        here.set(choice.own);
        sched_setaffinity(None, &here).ok()?;
        Some(Stay(choice))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // What could be narrowed can be widened again to what it was.
        let _ = sched_setaffinity(None, &self.0.all);
    }
}

fn numbers(set: &CpuSet) -> Vec<u32> {
    (0..CpuSet::MAX_CPU as u32).filter(|number| set.is_set(*number as usize)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// What a child may run on, and what it is told to get back.
    fn started() -> (CpuSet, Option<Vec<u32>>) {
        let start = || Command::new("/bin/cat").stdin(Stdio::piped()).spawn();
        let Beside { mut child, processors } = start_beside(start).unwrap();
        let set = sched_getaffinity(Some(Pid::from_child(&child))).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        (set, processors)
    }

    #[test]
    fn child_keeps_away_from_one_processor_and_we_have_all_of_them_again() {
        let all = sched_getaffinity(None).unwrap();
        let (set, processors) = started();
        assert_eq!(sched_getaffinity(None).unwrap(), all);
        match all.count() {
            1 => assert_eq!((set, processors), (all, None)),
            count => {
                assert_eq!(set.count(), count - 1);
                assert_eq!(processors, Some(numbers(&all)));
            }
        }
    }

    #[test]
    fn where_there_is_one_processor_it_is_shared() {
        let all = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set(numbers(&all)[0] as usize);
        sched_setaffinity(None, &one).unwrap();
        assert_eq!(started(), (one, None));
    }

    #[test]
    fn thread_keeps_away_from_one_processor() {
        let all = sched_getaffinity(None).unwrap();
        let Aside { thread, processors } = aside("x", || sched_getaffinity(None)).unwrap();
        let set = thread.join().unwrap().unwrap();
        match all.count() {
            1 => assert_eq!((set, processors), (all, None)),
            count => {
                assert_eq!(set.count(), count - 1);
                assert_eq!(processors, Some(numbers(&all)));
            }
        }
    }

    #[test]
    fn child_that_cannot_be_started_leaves_us_where_we_were() {
        let all = sched_getaffinity(None).unwrap();
        assert!(start_beside(|| Command::new("/nonexistent").spawn()).is_err());
        assert_eq!(sched_getaffinity(None).unwrap(), all);
    }
}
