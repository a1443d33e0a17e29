//! Kills Stockade with SIGKILL at any moment.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::leftovers::{Host, binary, descendants, groups_of, kill, walls_can_be_built};
use crate::rounds::{is_long, nothing_runs_within};

/// How long a process may outlive Stockade.
const A_SECOND: Duration = Duration::from_secs(1);

/// Pseudorandom delays from a fixed seed, so that a failure can be reproduced.
struct Delays(u64);

impl Delays {
    /// Up to 30 ms in microsecond steps, which covers moments before, during and after a start.
    fn next(&mut self) -> Duration {
        // Xorshift: the delays need not be unpredictable.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_micros(self.0 % 30_000)
    }
}

fn rounds() -> u32 {
    if is_long() { 100 } else { 20 }
}

/// Starts a run whose processes ignore signals or leave its session.
fn start() -> Child {
    let script = "(setsid sleep 60 &); trap '' TERM HUP INT; sleep 60 & echo ran; sleep 60";
    let mut command = stockade(&["sh", "-c", script]);
    command.process_group(0).stdout(Stdio::piped());
    command.spawn().expect("the binary under test starts")
}

fn stockade(argv: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["run", "--"]).args(argv).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    command
}

/// Waits until the program runs in every third round, and for a random delay in the others.
fn wait_for_the_moment(round: u32, child: &mut Child, delays: &mut Delays) {
    if round.is_multiple_of(3) {
        let stdout = child.stdout.as_mut().expect("standard output is piped");
        stdout.read_exact(&mut [0; 4]).expect("the program says that it runs");
    } else {
        std::thread::sleep(delays.next());
    }
}

/// Kills Stockade in many rounds. After a second no process may run, and after the next start
/// nothing may be left on the host.
fn each_death_leaves_nothing(killing: impl Fn(u32, u32)) {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let mut delays = Delays(0x5eed_0000_0000_0003);
    for round in 0..rounds() {
        let mut child = start();
        let pid = child.id();
        wait_for_the_moment(round, &mut child, &mut delays);
        killing(round, pid);
        child.wait().expect("the child can be waited for");
        nothing_runs_within(A_SECOND).unwrap_or_else(|left| panic!("round {round}: {left}"));
        let mut next = stockade(&["true"]).spawn().expect("the binary under test starts");
        let next_pid = next.id();
        assert!(next.wait().expect("the child can be waited for").success(), "round {round}");
        host.is_as_before(&[pid, next_pid]).unwrap_or_else(|left| panic!("round {round}: {left}"));
    }
}

#[test]
fn killed_stockade_leaves_nothing_running_and_nothing_after_the_next_start() {
    each_death_leaves_nothing(|_, pid| kill(pid));
}

#[test]
fn killed_stockade_and_launcher_leave_nothing_running_and_nothing_after_the_next_start() {
    each_death_leaves_nothing(|round, pid| {
        let launcher = descendants().into_iter().find(|(_, process)| process.parent == pid);
        let mut both = vec![pid];
        both.extend(launcher.map(|(launcher, _)| launcher));
        if round.is_multiple_of(2) {
            both.reverse();
        }
        both.into_iter().for_each(kill);
    });
}

#[test]
fn killed_process_group_leaves_nothing_running_and_nothing_after_the_next_start() {
    each_death_leaves_nothing(|_, pid| {
        let group = Pid::from_raw(pid.cast_signed()).expect("a process id is not zero");
        kill_process_group(group, Signal::KILL).expect("the group is there");
    });
}

/// Proves that `groups_of` finds the cgroups of a run, if this host uses cgroups.
#[test]
fn cgroups_of_a_run_are_found_during_the_run() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let mut child = start();
    let stdout = child.stdout.as_mut().expect("standard output is piped");
    stdout.read_exact(&mut [0; 4]).expect("the program says that it runs");
    let found = groups_of(&[child.id()]);
    child.kill().expect("it runs");
    child.wait().expect("it was started here");
    nothing_runs_within(A_SECOND).unwrap();
    host.is_as_before(&[child.id()]).unwrap();
    assert_eq!(!found.is_empty(), is_held_by_cgroups());
}

fn is_held_by_cgroups() -> bool {
    let json = Command::new(binary()).args(["run", "--json", "--", "true"]).output();
    let json = json.expect("the binary under test starts").stdout;
    String::from_utf8_lossy(&json).contains("cgroup v")
}
