//! The rows, and how each is measured.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::leftovers::Count;
use super::network;
use super::peers::{self, Absent};
use super::programs::{Timed, output, shown};
use super::progress;
use super::records::Records;
use super::report::{Bound, Machine, Missing, NotMeasured, Pass, Report, Row};
use super::samples::{APART, Samples, Side, in_turns};
use super::sandboxes::Interface;
use super::{
    docker_rows, mcp_row, session_rows, snippets, state_rows, tool_call, vm_rows, wasm_rows,
};
use crate::args::BenchArgs;

pub(crate) const ROW_NAMES: [&str; 33] = [
    "run",
    "python-cli",
    "python-api",
    "destroy",
    "idle-memory",
    "download",
    "request",
    "request-kept",
    "download-opened",
    "request-opened",
    "request-opened-kept",
    "tool-call",
    "exec",
    "code",
    "context",
    "session-destroy",
    "session-memory",
    "checkpoint",
    "fork",
    "crowd",
    "mcp-run-code",
    "python-snippets",
    "docker-run",
    "docker-exec",
    "docker-destroy",
    "vm-boot",
    "vm-run",
    "vm-exec",
    "wasm-new",
    "wasm-code",
    "hyperlight-new",
    "hyperlight-code",
    "rounds",
];

/// The number of runs in the row `rounds`, and how many of them run at a time.
const MANY: usize = 1000;
const AT_ONCE: usize = 10;

/// Code with a result, started the usual way: with the modules that Python loads at startup.
pub(super) const CODE: [&str; 2] = ["-c", "print(1)"];
pub(super) const RESULT: &str = "1\n";

pub(super) fn measure(args: &BenchArgs) -> anyhow::Result<Report> {
    let stockade = std::env::current_exe().context("cannot find this program's own file")?;
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        rounds: args.rounds,
        rows: Vec::new(),
        not_measured: Vec::new(),
        absent_peers: Vec::new(),
    };
    let ours = Ours { stockade, records: Records::new()? };
    for row in ROW_NAMES {
        if !args.rows.is_empty() && !args.rows.iter().any(|asked| asked == row) {
            continue;
        }
        progress(&format!("{row} …"));
        let measured = one(row, args, &ours, &mut report.absent_peers);
        progress("");
        match measured {
            Ok(measured) => report.rows.push(measured),
            Err(error) => {
                let missing = error.downcast_ref::<Missing>();
                report.not_measured.push(NotMeasured {
                    row,
                    reason: format!("{error:#}"),
                    remedy: missing.map_or_else(|| remedy(row), |missing| missing.remedy),
                    is_failure: missing.is_none() || !args.rows.is_empty(),
                });
            }
        }
    }
    // Several rows may miss the same peer.
    let mut seen = BTreeSet::new();
    report.absent_peers.retain(|absent| seen.insert(absent.peer));
    Ok(report)
}

/// The measured binary, and the directory for the records of its runs.
pub(super) struct Ours {
    stockade: PathBuf,
    records: Records,
}

impl Ours {
    pub(super) fn stockade(&self) -> &Path {
        &self.stockade
    }

    pub(super) fn argv(&self, words: &[&str]) -> Vec<OsString> {
        self.records.ours(&self.stockade, words)
    }
}

fn remedy(row: &str) -> &'static str {
    match row {
        "idle-memory" | "session-memory" => {
            "run it as root: only root may read the memory of a sandbox's processes"
        }
        "python-cli" | "python-api" | "tool-call" | "code" | "context" | "mcp-run-code" => {
            "see that `stockade run -- python3 -c 'print(1)'` works"
        }
        row if network::ROWS.contains(&row) => {
            "install the packages python3, openssl and curl, and see that \
             `stockade run -- curl --version` works"
        }
        "python-snippets" => "see that `python3 -m stockade run -- /bin/true` works",
        "docker-run" | "docker-exec" | "docker-destroy" => {
            "see that `stockade run --provider docker -- /bin/true` works"
        }
        "vm-boot" | "vm-run" | "vm-exec" => {
            "see that `stockade run --provider qemu -- /bin/true` works"
        }
        "wasm-new" | "wasm-code" => {
            "see that `stockade run --provider wasm examples/hello.py` works"
        }
        "hyperlight-new" | "hyperlight-code" => {
            "see that `stockade run --provider hyperlight examples/hello.py` works"
        }
        _ => "see that `stockade run -- /bin/true` works",
    }
}

fn one(
    row: &'static str,
    args: &BenchArgs,
    ours: &Ours,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Row> {
    match row {
        "run" => run(args, ours, absent),
        "python-cli" => python_cli(args, ours),
        "python-api" => python_api(args, ours),
        "destroy" => destroy(args),
        "idle-memory" => idle_memory(args),
        row if network::ROWS.contains(&row) => network::row(row, args, ours, absent),
        "tool-call" => tool_call::row(args, &interpreter(ours)?),
        "exec" => session_rows::exec(args, ours, absent),
        "code" => session_rows::code(args, ours),
        "context" => session_rows::context(args, ours),
        "session-destroy" => session_rows::destroy(args, ours),
        "session-memory" => session_rows::memory(args, ours),
        "checkpoint" => state_rows::checkpoint(args, ours),
        "fork" => state_rows::fork(args, ours),
        "crowd" => session_rows::crowd(ours),
        "mcp-run-code" => mcp_row::row(args, ours),
        "python-snippets" => snippets::row(args),
        "docker-run" => docker_rows::run(args, ours),
        "docker-exec" => docker_rows::exec(args, ours),
        "docker-destroy" => docker_rows::destroy(args, ours),
        "vm-boot" => vm_rows::boot(args, ours),
        "vm-run" => vm_rows::run(args, ours),
        "vm-exec" => vm_rows::exec(args, ours),
        "wasm-new" => wasm_rows::new(args, ours, &wasm_rows::WASM),
        "wasm-code" => wasm_rows::code(args, ours, &wasm_rows::WASM),
        "hyperlight-new" => wasm_rows::new(args, ours, &wasm_rows::HYPERLIGHT),
        "hyperlight-code" => wasm_rows::code(args, ours, &wasm_rows::HYPERLIGHT),
        _ => rounds(ours),
    }
}

fn run(args: &BenchArgs, ours: &Ours, absent: &mut Vec<Absent>) -> anyhow::Result<Row> {
    let (found, missing) = peers::around_true(&args.against, args.image.as_deref(), &ours.stockade);
    absent.extend(missing);
    let argv = ours.argv(&["--", "/bin/true"]);
    let mut sides = vec![Timed::new("stockade", argv, "").side()];
    sides.extend(found.into_iter().map(Timed::side));
    let what = "`stockade run -- /bin/true`; bwrap has the same mounts, bwrap-lean the fewest";
    let bound = Bound::Ratio { against: "bwrap", most: 1.5 };
    Ok(Row::new(("run", what), "ms", bound, passes("run", &mut sides, args)?))
}

fn python_cli(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let python = interpreter(ours)?;
    let mut argv = ours.argv(&["--python"]);
    argv.extend([python.clone().into_os_string(), "--".into()]);
    argv.extend(python_words(Path::new("python3")).into_iter().map(OsString::from));
    let mut sides = vec![
        Timed::new("stockade", argv, RESULT).side(),
        Timed::new("bare", python_words(&python), RESULT).side(),
    ];
    let what = "a new sandbox to its first Python result, through the command line";
    let bound = Bound::Ratio { against: "bare", most: 1.7 };
    Ok(Row::new(("python-cli", what), "ms", bound, passes("python-cli", &mut sides, args)?))
}

fn python_api(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let python = interpreter(ours)?;
    let interface = Interface::new(Some(&python))?;
    let words = python_words(Path::new("python3"));
    let ours = Side {
        name: "stockade".to_owned(),
        command: format!("Engine::run({words:?})"),
        round: Box::new(|| interface.run(&words, RESULT)),
    };
    let mut sides = vec![ours, Timed::new("bare", python_words(&python), RESULT).side()];
    let what = "a new sandbox to its first Python result, through the Rust interface";
    let bound = Bound::Ratio { against: "bare", most: 1.5 };
    let passes = passes("python-api", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("python-api", what), "ms", bound, passes))
}

fn destroy(args: &BenchArgs) -> anyhow::Result<Row> {
    let interface = Interface::new(None)?;
    let side = |name: &str, command: &str, round| Side {
        name: name.to_owned(),
        command: command.to_owned(),
        round,
    };
    let mut sides = vec![
        side("stockade", "drop(sandbox)", Box::new(|| interface.destroy())),
        side("until nothing is left", "sandbox.end().await", Box::new(|| interface.end())),
    ];
    let passes = passes("destroy", &mut sides, args)?;
    drop(sides);
    let what = "ending a sandbox, as its caller sees it";
    Ok(Row::new(("destroy", what), "ms", Bound::Median { most: 5.0 }, passes))
}

fn idle_memory(args: &BenchArgs) -> anyhow::Result<Row> {
    let interface = Interface::new(None)?;
    let side = Side {
        name: "stockade".to_owned(),
        command: "Pss of supervisor and first process".to_owned(),
        round: Box::new(|| interface.memory()),
    };
    let sides = in_turns(&mut [side], args.rounds, Duration::ZERO, |_| {})?;
    let passes = vec![Pass { apart_ms: 0, sides }];
    let what = "memory of a sandbox in which nothing runs";
    Ok(Row::new(("idle-memory", what), "MB", Bound::Median { most: 4.0 }, passes))
}

fn rounds(ours: &Ours) -> anyhow::Result<Row> {
    let argv = ours.argv(&["--", "/bin/true"]);
    let before = Count::now();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let failed = std::thread::scope(|scope| {
        let worker = || {
            use std::sync::atomic::Ordering::Relaxed;
            while done.fetch_add(1, Relaxed) < MANY {
                let output = output(&argv)?;
                if !output.status.success() {
                    bail!("a run ended with {}", output.status);
                }
                progress(&format!("rounds {} of {MANY}", done.load(Relaxed).min(MANY)));
            }
            Ok(())
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let results =
            workers.into_iter().map(|it| it.join().unwrap_or_else(|_| bail!("a thread panicked")));
        results.collect::<anyhow::Result<Vec<()>>>()
    });
    failed?;
    let left = Count::more_since(&before, Duration::from_secs(2));
    let command = format!("{} # {MANY} times, {AT_ONCE} at a time", shown(&argv));
    let samples = Samples::new("stockade".to_owned(), command, vec![left as f64]);
    let what =
        "1000 runs, 10 at a time: processes, cgroups, mounts, descriptors, threads and files left";
    let passes = vec![Pass { apart_ms: 0, sides: vec![samples] }];
    Ok(Row::new(("rounds", what), "left", Bound::Median { most: 0.0 }, passes))
}

/// Both passes over the same sides.
pub(super) fn passes(
    row: &str,
    sides: &mut [Side<'_>],
    args: &BenchArgs,
) -> anyhow::Result<Vec<Pass>> {
    let mut passes = Vec::new();
    for pause in [Duration::ZERO, APART] {
        let tell = |round| {
            progress(&format!("{row}, {} ms apart: {round} of {}", pause.as_millis(), args.rounds))
        };
        let sides = in_turns(sides, args.rounds, pause, tell)?;
        passes.push(Pass { apart_ms: pause.as_millis(), sides });
    }
    Ok(passes)
}

pub(super) fn python_words(python: &Path) -> Vec<String> {
    let mut words = vec![python.display().to_string()];
    words.extend(CODE.map(str::to_owned));
    words
}

/// The path of `python3` inside a sandbox, which is the same on the host.
pub(super) fn interpreter(ours: &Ours) -> anyhow::Result<PathBuf> {
    let code = "import os, sys; print(os.path.realpath(sys.executable))";
    let output = output(&ours.argv(&["--", "python3", "-I", "-S", "-c", code]))?;
    if !output.status.success() {
        bail!("no Python starts inside: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn machine() -> Machine {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Machine {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        architecture: std::env::consts::ARCH,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        load: load.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default(),
        user: rustix::process::getuid().as_raw(),
    }
}
