//! From the arguments to the command that they name.

use crate::args::{Cli, Command};
#[cfg(feature = "mcp")]
use crate::mcp;
use crate::render::{self, Output};
#[cfg(feature = "top")]
use crate::top;
use crate::{
    ERROR, audit, bench, doctor, image, init, pages, policy, run, sessions, state, version,
};

/// Runs the command that the arguments name, and returns the exit code of the process.
pub(crate) fn carry_out() -> u8 {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return render::usage(&error),
    };
    let output = cli.output();
    match dispatch(cli.command, output) {
        Ok(code) => code,
        Err(error) => {
            render::failure(output, &error);
            ERROR
        }
    }
}

fn dispatch(command: Command, output: Output) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(&args, output),
        Command::Init(args) => init::run(*args, output),
        Command::Create(args) => sessions::create(output, &args),
        Command::Exec(args) => sessions::exec(&args, output),
        Command::Code(args) => sessions::code(&args, output),
        Command::Context(args) => sessions::context(&args.command, output),
        Command::Port(args) => sessions::port(&args, output),
        Command::Shell(args) => sessions::shell(&args, output),
        Command::Cp(args) => sessions::cp(&args, output),
        Command::Ps(args) => sessions::ps(&args, output),
        Command::Attach(args) => sessions::attach(&args, output),
        Command::Kill(args) => sessions::kill(&args, output),
        Command::Secret(args) => sessions::secret(&args.command, output),
        Command::Ls(args) => sessions::ls(&args, output),
        Command::Inspect(args) => sessions::inspect(&args),
        Command::Logs(args) => sessions::logs(&args, output),
        Command::Stats(args) => sessions::stats(&args, output),
        #[cfg(feature = "top")]
        Command::Top(args) => top::top(&args, output),
        Command::Pause(args) => sessions::pause(&args, output),
        Command::Resume(args) => sessions::resume(&args, output),
        Command::Checkpoint(args) => state::checkpoint(&args, output),
        Command::Checkpoints(args) => state::checkpoints(&args, output),
        Command::Restore(args) => state::restore(&args, output),
        Command::Fork(args) => state::fork(&args, output),
        Command::Diff(args) => state::diff(&args, output),
        Command::Apply(args) => state::apply(&args, output),
        Command::Export(args) => state::export(&args, output),
        Command::Import(args) => state::import(&args, output),
        Command::Discard(args) => state::discard(&args, output),
        Command::Store(args) => state::store(&args, output),
        Command::Rm(args) => sessions::rm(&args, output),
        Command::Prune(args) => sessions::prune(&args, output),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::serve(*args, output),
        Command::Supervise => Ok(sessions::supervise()),
        Command::Image(args) => image::run(args, output),
        Command::Audit(args) => audit::run(args, output),
        Command::Bench(args) => bench::run(&args, output),
        Command::Doctor(args) => doctor::run(&args, output),
        Command::Policy(args) => policy::run(args.command, output),
        Command::Completions(args) => pages::completions(args.shell, output),
        Command::Man(args) => pages::man(args.dir.as_deref(), output),
        Command::Version => version::run(output),
    }
}
