//! `stockade kill`.

use serde_json::json;
use stockade_api::{Reply, Request};
use stockade_engine::signal_name;

use super::client;
use crate::Problem;
use crate::args::KillArgs;
use crate::render::{self, Output};

pub(crate) fn kill(args: &KillArgs, output: Output) -> anyhow::Result<u8> {
    let signal = number(&args.signal)?;
    let name = args.session.as_str();
    let executions = client::runtime()?.block_on(async {
        let executions = match args.execution {
            Some(execution) => vec![execution],
            None => match client::ask(name, Request::Ps).await? {
                Reply::Executions(views) => {
                    let running = views.iter().filter(|view| view.state == "running");
                    running.map(|view| view.execution).collect()
                }
                _ => return Err(client::confused(name).into()),
            },
        };
        let mut signalled = Vec::new();
        for execution in executions {
            match client::ask(name, Request::Signal { execution, signal }).await {
                Ok(_) => signalled.push(execution),
                // It may have ended since it was listed.
                Err(_) if args.execution.is_none() => {}
                Err(error) => return Err(error),
            }
        }
        anyhow::Ok(signalled)
    })?;
    match output {
        Output::Json => render::json(&json!({ "signal": signal, "executions": executions }))?,
        Output::Text => {
            executions.iter().try_for_each(|execution| render::text(&format!("{execution}\n")))?;
        }
    }
    Ok(0)
}

/// A signal by number or by name, with or without `SIG`.
fn number(text: &str) -> Result<i32, Problem> {
    let upper = text.to_ascii_uppercase();
    let named = |number: &i32| {
        let name = signal_name(*number);
        name == upper || name.strip_prefix("SIG") == Some(&upper)
    };
    let found = match upper.parse::<i32>() {
        Ok(number) => (1..=64).contains(&number).then_some(number),
        Err(_) => (1..=31).find(named),
    };
    found.ok_or_else(|| {
        let message = format!("no signal is called `{text}`");
        Problem::new(message, "write a name such as INT, or a number from 1 to 64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, signal) in [("KILL", 9), ("SIGINT", 2), ("term", 15), ("9", 9), ("64", 64)] {
            assert_eq!(number(text).unwrap(), signal, "{text}");
        }
        for text in ["", "0", "65", "-1", "NOTHING", "SIG"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
