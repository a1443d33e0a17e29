//! Runs the double by hand or for tests in other languages: prints the variables for its clients as
//! one JSON object, and serves until its standard input ends. Then it prints what reached it.

use std::io::{Read, Write, stdin, stdout};

use anyhow::Result;
use serde_json::{Map, Value, json};
use stockade_azure_double::Double;

fn main() -> Result<()> {
    if let Some(reason) = stockade_azure_double::why_not() {
        writeln!(stdout(), "{}", json!({ "cannot": reason }))?;
        return Ok(());
    }
    let double = match std::env::args().nth(1).as_deref() {
        Some("--without-group") => Double::without_group()?,
        _ => Double::start()?,
    };
    let variables: Map<String, Value> =
        double.variables().into_iter().map(|(name, value)| (name, json!(value))).collect();
    writeln!(stdout(), "{}", json!({ "variables": variables }))?;
    stdout().flush()?;
    stdin().read_to_end(&mut Vec::new())?;
    let log: Vec<Value> = double.log().iter().map(|entry| entry.to_json()).collect();
    let ended = json!({ "log": log, "left": double.sandboxes(), "created": double.created() });
    writeln!(stdout(), "{ended}")?;
    Ok(())
}
