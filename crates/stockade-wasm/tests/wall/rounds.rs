use std::time::{Duration, Instant};

use stockade_provider::ProcessEnd;

use crate::support::{run, sandbox};

/// Threads, descriptors and mappings of this process.
fn held() -> [usize; 3] {
    let count = |place: &str| std::fs::read_dir(place).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    [count("/proc/self/task"), count("/proc/self/fd"), maps.lines().count()]
}

#[test]
fn thousand_rounds_of_create_execute_and_destroy_leak_nothing() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let round = || {
        runtime.block_on(async {
            let sandbox = sandbox("{}").await;
            let ran = run(sandbox.as_ref(), "open('f', 'w').write('x' * 100_000); print(1)").await;
            assert_eq!((ran.stdout.as_str(), ran.end), ("1\n", ProcessEnd::Exited { code: 0 }));
            sandbox.end().await.unwrap();
        });
    };
    // Loads the component, and fills the pools of the allocator and of the runtime.
    for _ in 0..50 {
        round();
    }
    std::thread::sleep(Duration::from_millis(200));
    let before = held();
    for _ in 0..1000 {
        round();
    }
    // Other tests of this process run at the same time; what leaks stays.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let after = held();
        let is_same = [8, 8, 60]
            .iter()
            .zip(before)
            .zip(after)
            .all(|((slack, before), after)| after <= before + slack);
        if is_same {
            return;
        }
        assert!(Instant::now() < deadline, "before {before:?}, after {after:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}
