//! Memory with every shared page counted once.

use std::io;

use super::process::Process;
use super::tree::Member;

/// The memory that the members map, with each shared page counted once. Needs a walk over all page
/// tables.
///
/// A process between vfork(2) and execve(2) shares its parent's whole memory, and the kernel
/// reports that memory in full for both. The vforking thread is uninterruptible until then, which
/// identifies such a child; otherwise every program that starts others would seem to double.
pub(super) fn memory(members: &[Member]) -> u64 {
    // Reads the waiting threads first: if one stops waiting before its child's memory is read, that
    // child has called execve and has its own memory.
    let waiting: Vec<u64> = members.iter().map(|member| waiting_threads(members, member)).collect();
    let look = |(member, waiting_threads): (&Member, u64)| Look {
        pid: member.pid.as_raw_nonzero().get(),
        parent: member.stat.parent,
        memory_bytes: proportional_memory(member),
        before_exec: member.stat.before_exec,
        waiting_threads,
    };
    total(&members.iter().zip(waiting).map(look).collect::<Vec<Look>>())
}

/// The measurement of one member.
#[derive(Clone, Copy, Debug)]
struct Look {
    pid: i32,
    parent: i32,
    memory_bytes: u64,
    before_exec: bool,
    waiting_threads: u64,
}

/// The sum, minus the memory that vforked children share with their parent: for as many children as
/// the parent has waiting threads, and for each at most the parent's memory. Real vforked children
/// add at least that much, so a program cannot hide memory behind one.
fn total(looks: &[Look]) -> u64 {
    let mut total: u64 = looks.iter().map(|look| look.memory_bytes).sum();
    for parent in looks.iter().filter(|look| look.waiting_threads > 0) {
        let children = looks.iter().filter(|look| look.before_exec && look.parent == parent.pid);
        let mut doubled: Vec<u64> =
            children.map(|child| child.memory_bytes.min(parent.memory_bytes)).collect();
        doubled.sort_unstable_by(|one, other| other.cmp(one));
        let count = usize::try_from(parent.waiting_threads).unwrap_or(usize::MAX);
        total -= doubled.iter().take(count).sum::<u64>();
    }
    total
}

/// The number of a member's threads that may wait for a child's execve, if it has such a child.
fn waiting_threads(members: &[Member], member: &Member) -> u64 {
    let own = |other: &Member| other.stat.parent == member.pid.as_raw_nonzero().get();
    if !members.iter().any(|other| other.stat.before_exec && own(other)) {
        return 0;
    }
    let count = same_process(member).and_then(|process| match process {
        Some(process) => process.uninterruptible_threads(),
        None => Ok(0),
    });
    // On an error assume 0: the sum is then too high, never too low.
    count.unwrap_or(0)
}

/// The member's proportional share of the memory it maps, 0 if it has ended. If that cannot be
/// read, its memory counts in full: too much rather than too little.
fn proportional_memory(member: &Member) -> u64 {
    let memory = same_process(member).and_then(|process| match process {
        Some(process) => process.proportional_memory(),
        None => Ok(None),
    });
    memory.map_or(member.memory_bytes, |memory| memory.unwrap_or(0))
}

/// The member's directory, or `None` if its pid was reused.
fn same_process(member: &Member) -> io::Result<Option<Process>> {
    let Some(process) = Process::open(member.pid)? else { return Ok(None) };
    let start = process.stat()?.map(|stat| stat.start);
    Ok((start == Some(member.stat.start)).then_some(process))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pid: i32, parent: i32, memory_bytes: u64) -> Look {
        Look { pid, parent, memory_bytes, before_exec: false, waiting_threads: 0 }
    }

    #[test]
    fn vforked_child_does_not_double_its_parents_memory() {
        let parent = Look { waiting_threads: 1, ..look(2, 1, 300) };
        let child = Look { before_exec: true, ..look(3, 2, 300) };
        assert_eq!(total(&[look(1, 0, 5), parent, child]), 305);
        let grandchild = Look { before_exec: true, ..look(4, 3, 300) };
        let chain = [parent, Look { waiting_threads: 1, ..child }, grandchild];
        assert_eq!(total(&chain), 300);
    }

    #[test]
    fn memory_cannot_hide_behind_a_vforked_child() {
        let parent = Look { waiting_threads: 1, ..look(2, 1, 300) };
        let child = Look { before_exec: true, ..look(3, 2, 300) };
        let copy = |pid, memory_bytes| Look { before_exec: true, ..look(pid, 2, memory_bytes) };
        // Forks that never call execve look the same; the sum remains that of the parent and the
        // forks.
        assert_eq!(total(&[parent, child, copy(4, 300), copy(5, 1000)]), 300 + 300 + 1000);
        assert_eq!(total(&[Look { waiting_threads: 0, ..parent }, copy(4, 300)]), 600);
        assert_eq!(total(&[parent, look(6, 2, 300)]), 600);
    }
}
