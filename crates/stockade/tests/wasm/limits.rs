//! Programs that want more than they may have.

use std::time::{Duration, Instant};

use crate::support::{is_machine, named, patience, report, run, run_with};

named![
    endless_loop_is_ended_at_its_timeout,
    sleeping_program_is_ended_at_its_timeout,
    memory_bomb_is_out_of_memory,
    memory_error_that_is_caught_is_no_end,
    deep_recursion_is_an_exception_inside,
    program_that_aborts_is_trapped,
    hundred_megabytes_of_output_are_counted_and_cut,
    processor_time_is_limited,
    quarter_of_a_processor_is_at_most_a_quarter_of_the_time,
    open_files_are_limited,
    files_and_inodes_are_limited,
    memory_below_the_interpreters_needs_is_refused,
];

fn endless_loop_is_ended_at_its_timeout() {
    let start = Instant::now();
    let report = report(&["--timeout", "1s"], "while True: pass");
    assert_eq!(report["outcome"], "timed_out", "{report:#}");
    assert!(start.elapsed() < patience(Duration::from_secs(4)), "{:?}", start.elapsed());
    assert_eq!(run_with(&["--timeout", "1s"], "while True: pass").code, 124);
}

fn sleeping_program_is_ended_at_its_timeout() {
    let report = report(&["--timeout", "500ms"], "import time; time.sleep(60)");
    assert_eq!(report["outcome"], "timed_out", "{report:#}");
}

fn memory_bomb_is_out_of_memory() {
    let code = "held = []\nwhile True: held.append(bytearray(10_000_000))";
    let report = report(&["--memory", "256m"], code);
    assert_eq!(report["outcome"], "out_of_memory", "{report:#}");
    let peak = report["usage"]["memory_peak_bytes"].as_u64().expect("it is counted");
    assert!((128 << 20..=256 << 20).contains(&peak), "{peak}");
    // With room, the same allocation works.
    let small = "held = [bytearray(10_000_000) for _ in range(20)]; print(len(held))";
    assert_eq!(run_with(&["--memory", "512m"], small).text(), "20\n");
}

fn memory_error_that_is_caught_is_no_end() {
    // A machine has no way to refuse memory before it is used, so there the bomb above is all.
    if is_machine() {
        let code = "bytearray(10_000_000); print('small')";
        return assert_eq!(run_with(&["--memory", "256m"], code).text(), "small\n");
    }
    let code = "try:\n    bytearray(2_000_000_000)\nexcept MemoryError:\n    print('refused')";
    let report = report(&["--memory", "256m"], code);
    assert_eq!((&report["outcome"], &report["stdout"]), (&"exited".into(), &"refused\n".into()));
    assert!(report["limits_hit"].to_string().contains("max_memory_mb"), "{report:#}");
}

fn deep_recursion_is_an_exception_inside() {
    let caught = "def f(): return f()\ntry: f()\nexcept RecursionError: print('caught')";
    assert_eq!(run(caught).text(), "caught\n");
    // The parser has no frames of Python.
    for code in ["eval('[' * 100_000)", "eval('-' * 200_000 + '1')"] {
        let code = format!("try: {code}\nexcept (MemoryError, RecursionError): print('caught')");
        assert_eq!(run(&code).text(), "caught\n", "{code}");
    }
    // C code that recurses may exhaust the stack first, which traps and harms nothing else.
    let code =
        "import json\ntry: json.loads('[' * 200_000)\nexcept RecursionError: print('caught')";
    let report = report(&[], code);
    let is_caught = report["stdout"] == "caught\n";
    assert!(is_caught || report["outcome"] == "trapped", "{report:#}");
}

fn program_that_aborts_is_trapped() {
    let report = report(&[], "import os; os.abort()");
    assert_eq!(report["outcome"], "trapped", "{report:#}");
    assert_eq!(run("import os; os.abort()").code, 134);
}

fn hundred_megabytes_of_output_are_counted_and_cut() {
    let code = "for _ in range(100): print('x' * (1 << 20))";
    let report = report(&[], code);
    assert_eq!(report["outcome"], "exited", "{:#}", report["outcome"]);
    assert_eq!(report["stdout"].as_str().map(str::len), Some(1 << 20));
    assert_eq!(report["output"]["stdout"]["dropped_bytes"].as_u64(), Some((99 << 20) + 100));
    assert!(report["limits_hit"].to_string().contains("max_output_bytes"));
}

fn processor_time_is_limited() {
    let (_scratch, path) =
        crate::support::directory(&[("p.yaml", "limits: {max_cpu_seconds: 0.3}")]);
    let policy = path.join("p.yaml");
    let options = ["--policy", policy.to_str().expect("text")];
    let report = report(&options, "while True: pass");
    assert_eq!(report["outcome"], "limit_exceeded", "{report:#}");
    assert_eq!(report["limit"], "max_cpu_seconds", "{report:#}");
    // Waiting takes no processor time.
    assert_eq!(run_with(&options, "import time; time.sleep(0.6); print(1)").text(), "1\n");
}

fn quarter_of_a_processor_is_at_most_a_quarter_of_the_time() {
    let code = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass";
    let report = report(&["--cpus", "0.25"], code);
    let used = report["usage"]["cpu_ms"].as_u64().expect("it is counted");
    // Without the limit it is two seconds on an idle machine.
    assert!((1..=900).contains(&used), "{report:#}");
}

fn open_files_are_limited() {
    // A machine does not report closed files: those in memory count as memory only.
    if is_machine() {
        let code = "for i in range(3000):\n    with open('f', 'w') as f: pass\nprint(i)";
        return assert_eq!(run(code).text(), "2999\n");
    }
    let (_scratch, path) = crate::support::directory(&[("p.yaml", "limits: {max_open_files: 32}")]);
    let policy = path.join("p.yaml");
    let code = "held = []\ntry:\n    for i in range(100): held.append(open(f'f{i}', 'w'))\n\
                except OSError: print(len(held))";
    let run = run_with(&["--policy", policy.to_str().expect("text")], code);
    let count: usize = run.text().trim().parse().expect("a number");
    assert!((20..=32).contains(&count), "{count}");
    assert_eq!(crate::support::run(code).text(), "", "without the limit all are open");
}

fn files_and_inodes_are_limited() {
    let policy = "limits: {max_disk_mb: 1, max_inodes: 16}";
    let (_scratch, path) = crate::support::directory(&[("p.yaml", policy)]);
    let policy = path.join("p.yaml");
    let options = ["--policy", policy.to_str().expect("text")];
    let code = "try:\n    open('big', 'wb').write(bytes(2_000_000))\nexcept OSError: print('full')";
    assert_eq!(run_with(&options, code).text(), "full\n");
    let report = report(&options, code);
    assert!(report["limits_hit"].to_string().contains("max_disk_mb"), "{report:#}");
    let code = "import os\ntry:\n    for i in range(100): os.mkdir(f'd{i}')\n\
                except OSError: print(i < 16)";
    assert_eq!(run_with(&options, code).text(), "True\n");
    assert_eq!(run(code).text(), "", "without the limit all are made");
}

fn memory_below_the_interpreters_needs_is_refused() {
    let run = run_with(&["--memory", "16m"], "print(1)");
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("does not start in 16 MiB of memory"), "{run:?}");
    assert!(run.stderr.contains("raise defaults.max_memory_mb"), "{run:?}");
}
