//! `stockade-internet COMMAND…` runs a command on the fake internet; `stockade-internet --serve`
//! runs one of its web servers on the host's loopback. See docs/testing.md.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Result;
use stockade_internet::WebServer;

fn main() -> ExitCode {
    let serves = std::env::args_os().nth(1).is_some_and(|word| word == "--serve");
    let problem = match serves.then(serve) {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => format!("{error:#}"),
        None => start(),
    };
    // Best effort: standard error may be closed.
    let _ = writeln!(std::io::stderr(), "stockade-internet: {problem}");
    // The code that env(1) and similar programs use for their own failures.
    ExitCode::from(125)
}

/// Executes the command, or returns why that failed.
fn start() -> String {
    let entered = stockade_internet::enter();
    let mut words = std::env::args_os().skip(1).skip_while(|word| word == "--");
    let Some(program) = words.next() else {
        return "usage: stockade-internet [--] COMMAND [ARGUMENT…], or --serve".to_owned();
    };
    match entered {
        Err(error) => error.in_one_line(),
        Ok(internet) => {
            let mut command = Command::new(&program);
            stockade_internet::set_environment(command.args(words), &internet);
            // The servers watch this process, which becomes the command.
            format!("{}: {}", program.display(), command.exec())
        }
    }
}

/// Serves until standard input ends, after one line of JSON with the addresses.
fn serve() -> Result<()> {
    let server = WebServer::start(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    let facts = serde_json::json!({
        "http": server.http(),
        "https": server.https(),
        "authority": server.authority_pem(),
    });
    let mut output = std::io::stdout().lock();
    writeln!(output, "{facts}")?;
    output.flush()?;
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(())
}
