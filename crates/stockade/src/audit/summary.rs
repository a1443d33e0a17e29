//! `stockade audit summary`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use stockade_policy::Printable;
use stockade_record::{Latest, Reader, Summary};

use crate::args::Choice;
use crate::render::{self, Output};

use super::{chosen, unreadable};

/// Rows of each table in text output; JSON has all rows.
const ROWS: usize = 10;

pub(super) fn run(choice: &Choice, named: Option<&Path>, output: Output) -> anyhow::Result<u8> {
    let mut summary = Summary::default();
    let paths = chosen(choice, named)?;
    for path in &paths {
        let mut reader = Reader::open(path).map_err(|error| unreadable(&error))?;
        while let Some(event) = reader.next().map_err(|error| unreadable(&error))? {
            summary.add(&event);
        }
    }
    match output {
        Output::Json => {
            let mut view = serde_json::to_value(&summary)?;
            view["sessions"] = json!(paths.len());
            render::json(&view)?;
        }
        Output::Text => render::text(&text(&summary)?)?,
    }
    Ok(0)
}

fn text(summary: &Summary) -> anyhow::Result<String> {
    let Summary { requests, sent_bytes, received_bytes, .. } = summary;
    let mut text = format!("requests  {requests}\n");
    writeln!(text, "bytes     {sent_bytes} out, {received_bytes} in")?;
    let verdicts = &summary.by_verdict;
    let verdicts = verdicts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    for (title, counts) in [
        ("by host", &summary.by_host),
        ("by method", &summary.by_method),
        ("by status", &summary.by_status),
        ("by verdict", &verdicts),
    ] {
        table(&mut text, title, counts)?;
    }
    if summary.tool_calls > 0 {
        writeln!(text, "tool calls  {}", summary.tool_calls)?;
        let mut rows = BTreeMap::new();
        for (tool, outcomes) in &summary.by_tool {
            rows.extend(outcomes.iter().map(|(how, count)| (format!("{tool}  {how}"), *count)));
        }
        table(&mut text, "by tool and outcome", &rows)?;
    }
    if !summary.latest.is_empty() {
        text.push_str("latest\n");
    }
    for Latest { time, method, host, port, path, status, verdict, .. } in &summary.latest {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let target = format!("{method} {host}{port}{}", path.as_deref().unwrap_or_default());
        let (target, verdict) = (Printable(&target), verdict.as_str());
        writeln!(text, "  {time}  {verdict:<5} {status:<7} {target}")?;
    }
    Ok(text)
}

/// Adds a table, the most frequent first.
fn table(text: &mut String, title: &str, counts: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<(&String, &u64)> = counts.iter().collect();
    rows.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    writeln!(text, "{title}")?;
    for (name, count) in rows.iter().take(ROWS) {
        writeln!(text, "  {count:>8}  {}", Printable(name))?;
    }
    if let Some(more) = rows.len().checked_sub(ROWS).filter(|more| *more > 0) {
        writeln!(text, "            and {more} more; --json has all")?;
    }
    Ok(())
}
