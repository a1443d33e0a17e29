//! `stockade policy …`.

mod check;
mod diff;
mod init;
mod plan;
mod suggest;
pub(crate) mod why;

pub(crate) use init::write;
pub(crate) use plan::{because, refusals};

use crate::args::{Files, PolicyCommand};
use crate::load;
use crate::render::{self, Output};

pub(crate) fn run(command: PolicyCommand, output: Output) -> anyhow::Result<u8> {
    match command {
        PolicyCommand::Check(args) => check::run(&args.files, output),
        PolicyCommand::Init(args) => init::run(&args, output),
        PolicyCommand::Schema => schema(),
        PolicyCommand::Show(args) => show(&args, output),
        PolicyCommand::Why(args) => why::run(&args, output),
        PolicyCommand::Plan(args) => plan::run(&args, output),
        PolicyCommand::Suggest(args) => suggest::run(&args, output),
        PolicyCommand::Diff(args) => diff::run(&args, output),
    }
}

fn schema() -> anyhow::Result<u8> {
    render::json(&stockade_policy::schema())?;
    Ok(0)
}

fn show(args: &Files, output: Output) -> anyhow::Result<u8> {
    let policy = load::combined(&args.files)?;
    match output {
        Output::Json => render::json(&policy.to_value())?,
        Output::Text => render::text(&policy.to_yaml())?,
    }
    Ok(0)
}
