//! Programs cannot disturb the guest, the process that reports how they end, and the timeout holds
//! even while Stockade is stopped.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{command, outside, processes, stockade, walls_can_be_built, within};

/// Tries each call on a process and prints the result: `None` on success, or errno.
const TRY: &str = r#"
import os, subprocess, sys
if os.getpgrp() != os.getpid(): os.setpgrp()
def tried(act):
    try: act()
    except OSError as error: return error.errno
def set_idle(pid): os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
def set_parameter(pid): os.sched_setparam(pid, os.sched_param(0))
def pin(pid): os.sched_setaffinity(pid, os.sched_getaffinity(0))
def slow(pid): os.setpriority(os.PRIO_PROCESS, pid, 19)
def slow_group(pid): os.setpriority(os.PRIO_PGRP, pid, 19)
calls = [set_idle, set_parameter, pin, slow, slow_group]
child = subprocess.Popen(['sleep', '60'], start_new_session=True)
print([tried(lambda: call(child.pid)) for call in calls])
print([tried(lambda: call(0)) for call in calls])
if 'inside' in sys.argv:
    print([tried(lambda: call(os.getppid())) for call in calls])
    print(tried(lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19)))
child.kill()
"#;

#[test]
fn program_can_change_its_own_scheduling_but_not_that_of_the_guest() {
    if !walls_can_be_built() {
        return;
    }
    let works = "[None, None, None, None, None]\n";
    assert_eq!(outside(&["python3", "-c", TRY]).text(), works.repeat(2));
    let inside = stockade(&["--", "python3", "-c", TRY, "inside"]);
    assert_eq!(inside.text(), [works, works, "[1, 1, 1, 1, 1]\n", "1\n"].concat());
}

#[test]
fn program_cannot_change_any_oom_score() {
    if !walls_can_be_built() {
        return;
    }
    let raise = "echo 700 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj";
    assert_eq!(outside(&["sh", "-c", raise]).text(), "700\n");
    // The guest resets its own score to 0 once the program runs.
    let lower = "until [ \"$(cat /proc/1/oom_score_adj)\" = 0 ]; do :; done
cat /proc/self/oom_score_adj
for score in 0 700; do
    for file in oom_score_adj oom_adj; do
        for process in self 1; do
            if echo $score > /proc/$process/$file; then echo changed; fi
        done
    done
done 2>/dev/null
cat /proc/self/oom_score_adj /proc/1/oom_score_adj";
    let run = stockade(&["--", "sh", "-c", lower]);
    assert_eq!(run.text(), "500\n500\n0\n");
}

#[test]
fn timeout_ends_the_program_while_stockade_is_stopped() {
    if !walls_can_be_built() {
        return;
    }
    let own = format!("sleep 31{}", std::process::id());
    let runs = || processes().iter().any(|line| line.trim_end() == own);
    let script = format!("{own} & echo on; wait");
    let mut run = command(&["--json", "--timeout", "3s", "--", "sh", "-c", &script]);
    let run = run.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    assert!(within(Duration::from_secs(3), runs), "the program starts");
    let stockade = Pid::from_child(&run);
    kill_process(stockade, Signal::STOP).expect("it can be stopped");
    let ended = within(Duration::from_secs(20), || !runs());
    kill_process(stockade, Signal::CONT).expect("it can go on");
    let output = run.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert!(ended, "the program ends while Stockade stands still");
    assert_eq!((output.status.code(), &report["outcome"]), (Some(124), &json!("timed_out")));
    assert_eq!(report["stdout"], "on\n");
}
