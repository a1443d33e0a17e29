//! Many short pieces of code in one session, through the Python package.

use std::path::PathBuf;
use std::time::Duration;

use super::peers::on_path;
use super::programs::{Timed, output};
use super::progress;
use super::report::{Bound, Missing, Pass, Row};
use super::samples::in_turns;
use crate::args::BenchArgs;

/// Both programs run 200 snippets, so a few rounds suffice.
const MOST_ROUNDS: u32 = 5;

/// What both programs print.
const DONE: &str = "200 snippets\n";

const OURS: &str = "
import tempfile
from stockade import Sandbox

with tempfile.TemporaryDirectory() as records, Sandbox(record=records) as sandbox:
    for number in range(200):
        printed = sandbox.run_code(f'print({number} * 2)').stdout
        assert printed == f'{number * 2}\\n', printed
print('200 snippets')
";

const BARE: &str = "
import subprocess, sys

for number in range(200):
    argv = [sys.executable, '-c', f'print({number} * 2)']
    printed = subprocess.run(argv, capture_output=True, check=True, text=True).stdout
    assert printed == f'{number * 2}\\n', printed
print('200 snippets')
";

pub(super) fn row(args: &BenchArgs) -> anyhow::Result<Row> {
    let python = interpreter()?;
    let argv = |program: &str| [python.clone().into_os_string(), "-c".into(), program.into()];
    let mut sides = [
        Timed::new("stockade", argv(OURS), DONE).side(),
        Timed::new("200 × python3 -c", argv(BARE), DONE).side(),
    ];
    let rounds = args.rounds.min(MOST_ROUNDS);
    let tell = |round| progress(&format!("python-snippets: {round} of {rounds}"));
    let sides = in_turns(&mut sides, rounds, Duration::ZERO, tell)?;
    let passes = vec![Pass { apart_ms: 0, sides }];
    let what = "a Python program that runs 200 snippets in one session of the package `stockade`";
    let bound = Bound::Ratio { against: "200 × python3 -c", most: 1.0 };
    Ok(Row::new(("python-snippets", what), "ms", bound, passes))
}

/// The `python3` of the search path, if the package is installed there.
fn interpreter() -> anyhow::Result<PathBuf> {
    let remedy = "install Python 3, and the package with `pip install .` in the source of Stockade";
    let missing = |reason: &str| Missing { reason: reason.to_owned(), remedy };
    let python = on_path("python3").ok_or_else(|| missing("python3 is not installed"))?;
    let argv = [python.clone().into_os_string(), "-c".into(), "import stockade".into()];
    match output(&argv)?.status.success() {
        true => Ok(python),
        false => Err(missing("the package `stockade` is not installed for python3").into()),
    }
}
