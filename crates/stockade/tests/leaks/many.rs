//! Many concurrent runs of the command line.

use std::process::{Command, Stdio};

use crate::leftovers::{Host, binary, walls_can_be_built};
use crate::rounds::is_long;

/// The number of concurrent runs.
const AT_ONCE: usize = 10;

/// The total number of runs.
fn runs() -> usize {
    if is_long() { 1000 } else { 100 }
}

/// Runs a program that leaves files and a process inside. Returns the process id of Stockade.
fn run() -> u32 {
    let script = "echo x > /tmp/x; echo x > /dev/shm/x; (sleep 60 &); echo ran";
    let child = Command::new(binary())
        .args(["run", "--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    let pid = child.id();
    let output = child.wait_with_output().expect("the child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(output.stdout, b"ran\n", "{said}");
    pid
}

#[test]
fn many_runs_ten_at_a_time_leave_nothing() {
    if !walls_can_be_built() {
        return;
    }
    let host = Host::alone();
    let one_of_ten = || (0..runs() / AT_ONCE).map(|_| run()).collect::<Vec<u32>>();
    let pids: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one_of_ten)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(pids.len(), runs());
    host.is_as_before(&pids).unwrap();
}
