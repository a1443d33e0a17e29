//! The command line of Stockade.

mod args;
mod audit;
mod bench;
mod clock;
mod doctor;
mod load;
mod pages;
mod policy;
mod problem;
mod render;
mod run;
mod shell;
mod version;

use std::process::ExitCode;

use args::{Cli, Command};
use problem::Problem;
use render::Output;

/// The exit code of every error of Stockade itself.
const ERROR: u8 = 125;

/// How much freed memory the allocator keeps for the gate's buffers: getting each page from the
/// kernel again slows a download. Set in `main` because it applies to the whole process.
const KEPT_BYTES: usize = 2 << 20;

fn main() -> ExitCode {
    stockade_sys::keep_freed_memory(KEPT_BYTES);
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return render::usage(&error),
    };
    let output = cli.output();
    match dispatch(cli.command, output) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            render::failure(output, &error);
            ExitCode::from(ERROR)
        }
    }
}

fn dispatch(command: Command, output: Output) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(&args, output),
        Command::Audit(args) => audit::run(args, output),
        Command::Bench(args) => bench::run(&args, output),
        Command::Doctor(args) => doctor::run(&args, output),
        Command::Policy(args) => policy::run(args.command, output),
        Command::Completions(args) => pages::completions(args.shell, output),
        Command::Man(args) => pages::man(args.dir.as_deref(), output),
        Command::Version => version::run(output),
    }
}
