//! The rows about the walls that run the component, next to the bare interpreter.

use stockade_provider::{Language, Probe, Program};

use super::programs::Timed;
use super::report::{Bound, Missing, Row};
use super::rows::{CODE, Ours, RESULT, interpreter, passes, python_words};
use super::samples::Side;
use super::sandboxes::Interface;
use super::sessions::{Sessions, What};
use crate::args::BenchArgs;

const PYTHON: What<'static> = What::Python { code: CODE[1], prints: RESULT };

/// One of the walls, with the texts of its rows.
pub(super) struct ComponentWall {
    name: &'static str,
    remedy: &'static str,
    feature: &'static str,
    new: (&'static str, &'static str, Bound),
    again: (&'static str, &'static str, Bound),
}

pub(super) const WASM: ComponentWall = ComponentWall {
    name: "wasm",
    remedy: "run `cargo xtask component python`",
    feature: "build it with `--features wasm`",
    new: (
        "wasm-new",
        "a new WebAssembly sandbox to its first Python result, through the Rust interface",
        Bound::Ratio { against: "bare", most: 0.6 },
    ),
    again: (
        "wasm-code",
        "one more execution of Python code in a WebAssembly session",
        Bound::Ratio { against: "bare", most: 0.25 },
    ),
};

pub(super) const HYPERLIGHT: ComponentWall = ComponentWall {
    name: "hyperlight",
    remedy: "run `stockade doctor --verbose`: it says what this host needs",
    feature: "build it with `--features hyperlight`",
    new: (
        "hyperlight-new",
        "a new micro-VM to its first Python result, through the Rust interface",
        Bound::Median { most: 1000.0 },
    ),
    again: (
        "hyperlight-code",
        "one more execution of Python code in a session with a micro-VM",
        Bound::Median { most: 50.0 },
    ),
};

/// Fails if this build has no such wall, or this host cannot run it.
fn check(wall: &ComponentWall) -> anyhow::Result<()> {
    let missing = |reason, remedy| Err(Missing { reason, remedy }.into());
    if !stockade_backends::is_built_in(wall.name) {
        let reason = format!("the {} wall is not built into this version", wall.name);
        return missing(reason, wall.feature);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let containers = stockade_backends::ContainerChoice::default();
    let facts = stockade_backends::wall_facts(wall.name, Probe::Quick, &containers);
    match runtime.block_on(facts).and_then(|facts| facts.unusable) {
        Some(obstacle) => missing(obstacle.reason, wall.remedy),
        None => Ok(()),
    }
}

pub(super) fn new(args: &BenchArgs, ours: &Ours, wall: &ComponentWall) -> anyhow::Result<Row> {
    check(wall)?;
    let python = interpreter(ours)?;
    let interface = Interface::new(None)?.behind(wall.name);
    let program = || Program::Code {
        language: Language::Python,
        name: "bench.py".to_owned(),
        code: CODE[1].as_bytes().to_vec(),
        arguments: Vec::new(),
    };
    // The first in a process loads the compiled component.
    interface.run_program(program(), RESULT)?;
    let ours = Side {
        name: "stockade".to_owned(),
        command: format!("Engine::run({:?}) behind {}", CODE[1], wall.name),
        round: Box::new(|| interface.run_program(program(), RESULT)),
    };
    let mut sides = vec![ours, Timed::new("bare", python_words(&python), RESULT).side()];
    let (row, what, bound) = wall.new;
    let passes = passes(row, &mut sides, args)?;
    drop(sides);
    Ok(Row::new((row, what), "ms", bound, passes))
}

pub(super) fn code(args: &BenchArgs, ours: &Ours, wall: &ComponentWall) -> anyhow::Result<Row> {
    check(wall)?;
    let python = interpreter(ours)?;
    let (row, what, bound) = wall.again;
    let sessions = Sessions::new(ours.stockade(), row)?;
    let session = sessions.create(&["--provider", wall.name])?;
    sessions.execute(&session, &PYTHON)?;
    let ours = Side {
        name: "stockade".to_owned(),
        command: format!("code SESSION, over its socket: print(1), behind {}", wall.name),
        round: Box::new(|| sessions.execute(&session, &PYTHON)),
    };
    let mut sides = vec![ours, Timed::new("bare", python_words(&python), RESULT).side()];
    let passes = passes(row, &mut sides, args)?;
    drop(sides);
    Ok(Row::new((row, what), "ms", bound, passes))
}
