//! Tool calls that the broker must refuse.

use super::must;
use crate::bench::Bench;
use crate::wall::Wall;

/// A policy that lists one of two offered tools.
pub(crate) const WITH_TOOLS: &[&str] = &["--policy", "{with-tools}", "--tools", "{tools}"];

/// The error codes for a malformed call.
const REFUSALS: [&str; 4] = ["invalid_request", "invalid_arguments", "too_deep", "too_large"];

/// The listed tool answers.
pub(crate) fn control(bench: &Bench, wall: &Wall) -> Result<String, String> {
    let seen = wall.act(bench, WITH_TOOLS, &["tool-call", "open", "{}"])?;
    must(seen.note() == "result", seen.summary())?;
    Ok("a tool that is listed answers".to_owned())
}

/// The offered but unlisted tool is denied, and the report names it.
pub(crate) fn unlisted(bench: &Bench, wall: &Wall) -> Result<(), String> {
    for name in ["closed", "unheard-of", "open/../closed"] {
        let seen = wall.act(bench, WITH_TOOLS, &["tool-call", name, "{}"])?;
        must(seen.note() == "denied", seen.summary())?;
        let named = seen.report["denials"].to_string().contains(name);
        must(named, format!("the report does not name {name}"))?;
    }
    Ok(())
}

/// Malformed calls are refused, each on its own.
pub(crate) fn lines(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, WITH_TOOLS, &["tool-lines", "open"])?;
    let answers: Vec<&str> = seen.note().split("; ").collect();
    let Some((last, wrong)) = answers.split_last() else { return Err(seen.summary()) };
    must(wrong.len() == 11 && *last == "a call: result", seen.summary())?;
    for answer in wrong {
        let kind = answer.split_once(": ").map_or("", |(_, kind)| kind);
        must(REFUSALS.contains(&kind), *answer)?;
    }
    Ok(())
}

/// If the policy lists no tool, no tool can be called, though tools are offered.
pub(crate) fn none(bench: &Bench, wall: &Wall) -> Result<(), String> {
    let seen = wall.act(bench, &[], &["tool-call", "open", "{}"])?;
    let refused = seen.answer.as_ref().is_some_and(|it| it.ret < 0 && it.errnos().eq(["ENOENT"]));
    must(refused, seen.summary())
}
