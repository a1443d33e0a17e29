//! `stockade policy diff`.

use serde_json::json;

use crate::args::DiffArgs;
use crate::load;
use crate::render::{self, Output};

pub(crate) fn run(args: &DiffArgs, output: Output) -> anyhow::Result<u8> {
    load::refuse_shared_input([args.base.as_path(), args.new.as_path()].into_iter())?;
    let base = load::policy(&args.base)?;
    let new = load::policy(&args.new)?;
    let widenings = new.widenings(&base);
    match output {
        Output::Json => render::json(&json!({
            "a": args.base.display().to_string(),
            "b": args.new.display().to_string(),
            "wider": !widenings.is_empty(),
            "allows": widenings,
        }))?,
        Output::Text if widenings.is_empty() => render::text("B allows nothing that A does not\n")?,
        Output::Text => {
            let mut text = String::from("B allows what A does not:\n");
            for widening in &widenings {
                text.push_str(&format!(
                    "  {:<28} {}\n",
                    widening.control.as_str(),
                    widening.allows
                ));
            }
            render::text(&text)?;
        }
    }
    Ok(u8::from(args.exit_code && !widenings.is_empty()))
}
