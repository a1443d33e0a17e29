//! Texts that try to consume time or memory: parsing each takes less than a second in a release
//! build, and a bounded amount of memory.
//!
//! A child process measures memory: this test binary again with one case to run. The peak of a
//! process covers all its threads, and tests run concurrently.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the measuring is outside the pure crate"
)]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_policy::{Policy, PolicyText};

/// The variable with the case for the child to run.
const CASE: &str = "STOCKADE_BOMB";

/// One second for a release build; a debug build takes several times as long, on a machine that is
/// busy with other tests.
const SLOWEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
const MOST_KIBIBYTES: u64 = 64 * 1024;
const MEBIBYTE: usize = 1 << 20;

/// The expected result of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Refused,
    Accepted,
}

type Case = (&'static str, Ending, fn() -> Vec<u8>);

const CASES: &[Case] = &[
    ("billion_laughs", Ending::Refused, billion_laughs),
    ("long_text_laughs", Ending::Refused, long_text_laughs),
    ("alias_chain", Ending::Refused, alias_chain),
    ("hundred_megabytes", Ending::Refused, || vec![b'a'; 100_000_000]),
    ("open_brackets", Ending::Refused, || fill("[")),
    ("open_braces", Ending::Refused, || fill("{a: ")),
    ("nested_dashes", Ending::Refused, || fill("- ")),
    ("nested_question_marks", Ending::Refused, || fill("? ")),
    ("anchors_without_values", Ending::Refused, || fill("&a ")),
    ("newlines", Ending::Refused, || fill("\n")),
    ("spaces", Ending::Refused, || fill(" ")),
    ("comments", Ending::Refused, || fill("#\n")),
    ("quotes", Ending::Refused, || fill("\"")),
    ("bangs", Ending::Refused, || fill("! ")),
    ("documents", Ending::Refused, || fill("---\n")),
    ("colons", Ending::Refused, || fill(": ")),
    ("commas", Ending::Refused, || [b"[".to_vec(), fill(",")].concat()),
    ("many_question_marks", Ending::Refused, || fill("? a\n")),
    ("many_anchors", Ending::Refused, || numbered(60_000, |n| format!("- &a{n} 1\n"))),
    ("many_aliases", Ending::Refused, || numbered(12_000, |n| format!("- &a{n} 1\n- *a0\n"))),
    ("many_unknown_keys", Ending::Refused, || numbered(24_000, |n| format!("key{n}: 1\n"))),
    ("many_duplicate_keys", Ending::Refused, || fill("name: x\n")),
    ("long_key", Ending::Refused, || {
        [fill_to("network_allowlis", MEBIBYTE - 9), b": 1\n".to_vec()].concat()
    }),
    ("long_explicit_key", Ending::Refused, || {
        [b"? ".to_vec(), fill_to("network_allowlis", MEBIBYTE - 99), b"\n: 1\n".to_vec()].concat()
    }),
    ("long_flow_line", Ending::Refused, || {
        [b"tool_allowlist: [".to_vec(), fill_to("a b, ", MEBIBYTE - 99), b"]".to_vec()].concat()
    }),
    ("long_plain_text", Ending::Accepted, || {
        [b"description: ".to_vec(), fill_to("x", MEBIBYTE - 99)].concat()
    }),
    ("long_plain_text_of_many_lines", Ending::Accepted, || {
        [b"description:\n".to_vec(), fill_to("  x\n", MEBIBYTE - 99)].concat()
    }),
    ("long_block_text", Ending::Accepted, || {
        [b"description: |\n".to_vec(), fill_to("  x\n", MEBIBYTE - 99)].concat()
    }),
    ("long_host", Ending::Refused, || {
        [b"network_allowlist: [".to_vec(), fill_to("a.", MEBIBYTE - 99), b"b]".to_vec()].concat()
    }),
    ("long_tool", Ending::Refused, || {
        [b"tool_allowlist: [".to_vec(), fill_to("a", MEBIBYTE - 99), b"]".to_vec()].concat()
    }),
    ("long_word", Ending::Refused, || {
        [b"isolation: ".to_vec(), fill_to("vm", MEBIBYTE - 99)].concat()
    }),
    ("long_number", Ending::Refused, || {
        [b"limits: {max_pids: ".to_vec(), fill_to("9", MEBIBYTE - 99), b"}".to_vec()].concat()
    }),
    ("many_hosts", Ending::Accepted, || {
        [b"network_allowlist:\n".to_vec(), numbered(4096, |n| format!("- h{n}.example.org\n"))]
            .concat()
    }),
    ("many_tools", Ending::Accepted, || {
        [b"tool_allowlist:\n".to_vec(), numbered(2_000, |n| format!("- t{n}\n"))].concat()
    }),
    ("many_mounts", Ending::Accepted, || {
        let mounts = numbered(200, |n| format!("  - /data/m{n}\n"));
        [b"filesystem:\n  read:\n".to_vec(), mounts].concat()
    }),
    ("too_many_mounts", Ending::Refused, || {
        let list = |key: &str| {
            let mounts = numbered(9_000, |n| format!("  - /data/{n}\n"));
            [format!(" {key}:\n").into_bytes(), mounts].concat()
        };
        [b"filesystem:\n".to_vec(), list("read"), list("write"), list("hide")].concat()
    }),
    ("most_mounts_of_each_kind", Ending::Accepted, || {
        let list = |key: &str| {
            let mounts = numbered(200, |n| format!("  - /data/{key}{n}\n"));
            [format!(" {key}:\n").into_bytes(), mounts].concat()
        };
        [b"filesystem:\n".to_vec(), list("read"), list("write"), list("hide")].concat()
    }),
    ("too_many_seccomp_profiles", Ending::Refused, || {
        let profiles = numbered(49_000, |n| format!("- p{n}\n"));
        [b"typo: 1\nseccomp:\n".to_vec(), profiles].concat()
    }),
    ("most_tools_and_commands", Ending::Accepted, || {
        let tools = numbered(4_096, |n| format!("- tool{n}\n"));
        let commands = numbered(4_096, |n| format!("- command{n}\n"));
        [b"tool_allowlist:\n".to_vec(), tools, b"command_allowlist:\n".to_vec(), commands].concat()
    }),
    ("many_large_regexes", Ending::Accepted, || {
        let rule = |n: usize| {
            let condition = r"{field: code, operator: matches, value: '\w\w\w'}";
            format!("- {{name: r{n}, action: deny, condition: {condition}}}\n")
        };
        [b"rules:\n".to_vec(), numbered(60, rule)].concat()
    }),
    ("many_small_regexes", Ending::Refused, || {
        let rule = |n: usize| {
            let condition = "{field: code, operator: matches, value: a}";
            format!("- {{name: r{n}, action: deny, condition: {condition}}}\n")
        };
        [b"rules:\n".to_vec(), numbered(1000, rule)].concat()
    }),
    ("many_expensive_regexes", Ending::Refused, || {
        let rule = |n: usize| {
            let condition = r"{field: code, operator: matches, value: '(\w{1,60}){1,60}'}";
            format!("- {{name: r{n}, action: deny, condition: {condition}}}\n")
        };
        [b"rules:\n".to_vec(), numbered(400, rule)].concat()
    }),
];

#[test]
fn every_bomb_stays_within_time_and_memory() {
    if let Ok(case) = std::env::var(CASE) {
        return run_case(&case);
    }
    let own_path = std::env::current_exe().unwrap();
    let mut failures = Vec::new();
    for (name, ..) in CASES {
        let child = Command::new(&own_path)
            .args(["--exact", "every_bomb_stays_within_time_and_memory", "--nocapture"])
            .env(CASE, name)
            .output()
            .unwrap();
        if !child.status.success() {
            let errors = String::from_utf8_lossy(&child.stderr).into_owned();
            failures.push(format!("{name}: {errors}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_case_that_takes_too_much_memory_fails() {
    let before = peak_kibibytes();
    let taken = std::hint::black_box(vec![1_u8; 80 << 20]);
    assert!(peak_kibibytes() - before > MOST_KIBIBYTES, "{}", taken.len());
}

fn run_case(name: &str) {
    let (_, ending, make) = CASES.iter().find(|(case, ..)| *case == name).expect("a case's name");
    let text = PolicyText { name: name.to_owned(), bytes: make(), base: PathBuf::from("/srv/p") };
    let before = peak_kibibytes();
    let start = Instant::now();
    let parsed = Policy::parse(&text);
    let found = match &parsed {
        Ok(_) => Ending::Accepted,
        Err(errors) => {
            // The printed errors stay short for any text.
            let shown = errors.to_string();
            assert!(shown.len() < 100_000, "{} bytes of messages", shown.len());
            Ending::Refused
        }
    };
    let (taken, grown) = (start.elapsed(), peak_kibibytes() - before);
    println!("{name}: {taken:?}, {grown} KiB");
    assert_eq!(found, *ending, "{:?}", parsed.err());
    assert!(taken < SLOWEST, "took {taken:?}");
    assert!(grown < MOST_KIBIBYTES, "took {grown} KiB");
}

/// The peak resident memory of this process.
fn peak_kibibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux reports VmHWM");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn fill(unit: &str) -> Vec<u8> {
    fill_to(unit, MEBIBYTE)
}

fn fill_to(unit: &str, bytes: usize) -> Vec<u8> {
    unit.repeat(bytes / unit.len()).into_bytes()
}

fn numbered(count: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).map(line).collect::<String>().into_bytes()
}

fn billion_laughs() -> Vec<u8> {
    let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    text.into_bytes()
}

fn long_text_laughs() -> Vec<u8> {
    let aliases = vec!["*a"; 40_000].join(", ");
    format!("a: &a {}\nb: [{aliases}]\n", "x".repeat(500_000)).into_bytes()
}

fn alias_chain() -> Vec<u8> {
    let links = numbered(5_000, |n| format!("a{}: &a{} [*a{n}]\n", n + 1, n + 1));
    [b"a0: &a0 [1]\n".to_vec(), links].concat()
}
