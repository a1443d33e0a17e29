//! The launcher runs beside us and not behind us.
//!
//! The kernel wakes a process where its waker is when it takes that one for done. On a virtual
//! machine with few processors it does not look for an idle one then, and whoever was woken waits
//! until the waker pauses. So the launcher is started by a thread that keeps away from our processor,
//! what builds the wall inherits that, and it gets all processors back before anything runs inside.

use std::io;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Does something in a thread that keeps away from our processor. It is told what its children could
/// run on if it did not; nothing where there is no other processor, or none may be chosen.
pub(crate) fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(Option<Vec<u32>>) -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let choice = Choice::here();
    let work = move || {
        let kept_away = choice.filter(|choice| sched_setaffinity(None, &choice.others).is_ok());
        work(kept_away.map(|choice| numbers(&choice.all)))
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    // It may begin behind us, and leaves when it does.
    std::thread::yield_now();
    Ok(thread)
}

/// The processors that we may run on.
struct Choice {
    all: CpuSet,
    /// All but the one we are on: there is at least one.
    others: CpuSet,
}

impl Choice {
    /// Nothing where there is no other, or where the kernel has more than can be told.
    fn here() -> Option<Choice> {
        let all = sched_getaffinity(None).ok()?;
        let mut others = all;
        others.unset(sched_getcpu());
        (others.count() > 0).then_some(Choice { all, others })
    }
}

fn numbers(set: &CpuSet) -> Vec<u32> {
    (0..CpuSet::MAX_CPU as u32).filter(|number| set.is_set(*number as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread may run on, and what it is told.
    fn told() -> (CpuSet, Option<Vec<u32>>) {
        let work = |processors| (sched_getaffinity(None).unwrap(), processors);
        aside("x", work).unwrap().join().unwrap()
    }

    #[test]
    fn thread_keeps_away_from_one_processor() {
        let all = sched_getaffinity(None).unwrap();
        let (set, processors) = told();
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
        assert_eq!(told(), (one, None));
    }
}
