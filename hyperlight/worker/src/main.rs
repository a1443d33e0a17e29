//! Owns one Hyperlight micro-VM and runs Python programs in it.
//!
//! ```text
//! worker serve IMAGE          frames on standard input and output, see protocol.rs
//! worker probe                starts a machine, says why it cannot
//! worker compile COMPONENT IMAGE
//! ```
//! This process is hostile for the host: a program that leaves the machine is here. The host jails
//! it, and everything that a program may do is a call to the host.

mod compile;
mod frames;
mod machine;
mod serve;

#[path = "../../../crates/stockade-hyperlight/src/protocol.rs"]
mod protocol;
#[path = "../../world/src/renaming.rs"]
mod renaming;

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["serve", image] => serve::serve(Path::new(image)),
        ["probe"] => machine::probe(),
        ["compile", component, image] => compile::compile(Path::new(component), Path::new(image)),
        _ => Err("usage: stockade-hyperlight-worker serve IMAGE | probe | compile COMPONENT IMAGE"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A closed standard error changes nothing.
            let _ = writeln!(std::io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}
