//! Measures the overhead of the guest. Run by hand:
//! `cargo test --release -p stockade-carrier --test guest -- --ignored --nocapture overhead`.

use std::time::{Duration, Instant};

use crate::support::{Guest, Outcome, Transport, command, run};

#[tokio::test]
#[ignore = "a measurement, not a check"]
async fn overhead_of_a_new_and_of_a_running_guest() {
    for transport in Transport::BOTH {
        const ROUNDS: usize = 100;
        let quick = command(&["/bin/true"]);
        let mut fresh = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let (_guest, link) = Guest::linked(transport);
            assert_eq!(run(&link, &quick, b"").await, Outcome::exited(0, "", ""));
            fresh.push(begun.elapsed());
        }
        let (_guest, link) = Guest::linked(transport);
        let mut warm = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            assert_eq!(run(&link, &quick, b"").await, Outcome::exited(0, "", ""));
            warm.push(begun.elapsed());
        }
        let mut plain = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            assert!(std::process::Command::new("/bin/true").status().unwrap().success());
            plain.push(begun.elapsed());
        }
        let mut files = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            drop(stockade_carrier::guest_file().unwrap());
            files.push(begun.elapsed());
        }
        report("making the guest's file", files);
        report("new guest, /bin/true", fresh);
        report("running guest, /bin/true", warm);
        report("no guest, /bin/true", plain);
    }
}

#[expect(clippy::print_stdout, reason = "the measurement is what it is run for")]
fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (least, median) = (times[0], times[times.len() / 2]);
    println!("{what}: least {least:?}, median {median:?}");
}
