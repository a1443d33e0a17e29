//! `stockade-internet COMMAND…`: runs a command on the fake internet; docs/testing.md.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let problem = start();
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(std::io::stderr(), "stockade-internet: {problem}");
    // As with other programs that start programs, and unlikely as the command's own.
    ExitCode::from(125)
}

/// Goes on as the command, or returns why not.
fn start() -> String {
    let entered = stockade_internet::enter();
    let mut words = std::env::args_os().skip(1).skip_while(|word| word == "--");
    let Some(program) = words.next() else {
        return "usage: stockade-internet [--] COMMAND [ARGUMENT…]".to_owned();
    };
    match entered {
        Err(error) => error.in_one_line(),
        Ok(internet) => {
            let mut command = Command::new(&program);
            stockade_internet::equip(command.args(words), &internet);
            // The servers watch this process, which goes on as the command.
            format!("{}: {}", program.display(), command.exec())
        }
    }
}
