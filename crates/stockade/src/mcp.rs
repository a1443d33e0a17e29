//! `stockade mcp`: sandboxes for MCP clients, over standard input and output.
//!
//! ```text
//! client ── a line of JSON per message ──▶ streams ──▶ rmcp ──▶ server ──▶ tools
//!                                                                            │
//!                     supervisors, one per sandbox ◀── frames over sockets ──┘
//! ```
//! Each sandbox is a session with its own supervisor, as `stockade create` makes it, so that other
//! commands can see it. A supervisor holds a tether to this process: when the client disconnects or
//! this process dies, the kernel closes the tether and the sandbox ends.

mod answer;
mod explain;
mod files;
mod kept;
mod program;
mod sandboxes;
mod schema;
mod server;
mod shown;
mod state;
mod streams;
mod tools;

use std::io::{IsTerminal, stdin};
use std::sync::Arc;

use rmcp::ServiceExt;
use tokio::runtime::Builder;

use crate::args::McpArgs;
use crate::render::Output;
use crate::run::interrupt::Interrupts;
use crate::{Problem, invocation};

use sandboxes::Sandboxes;
use server::Server;

/// Serves one client until it disconnects.
pub(crate) fn serve(args: McpArgs, output: Output) -> anyhow::Result<u8> {
    if output == Output::Json {
        let message = "--json does not apply to `stockade mcp`: it writes protocol messages";
        return Err(Problem::new(message, "leave it out").into());
    }
    if stdin().is_terminal() {
        let message = "standard input is a terminal, and `stockade mcp` reads protocol messages";
        let remedy = "let an MCP client start it; docs/mcp.md has what to write into its settings";
        return Err(Problem::new(message, remedy).into());
    }
    let cannot = |error: std::io::Error| {
        let message = format!("cannot serve an MCP client: {error}");
        Problem::new(message, "check how many files may be open, with `ulimit -n`")
    };
    let sandboxes = Arc::new(Sandboxes::new(args, invocation::arguments())?);
    crate::run::reserve_descriptors().map_err(cannot)?;
    // Before anything else can write to standard output.
    let (input, out, gone) = streams::of_client().map_err(cannot)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let interrupts = Interrupts::wanted();
    let served = runtime.block_on(async {
        let interrupted = interrupts.come().map_err(cannot)?;
        let server = Server::new(Arc::clone(&sandboxes), gone.clone());
        let serving = async {
            // A client that sends nothing before it disconnects is not an error.
            if let Ok(running) = server.serve(streams::transport(input, out)).await {
                // Ends with the client's end of file.
                let _ = running.waiting().await;
            }
        };
        tokio::select! {
            () = serving => {}
            () = interrupted => {}
        }
        gone.set();
        anyhow::Ok(())
    });
    sandboxes.end();
    // The thread that reads the client's messages may block for ever.
    runtime.shutdown_background();
    served.map(|()| 0)
}
