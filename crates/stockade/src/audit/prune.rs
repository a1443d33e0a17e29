//! `stockade audit prune`.

use std::path::Path;

use serde_json::json;
use stockade_provider::chain;
use stockade_record::{Pruned, Time, prune};

use crate::Problem;
use crate::args::PruneArgs;
use crate::render::{self, Output};

use super::records;

pub(super) fn run(args: &PruneArgs, named: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let records = records(named)?;
    let seconds = i64::try_from(args.older_than)?;
    let before = Time::now().unix_microseconds().saturating_sub(seconds.saturating_mul(1_000_000));
    let before = Time::from_unix_microseconds(before).ok_or_else(|| {
        Problem::new("--older-than reaches too far back", "write a shorter time, such as 30d")
    })?;
    let old = Pruned { before, keep: args.keep }.of(&records);
    for record in &old {
        if !args.dry_run {
            prune(record).map_err(|error| {
                Problem::new(chain(&error), "check the permissions of the directory")
            })?;
        }
        if output == Output::Text {
            let verb = if args.dry_run { "would remove" } else { "removed" };
            render::text(&format!("{verb} {}\n", record.session))?;
        }
    }
    if output == Output::Text && old.is_empty() {
        render::talk(&format!("nothing to remove: {} records are kept", records.len()));
    }
    if output == Output::Json {
        let names: Vec<_> = old.iter().map(|record| &record.session).collect();
        let kept = records.len() - old.len();
        render::json(&json!({ "removed": names, "kept": kept, "dry_run": args.dry_run }))?;
    }
    Ok(0)
}
