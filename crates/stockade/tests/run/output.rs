//! Kept and dropped output.

use serde_json::json;

use crate::support::{alone, binary, hits, outside, report, walls_can_be_built};

#[test]
fn endless_output_is_counted_and_uses_bounded_memory() {
    if !walls_can_be_built() {
        return;
    }
    let _quiet = alone();
    // Prints the peak memory of Stockade and of the processes that it reaped.
    let measure = "import json, os, sys
read, write = os.pipe()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)])
os.close(write)
with os.fdopen(read) as pipe:
    report = json.load(pipe)
_, status, usage = os.wait4(pid, 0)
del report['stdout']
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss, report]))";
    let binary = binary();
    let words = [
        "python3".as_ref(),
        "-c".as_ref(),
        measure.as_ref(),
        binary.as_os_str(),
        "run".as_ref(),
        "--json".as_ref(),
        "--timeout".as_ref(),
        "2s".as_ref(),
        "--".as_ref(),
        "yes".as_ref(),
    ];
    let answer = outside(&words).json();
    let (code, kilobytes, report) = (&answer[0], answer[1].as_u64().unwrap(), &answer[2]);
    assert_eq!((code, &report["outcome"]), (&json!(124), &json!("timed_out")));
    let count = |key: &str| report["output"]["stdout"][key].as_u64().unwrap();
    assert_eq!(count("kept_bytes"), 1 << 20);
    assert!(count("dropped_bytes") > 1 << 20, "{report}");
    assert!(hits(report, "max_output_bytes"), "{report}");
    assert!(kilobytes < 64 << 10, "Stockade took {kilobytes} kB");
}

#[test]
fn kept_and_dropped_bytes_add_up_to_what_was_written() {
    if !walls_can_be_built() {
        return;
    }
    let program = "import sys
sys.stdout.buffer.write(b'o' * 3_000_000); sys.stdout.flush()
sys.stderr.buffer.write(b'e' * 2_000_000)";
    let (code, report) = report(&["--max-output", "2m", "--", "python3", "-c", program]);
    assert_eq!(code, 0, "{report}");
    let count = |stream: &str, key: &str| report["output"][stream][key].as_u64().unwrap();
    assert_eq!(count("stdout", "kept_bytes") + count("stdout", "dropped_bytes"), 3_000_000);
    assert_eq!(count("stderr", "kept_bytes") + count("stderr", "dropped_bytes"), 2_000_000);
    assert_eq!(count("stdout", "kept_bytes") + count("stderr", "kept_bytes"), 2 << 20);
    let kept = usize::try_from(count("stdout", "kept_bytes")).unwrap();
    assert_eq!(report["stdout"].as_str().unwrap(), "o".repeat(kept));
}
