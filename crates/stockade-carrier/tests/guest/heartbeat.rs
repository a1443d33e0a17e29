//! Beats over a link whose stream stays open when one end is gone.

use std::os::fd::AsRawFd;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stockade_carrier::{Link, LinkSettings, Liveness, guest_file};
use stockade_provider::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use crate::pump::Pump;
use crate::support::{Guest, LIMIT, Outcome, command, run, shell};

const EVERY: Duration = Duration::from_millis(50);
/// The guest's exit code when the host is silent.
const SILENT: i32 = 76;

fn linked(missed: u32) -> (Guest, Link, Pump) {
    let file = guest_file().unwrap();
    let mut guest = Process::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    guest.arg("stdio").env_clear().stderr(Stdio::null());
    let (guest, stream, pump) = Guest::piped(&mut guest);
    let liveness = Liveness::Beats { every: EVERY, missed };
    let settings = LinkSettings { executions: 4, liveness };
    (guest, Link::open(stream, None, settings).unwrap(), pump)
}

#[tokio::test]
async fn quiet_link_with_beats_stays_open() {
    let (_guest, link, _pump) = linked(20);
    sleep(EVERY * 30).await;
    assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
}

#[tokio::test]
async fn stopped_pump_ends_the_guest_and_the_host_reports_a_lost_sandbox() {
    let (mut guest, link, pump) = linked(4);
    let (_, mut running) = link.execute(shell("echo ready; exec sleep 1000")).unwrap();
    running.stdout.read_exact(&mut [0; 6]).await.unwrap();
    pump.stop();
    let lost = timeout(LIMIT, running.end).await.unwrap().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Lost);
    assert_eq!(lost.to_string(), "the guest was silent for 5 beats");
    assert_eq!(guest.exit(LIMIT).await, Some(SILENT));
}

/// The guest answers after each stop, so that stops do not add up.
#[tokio::test]
async fn guest_stopped_for_less_than_the_limit_survives() {
    let (guest, link, _pump) = linked(40);
    let (_, mut running) = link.execute(shell("echo ready; exec cat")).unwrap();
    running.stdout.read_exact(&mut [0; 6]).await.unwrap();
    let process = Pid::from_child(&guest.process);
    for _ in 0..3 {
        kill_process(process, Signal::STOP).unwrap();
        sleep(EVERY * 15).await;
        kill_process(process, Signal::CONT).unwrap();
        assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
    }
}

/// The host counts the intervals in which it checked and found nothing, not the time it was
/// stopped.
#[tokio::test]
async fn busy_host_does_not_count_its_own_delay_as_silence() {
    let (_guest, link, _pump) = linked(40);
    link.hello().await.unwrap();
    std::thread::sleep(EVERY * 30);
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(EVERY * 30);
    assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
}

#[tokio::test]
async fn pump_delay_below_the_limit_loses_nothing() {
    let (_guest, link, pump) = linked(40);
    for _ in 0..3 {
        pump.stop();
        sleep(EVERY * 10).await;
        pump.resume();
        assert_eq!(run(&link, &command(&["true"]), b"").await, Outcome::exited(0, "", ""));
    }
}
