//! The processes inside: sends signals, and reaps every process that ends.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    kill_process_group, test_kill_process, test_kill_process_group, wait, waitid,
};
use stockade_sys::{child_signals, signal_all_processes};
use stockade_wire::Status;

use crate::keeper::{DONE, LEFT};
use crate::reactor::{Descriptor, Reactor};
use crate::subtree::{self, Part};

/// Which processes the guest's signals reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every other process in the pid namespace, of which the guest is the first process.
    WholeNamespace,
    /// Every other process in the sandbox, because no signal leaves it.
    Sandbox,
    /// Only the process groups of the started programs: the guest runs outside any wall.
    OwnChildren,
}

impl Reach {
    pub(crate) fn of_this_process() -> Reach {
        match getpid() {
            Pid::INIT => Reach::WholeNamespace,
            _ => Reach::OwnChildren,
        }
    }

    /// The reach of a guest without a pid namespace. None if a signal could leave the sandbox: it
    /// would kill the launcher outside.
    pub(crate) fn confined() -> Option<Reach> {
        let launcher = getppid()?;
        (test_kill_process(launcher) == Err(Errno::PERM)).then_some(Reach::Sandbox)
    }

    /// Whether orphans of every execution are reparented to the guest.
    fn adopts_orphans(self) -> bool {
        self != Reach::OwnChildren
    }
}

/// What holds the processes of an execution together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldBy {
    /// A cgroup leaf, which the host kills.
    Leaf,
    /// A keeper, which is their ancestor and the guest's child.
    Keeper(Pid),
    /// Nothing: they are those that neither a leaf nor a keeper holds. At most one execution.
    Nothing,
}

/// The running programs, and all processes they have started.
///
/// ```text
/// running ── its leader ends: what it left is killed ──▶ reaped ── all that is gone ──▶ gone
///                  └── it was the last: everything is killed ──▶ reaped ── no child is left ──▶ gone
/// ```
pub(crate) struct Processes {
    reach: Reach,
    signals: Descriptor,
    /// Whether the guest can find the processes of one execution.
    can_walk: bool,
    table: RefCell<Table>,
}

#[derive(Default)]
struct Table {
    programs: BTreeMap<u64, Program>,
    /// The guest's own children, which each serve one operation on files.
    helpers: HashSet<Pid>,
    sweep: Sweep,
    /// A process that waits to become a program, until it is reaped.
    waiting: Option<Pid>,
    /// The same, killed and not reaped. Nothing starts meanwhile: it still counts as a process.
    leaving: Option<Pid>,
    wakers: Vec<Waker>,
}

/// Everything inside was killed, but not all of it is reaped. Nothing starts meanwhile.
#[derive(Default)]
enum Sweep {
    #[default]
    Done,
    /// Until the guest has no child.
    All,
    /// Until these are gone; the guest's helpers were spared.
    These(Vec<Pid>),
}

struct Program {
    /// The process id, until the process is reaped; the kernel may then reuse it.
    leader: Pid,
    held: HeldBy,
    /// Whether the keeper reported that no process is left, or everything was killed.
    is_kept_to_the_end: bool,
    /// Killed processes that may not be gone yet.
    killed: Vec<Pid>,
    status: Option<Status>,
    is_killed: bool,
    is_gone: bool,
}

impl Processes {
    pub(crate) fn new(reach: Reach, reactor: &Reactor) -> io::Result<Processes> {
        let signals = Descriptor::new(child_signals()?, reactor)?;
        let can_walk = reach.adopts_orphans() && subtree::is_possible();
        Ok(Processes { reach, signals, can_walk, table: RefCell::default() })
    }

    /// Returns when a program may start.
    pub(crate) async fn settled(&self) {
        self.wait_until(|table| matches!(table.sweep, Sweep::Done).then_some(())).await;
        let is_settled = |table: &mut Table| table.sweep.is_done() && table.leaving.is_none();
        self.wait_until(|table| is_settled(table).then_some(())).await;
    }

    /// Whether more than one program runs.
    pub(crate) fn runs_several(&self) -> bool {
        self.table.borrow().programs.values().filter(|program| !program.is_gone).count() > 1
    }

    /// The execution of a process, if exactly one can be its own.
    pub(crate) fn execution_of(&self, process: i32) -> Option<u64> {
        let table = self.table.borrow();
        let only = |has: &dyn Fn(&Program) -> bool| {
            let mut found = table.programs.iter().filter(|(_, it)| !it.is_gone && has(it));
            match (found.next(), found.next()) {
                (Some((execution, _)), None) => Some(*execution),
                _ => None,
            }
        };
        let above: Vec<i32> = subtree::lineage(process).collect();
        let is_below = |ancestor: Pid| above.contains(&ancestor.as_raw_nonzero().get());
        let by_parents = only(&|program| match program.held {
            HeldBy::Keeper(keeper) => is_below(keeper),
            HeldBy::Leaf | HeldBy::Nothing => is_below(program.leader),
        });
        // An orphan is no longer below its leader, and is still in the same cgroup.
        let by_group = || {
            let group = |process: i32| std::fs::read(format!("/proc/{process}/cgroup")).ok();
            let own = group(process)?;
            only(&|program| {
                let leader = program.leader.as_raw_nonzero().get();
                program.held == HeldBy::Leaf && group(leader).as_ref() == Some(&own)
            })
        };
        // Without cgroups, an orphan below the guest that no keeper holds is of the one program that
        // has none.
        let is_orphan = above.contains(&getpid().as_raw_nonzero().get());
        let has_leaf = |it: &Program| it.held == HeldBy::Leaf && !it.is_gone;
        let by_elimination = || {
            let is_certain = is_orphan && !table.programs.values().any(has_leaf);
            is_certain.then(|| only(&|program| program.held == HeldBy::Nothing)).flatten()
        };
        by_parents.or_else(by_group).or_else(by_elimination)
    }

    /// Records `leader` as the program of an execution.
    pub(crate) fn lead(&self, execution: u64, leader: Pid, held: HeldBy) {
        let program = Program {
            leader,
            held,
            is_kept_to_the_end: false,
            killed: Vec::new(),
            status: None,
            is_killed: false,
            is_gone: false,
        };
        self.table.borrow_mut().programs.insert(execution, program);
    }

    /// Whether the next program needs a keeper, because nothing holds the processes of another.
    pub(crate) fn needs_keeper(&self) -> bool {
        let is_loose = |program: &Program| program.held == HeldBy::Nothing && !program.is_gone;
        let table = self.table.borrow();
        self.can_walk && table.programs.values().any(is_loose)
    }

    /// Reads the reports of a keeper, and kills the processes that its program left.
    pub(crate) async fn hear_keeper(&self, execution: u64, report: io::Result<Descriptor>) {
        let Ok(report) = report else { return self.kill(execution) };
        let mut byte = [0];
        while let Ok(1) = report.read(&mut byte).await {
            match byte[0] {
                LEFT => self.kill(execution),
                DONE => {
                    let mut table = self.table.borrow_mut();
                    if let Some(program) = table.programs.get_mut(&execution) {
                        program.is_kept_to_the_end = true;
                    }
                    table.note_gone(self.reach);
                    table.wakers.drain(..).for_each(Waker::wake);
                }
                _ => {}
            }
        }
        let is_lost = |program: &Program| !program.is_kept_to_the_end;
        if self.table.borrow().programs.get(&execution).is_some_and(is_lost) {
            // A program killed its keeper: its processes cannot be distinguished from others.
            self.table.borrow_mut().sweep();
            self.reap_ended();
        }
    }

    /// Records a child of the guest's own, which is neither a program nor killed with one.
    pub(crate) fn help(&self, helper: Pid) {
        self.table.borrow_mut().helpers.insert(helper);
    }

    /// The guest's own children.
    pub(crate) fn helpers(&self) -> HashSet<Pid> {
        self.table.borrow().helpers.clone()
    }

    /// Whether a process may be started that waits to become a program: no program runs and none
    /// has left a process, and the end of the guest ends the waiting process too.
    pub(crate) fn may_wait(&self) -> bool {
        let table = self.table.borrow();
        let is_quiet = table.programs.is_empty() && table.sweep.is_done();
        let is_alone = table.waiting.is_none() && table.leaving.is_none();
        is_quiet && is_alone && self.reach.adopts_orphans()
    }

    /// Records a process that waits to become a program.
    pub(crate) fn wait_with(&self, process: Pid) {
        self.table.borrow_mut().waiting = Some(process);
    }

    /// Records the waiting process as the program of an execution. False if it has ended.
    pub(crate) fn lead_waiting(&self, execution: u64, process: Pid, held: HeldBy) -> bool {
        let is_waiting = {
            let mut table = self.table.borrow_mut();
            table.waiting.take_if(|waiting| *waiting == process).is_some()
        };
        let is_alive = is_waiting && !has_ended(process);
        if is_alive {
            self.lead(execution, process, held);
        }
        is_alive
    }

    /// Kills the waiting process.
    pub(crate) fn kill_waiting(&self) {
        let mut table = self.table.borrow_mut();
        if let Some(process) = table.waiting.take() {
            table.leaving = Some(process);
            // Fails only when it has ended. It is not reaped yet, so its id is its own.
            let _ = kill_process_group(process, Signal::KILL);
        }
    }

    /// The process of an execution, while it runs.
    pub(crate) fn leader(&self, execution: u64) -> Option<Pid> {
        let table = self.table.borrow();
        let program = table.programs.get(&execution)?;
        program.status.is_none().then_some(program.leader)
    }

    /// Signals only the program of an execution, if it runs.
    pub(crate) fn signal(&self, execution: u64, signal: Signal) {
        if let Some(leader) = self.leader(execution) {
            // Fails only when the program has ended.
            let _ = kill_process(leader, signal);
        }
    }

    /// Kills all processes of an execution, as far as the guest can distinguish them from others.
    pub(crate) fn kill(&self, execution: u64) {
        let mut table = self.table.borrow_mut();
        let Some(program) = table.programs.get(&execution) else { return };
        if let (HeldBy::Leaf | HeldBy::Nothing, None) = (program.held, program.status) {
            let _ = kill_process_group(program.leader, Signal::KILL);
        }
        table.kill_held(execution, self.reach, self.can_walk);
    }

    /// Signals every process in reach.
    pub(crate) fn signal_all(&self, signal: Signal) {
        // Both fail only when no process is left.
        if self.reach.adopts_orphans() {
            let _ = signal_all_processes(signal);
            if signal == Signal::STOP {
                self.table.borrow().continue_helpers();
            }
            return;
        }
        for program in self.table.borrow().programs.values() {
            if program.status.is_none() {
                let _ = kill_process_group(program.leader, signal);
            }
        }
    }

    /// Kills every process in reach, if any was started.
    pub(crate) fn kill_all(&self) {
        let is_any = {
            let table = self.table.borrow();
            !table.programs.is_empty() || table.waiting.is_some()
        };
        if is_any {
            self.signal_all(Signal::KILL);
        }
        for helper in &self.table.borrow().helpers {
            let _ = kill_process(*helper, Signal::KILL);
        }
    }

    /// Waits until the program of an execution has ended and its processes are gone.
    pub(crate) async fn end(&self, execution: u64) -> Status {
        self.wait_until(|table| match table.programs.get(&execution) {
            Some(program) if program.is_gone => {
                let ended = table.programs.remove(&execution)?;
                ended.status
            }
            Some(_) => None,
            None => Some(Status::Signaled(0)),
        })
        .await
    }

    /// Reaps every child that ends, while the guest runs.
    pub(crate) async fn reap(&self) {
        // One SIGCHLD may stand for several children, so wait(2) is called until none is left.
        const SIGNAL_BYTES: usize = 128;
        while self.signals.read(&mut [0; SIGNAL_BYTES]).await.is_ok() {
            self.reap_ended();
        }
    }

    fn reap_ended(&self) {
        let mut table = self.table.borrow_mut();
        let are_left = loop {
            // Before a leader is reaped: until then its id cannot become another group's.
            table.kill_ended(self.reach, self.can_walk);
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    table.reaped(pid, status_of(status), self.reach, self.can_walk)
                }
                Err(Errno::INTR) => {}
                Ok(None) => break true,
                // ECHILD, the only possible error: no child is left.
                Err(_) => break false,
            }
        };
        table.sweep.note(are_left);
        table.note_gone(self.reach);
        table.wakers.drain(..).for_each(Waker::wake);
    }

    async fn wait_until<T>(&self, mut ready: impl FnMut(&mut Table) -> Option<T>) -> T {
        poll_fn(|context| {
            let mut table = self.table.borrow_mut();
            match ready(&mut table) {
                Some(value) => Poll::Ready(value),
                None => {
                    table.wakers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Table {
    /// Kills the processes left by leaders that have ended.
    fn kill_ended(&mut self, reach: Reach, can_walk: bool) {
        let ended = |program: &Program| {
            program.status.is_none() && !program.is_killed && has_ended(program.child())
        };
        let ended: Vec<u64> = self
            .programs
            .iter()
            .filter_map(|(execution, program)| ended(program).then_some(*execution))
            .collect();
        for execution in ended {
            self.kill_behind(execution, reach, can_walk);
        }
    }

    /// Kills what an ended program left, and all processes if no other program runs.
    fn kill_behind(&mut self, execution: u64, reach: Reach, can_walk: bool) {
        let Some(program) = self.programs.get_mut(&execution) else { return };
        program.is_killed = true;
        if !matches!(program.held, HeldBy::Keeper(_)) {
            let _ = kill_process_group(program.leader, Signal::KILL);
        }
        let held = program.held;
        let runs = |program: &Program| program.status.is_none() && !program.is_killed;
        if reach.adopts_orphans() && !self.programs.values().any(runs) {
            self.sweep();
        } else if held == HeldBy::Nothing {
            self.kill_held(execution, reach, can_walk);
        }
    }

    /// Kills the processes of an execution that no cgroup leaf holds.
    fn kill_held(&mut self, execution: u64, reach: Reach, can_walk: bool) {
        let Some(program) = self.programs.get(&execution) else { return };
        let keeper = |program: &Program| match program.held {
            HeldBy::Keeper(keeper) if program.status.is_none() => Some(keeper),
            _ => None,
        };
        let part = match program.held {
            _ if !can_walk => return,
            HeldBy::Leaf => return,
            HeldBy::Keeper(keeper) if program.status.is_none() => Part::Below(keeper),
            HeldBy::Keeper(_) => return,
            HeldBy::Nothing => {
                let keepers = self.programs.values().filter_map(keeper);
                Part::OutsideOf(keepers.chain(self.helpers.iter().copied()).collect())
            }
        };
        match subtree::kill(&part) {
            Ok(killed) => {
                if let Some(program) = self.programs.get_mut(&execution) {
                    program.killed.extend(killed);
                }
            }
            // Rather all executions than one too few.
            Err(_) if reach.adopts_orphans() => self.sweep(),
            Err(_) => {}
        }
    }

    /// Kills every process. Nothing starts until all are reaped.
    fn sweep(&mut self) {
        for program in self.programs.values_mut() {
            program.is_kept_to_the_end = true;
        }
        self.sweep = self.kill_everything();
    }

    /// Kills every other process inside except the helpers.
    fn kill_everything(&self) -> Sweep {
        if !self.helpers.is_empty() {
            // What is stopped does not fork, so the list is complete.
            let _ = signal_all_processes(Signal::STOP);
            let listed = processes_inside();
            if let Ok(mut listed) = listed {
                listed.retain(|process| !self.helpers.contains(process));
                for process in &listed {
                    let _ = kill_process(*process, Signal::KILL);
                }
                self.continue_helpers();
                return Sweep::These(listed);
            }
        }
        // Without /proc the helpers die too, and their operations fail.
        let _ = signal_all_processes(Signal::KILL);
        Sweep::All
    }

    fn continue_helpers(&self) {
        for helper in &self.helpers {
            let _ = kill_process(*helper, Signal::CONT);
        }
    }

    fn reaped(&mut self, pid: Pid, status: Status, reach: Reach, can_walk: bool) {
        if self.helpers.remove(&pid) {
            return;
        }
        self.waiting.take_if(|waiting| *waiting == pid);
        self.leaving.take_if(|leaving| *leaving == pid);
        let is_it = |program: &Program| program.child() == pid && program.status.is_none();
        let found = self.programs.iter().find(|(_, program)| is_it(program));
        let Some(execution) = found.map(|(execution, _)| *execution) else { return };
        if let Some(program) = self.programs.get_mut(&execution) {
            let was_killed = program.is_killed;
            program.status = Some(status);
            if !was_killed {
                // It ended after the last check.
                self.kill_behind(execution, reach, can_walk);
            }
        }
    }

    /// Marks the programs that have no process left.
    fn note_gone(&mut self, reach: Reach) {
        for program in self.programs.values_mut() {
            program.is_gone = program.status.is_some()
                && match (reach.adopts_orphans(), &self.sweep) {
                    // Orphans are not children of the guest.
                    (false, _) => true,
                    (true, Sweep::Done) => program.is_all_gone(),
                    (true, _) => false,
                };
        }
    }
}

impl Program {
    /// The child of the guest that ends with the program.
    fn child(&self) -> Pid {
        match self.held {
            HeldBy::Keeper(keeper) => keeper,
            HeldBy::Leaf | HeldBy::Nothing => self.leader,
        }
    }

    /// Whether no known process of an ended program is left.
    fn is_all_gone(&self) -> bool {
        match self.held {
            HeldBy::Keeper(_) => self.is_kept_to_the_end,
            HeldBy::Leaf | HeldBy::Nothing => {
                let is_gone = |pid: &Pid| test_kill_process(*pid) == Err(Errno::SRCH);
                test_kill_process_group(self.leader) == Err(Errno::SRCH)
                    && self.killed.iter().all(is_gone)
            }
        }
    }
}

impl Sweep {
    fn is_done(&self) -> bool {
        matches!(self, Sweep::Done)
    }

    /// Records what was reaped; `are_left` is whether the guest has any child.
    fn note(&mut self, are_left: bool) {
        if let Sweep::These(killed) = self {
            killed.retain(|process| test_kill_process(*process) == Ok(()));
            if !killed.is_empty() && are_left {
                return;
            }
            *self = Sweep::Done;
        }
        if !are_left {
            *self = Sweep::Done;
        }
    }
}

/// Every other process that this one could signal, according to /proc.
fn processes_inside() -> io::Result<Vec<Pid>> {
    let own = getpid();
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(id).filter(|id| *id != own && test_kill_process(*id) == Ok(()))
    };
    Ok(std::fs::read_dir("/proc")?.filter_map(number).collect())
}

/// Whether a child has ended; does not reap it.
fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), options).is_ok_and(|ended| ended.is_some())
}

fn status_of(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, Some(signal)) => Status::Signaled(signal),
        // Unreachable: wait is not asked to report stops.
        (None, None) => Status::Signaled(0),
    }
}
