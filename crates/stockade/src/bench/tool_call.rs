//! One tool call from Python inside.

use std::convert::Infallible;
use std::path::Path;

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_engine::{Tool, Tools};

use super::report::{Bound, Row};
use super::rows::passes;
use super::samples::{Side, timed};
use super::sandboxes::Interface;
use crate::args::BenchArgs;

/// Calls once to load modules and connect, then measures one call.
const CODE: &str = "
import time
assert shout(text='warm') == 'WARM'
before = time.perf_counter()
answer = shout(text='hello')
took = time.perf_counter() - before
assert answer == 'HELLO'
print(took * 1000)
";

#[derive(Deserialize, Serialize, JsonSchema)]
struct Said {
    text: String,
}

fn shout(said: &Said) -> String {
    said.text.to_uppercase()
}

/// The row; `python` is the interpreter inside.
pub(super) fn row(args: &BenchArgs, python: &Path) -> anyhow::Result<Row> {
    let mut tools = Tools::new();
    let answer = |said: Said| Ok::<_, Infallible>(shout(&said));
    tools.add(Tool::new("shout", "Says it in capital letters.", answer)?)?;
    let interface = Interface::with_tools(Some(python), tools)?;
    let words = ["python3", "-c", CODE].map(str::to_owned);
    let side = |name: &str, command: &str, round| Side {
        name: name.to_owned(),
        command: command.to_owned(),
        round,
    };
    let mut sides = vec![
        side(
            "stockade",
            "shout(text='hello') # in Python inside, after a first call",
            Box::new(|| told(&interface.printed(&words)?)),
        ),
        side("the tool itself", "shout(&said) # in Rust", Box::new(by_itself)),
    ];
    let what = "one call of a tool from Python inside and its answer, beyond the tool itself";
    let bound = Bound::Added { against: "the tool itself", most: 1.0 };
    let passes = passes("tool-call", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("tool-call", what), "ms", bound, passes))
}

fn told(printed: &str) -> anyhow::Result<f64> {
    printed.trim().parse().with_context(|| format!("no time but this was printed: {printed:?}"))
}

fn by_itself() -> anyhow::Result<f64> {
    let said = Said { text: "hello".to_owned() };
    Ok(timed(|| Ok(std::hint::black_box(shout(std::hint::black_box(&said)))))?.0)
}
