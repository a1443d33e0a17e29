use super::*;

const STEP: Duration = Duration::from_millis(1);

/// Simulates a sandbox that uses `busy_millis` thousandths of a CPU while it may run, measured
/// `late` after each due time, and returns its CPU time in milliseconds for each second. As in the
/// kernel, the count moves in hundredths of a second.
fn seconds(limit: u64, busy_millis: u64, processors: u32, late: Duration) -> Vec<u64> {
    let (start, mut ration) = (Instant::now(), Ration::new(limit, processors));
    let (mut used, mut action, mut due) = (Duration::ZERO, Action::Run, Duration::ZERO);
    let mut at_steps = Vec::new();
    for step in 0..10_000 {
        let elapsed = STEP * step;
        if elapsed >= due {
            let seen = Duration::from_millis(used.as_millis() as u64 / 10 * 10);
            let decision = ration.decide(start + elapsed, seen);
            action = decision.action;
            due = elapsed + decision.look_again + late;
        }
        if action == Action::Run {
            used += STEP * busy_millis as u32 / 1000;
        }
        at_steps.push(used.as_millis() as u64);
    }
    // Every window of one second after the first second.
    (1000..9000).step_by(7).map(|from| at_steps[from + 999] - at_steps[from]).collect()
}

#[test]
fn busy_sandbox_gets_its_share_in_every_second() {
    for (limit, busy, processors) in [
        (500, 1000, 1),
        (100, 1000, 1),
        (1000, 2000, 2),
        (1500, 2000, 2),
        (1000, 4000, 4),
        (2000, 8000, 8),
    ] {
        for late in [0, 2] {
            let found = seconds(limit, busy, processors, Duration::from_millis(late));
            let (least, most) = (found.iter().min().unwrap(), found.iter().max().unwrap());
            let case = format!("{limit} of {busy}, {late} ms late: {least} to {most}");
            assert!(*least * 10 >= limit * 9 && *most * 10 <= limit * 11, "{case}");
        }
    }
}

#[test]
fn sandbox_below_its_limit_is_never_paused() {
    for (limit, busy) in [(1000, 990), (2000, 1000), (500, 490)] {
        let found = seconds(limit, busy, 2, Duration::ZERO);
        assert!(found.iter().all(|used| used.abs_diff(busy) <= 2), "{limit}, {busy}: {found:?}");
    }
}

#[test]
fn late_measurements_do_not_raise_the_average() {
    let found = seconds(1000, 4000, 4, Duration::from_millis(40));
    let average = found.iter().sum::<u64>() / found.len() as u64;
    assert!(average.abs_diff(1000) <= 100, "{average}");
}

#[test]
fn idle_time_is_not_kept_beyond_the_burst() {
    let (start, mut ration) = (Instant::now(), Ration::new(1000, 4));
    ration.decide(start, Duration::ZERO);
    let hour = start + Duration::from_secs(3600);
    assert_eq!(ration.decide(hour, Duration::ZERO).action, Action::Run);
    let soon = hour + Duration::from_millis(50);
    let decision = ration.decide(soon, Duration::from_millis(200));
    assert_eq!(decision, Decision { action: Action::Pause, look_again: LONGEST });
}

#[test]
fn falling_cpu_count_adds_no_balance() {
    let (start, mut ration) = (Instant::now(), Ration::new(100, 1));
    ration.decide(start, Duration::from_secs(10));
    assert_eq!(ration.decide(start + STEP, Duration::from_secs(1)).action, Action::Run);
    let decision = ration.decide(start + 2 * STEP, Duration::from_millis(1100));
    assert_eq!(decision.action, Action::Pause);
}

#[test]
fn zero_cpu_limit_pauses_at_the_first_use() {
    let (start, mut ration) = (Instant::now(), Ration::new(0, 1));
    ration.decide(start, Duration::ZERO);
    let used = Duration::from_millis(10);
    let expected = Decision { action: Action::Pause, look_again: LONGEST };
    assert_eq!(ration.decide(start + STEP, used), expected);
    assert_eq!(ration.decide(start + Duration::from_secs(99), used), expected);
}
