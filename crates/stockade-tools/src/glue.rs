//! The files that programs find for the tools: modules for Python and JavaScript, and the listing.
//!
//! These files are a convenience and not a security boundary: the host decides what a program may
//! call.

mod document;
mod literal;
mod python;

use crate::listed::Listed;

/// The directory of the files inside the sandbox.
const DIRECTORY: &str = "/run/stockade";

/// The socket on which programs call tools.
const SOCKET: &str = "/run/stockade/tools.sock";

/// The files by their path below the directory.
pub(crate) fn files(tools: &[Listed]) -> Vec<(String, Vec<u8>)> {
    let listing =
        serde_json::to_vec(tools).expect("a listing is plain values, and memory takes every byte");
    let texts = [
        ("python/sitecustomize.py", include_str!("../glue/sitecustomize.py").to_owned()),
        ("python/stockade_tools.py", include_str!("../glue/stockade_tools.py").to_owned()),
        ("python/_stockade_listing.py", python::listing(tools)),
        ("node/tools.cjs", include_str!("../glue/tools.cjs").to_owned()),
    ];
    let mut files: Vec<(String, Vec<u8>)> =
        texts.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes())).collect();
    files.push(("tools.json".to_owned(), listing));
    files
}

/// The variables through which the interpreters find the files.
pub(crate) fn environment() -> Vec<(String, String)> {
    vec![
        ("PYTHONPATH".to_owned(), format!("{DIRECTORY}/python")),
        ("NODE_OPTIONS".to_owned(), format!("--require={DIRECTORY}/node/tools.cjs")),
        ("STOCKADE_TOOLS_SOCKET".to_owned(), SOCKET.to_owned()),
    ]
}

#[cfg(test)]
#[path = "glue_tests.rs"]
mod tests;
