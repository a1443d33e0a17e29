//! `stockade apply`.

use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::{Value, json};
use stockade_policy::WORKSPACE;
use stockade_store::{
    Applied, ApplyRequest, HostBase, Proposal, Verdict, View, apply as apply_changes, changes,
};

use super::look::{Look, base, view};
use super::place::problem;
use crate::args::ApplyArgs;
use crate::render::{self, Output};
use crate::{Problem, load};

/// The exit code if a change was not applied.
const LEFT: u8 = 1;

pub(crate) fn apply(args: &ApplyArgs, output: Output) -> anyhow::Result<u8> {
    report(&done(args)?, args.dry_run, output)
}

/// The changes as JSON, each with what became of it.
pub(crate) fn lines(args: &ApplyArgs) -> anyhow::Result<Value> {
    Ok(done(args)?.proposals.iter().map(line).collect::<Vec<_>>().into())
}

fn done(args: &ApplyArgs) -> anyhow::Result<Applied> {
    let only = paths(&args.only)?;
    let accepted = paths(&args.accept)?;
    let look = Look::at(&args.session)?;
    let Some((number, _, below)) = look.places(false).pop() else {
        let message = "the workspace of the session is a directory of the host already";
        return Err(Problem::new(message, "its files are there; there is nothing to apply").into());
    };
    let to = match (&args.to, &below) {
        (Some(to), _) => load::here()?.join(to),
        (None, Some(below)) if !look.checkpoint.imported => below.clone(),
        (None, _) => {
            let message = "there is no directory of the host that the session started from";
            return Err(Problem::new(message, "name one with --to DIR").into());
        }
    };
    let target = HostBase::open(&to).map_err(|error| problem(&error))?;
    let base = base(below.as_ref())?;
    let contents = look.contents()?;
    let (old, new) = (View::empty(base.as_ref()), view(&contents, number, base.as_ref())?);
    let found = changes(&old, &new).map_err(|error| problem(&error))?;
    let changed: Vec<&[u8]> = found.iter().map(|change| &*change.path).collect();
    refuse_unchanged("--only", &only, &changed)?;
    refuse_unchanged("--accept", &accepted, &changed)?;
    let before = look.store.applied(&look.checkpoint, &to).map_err(|error| problem(&error))?;
    let request = ApplyRequest {
        target: &target,
        is_base: below.as_ref() == Some(&to),
        started_ms: look.checkpoint.started_ms,
        only: &only,
        accepted: &accepted,
        applied: &before,
        dry_run: args.dry_run,
    };
    let done = apply_changes(&old, &new, found, &request).map_err(|error| problem(&error))?;
    if !args.dry_run {
        let kept = look.store.keep_applied(&look.checkpoint, &to, &done.applied);
        kept.map_err(|error| problem(&error))?;
    }
    Ok(done)
}

/// Refuses a path at or below which nothing changed: it is a mistake, and would apply nothing.
fn refuse_unchanged(flag: &str, named: &[Vec<u8>], changed: &[&[u8]]) -> Result<(), Problem> {
    let is_at = |change: &[u8], named: &[u8]| {
        change.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    };
    let lone = named.iter().find(|named| !changed.iter().any(|change| is_at(change, named)));
    let Some(lone) = lone else { return Ok(()) };
    let message = format!("{flag} {}: nothing changed there", lone.escape_ascii());
    Err(Problem::new(message, "name a path as `stockade diff` prints it"))
}

/// Paths in the workspace, as a person writes them.
fn paths(named: &[std::ffi::OsString]) -> anyhow::Result<Vec<Vec<u8>>> {
    let path = |named: &std::ffi::OsString| {
        let bytes = named.clone().into_vec();
        let inside = format!("{WORKSPACE}/");
        let relative = bytes.strip_prefix(inside.as_bytes()).unwrap_or(&bytes);
        let parts: Vec<&[u8]> = relative
            .split(|byte| *byte == b'/')
            .filter(|part| !matches!(*part, b"" | b"."))
            .collect();
        match relative.starts_with(b"/") || parts.contains(&b"..".as_slice()) || parts.is_empty() {
            true => {
                let shown = named.as_bytes().escape_ascii();
                let message = format!("{shown} is not a path in the workspace");
                Err(Problem::new(message, "name it as `stockade diff` prints it").into())
            }
            false => Ok(parts.join(&b'/')),
        }
    };
    named.iter().map(path).collect()
}

fn report(done: &Applied, is_dry: bool, output: Output) -> anyhow::Result<u8> {
    let is_left =
        |proposal: &&Proposal| !matches!(proposal.verdict, Verdict::Apply | Verdict::Same);
    let left = done.proposals.iter().filter(is_left).count();
    let code = if left == 0 { 0 } else { LEFT };
    if output == Output::Json {
        let lines: Vec<Value> = done.proposals.iter().map(line).collect();
        render::json(&json!({ "dry_run": is_dry, "changes": lines }))?;
        return Ok(code);
    }
    for proposal in &done.proposals {
        let (verdict, reason) = verdict_text(&proposal.verdict, is_dry);
        let path = String::from_utf8_lossy(&proposal.change.path).escape_debug().to_string();
        let kind = proposal.change.kind().as_str();
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        render::text(&format!("{verdict:<12} {kind:<8} {path}{reason}\n"))?;
    }
    if left > 0 {
        let changes = if left == 1 { "1 change was" } else { &format!("{left} changes were") };
        render::talk(&format!("apply: {changes} not applied"));
        let has_flag = |it: &Proposal| matches!(it.verdict, Verdict::Flagged(_));
        if done.proposals.iter().any(has_flag) {
            render::talk("  = look at each with `stockade diff`, then name it in --accept");
        }
        let has_conflict = |it: &Proposal| matches!(it.verdict, Verdict::Conflict(_));
        if done.proposals.iter().any(has_conflict) {
            render::talk("  = apply to an empty directory with --to, and merge by hand");
        }
    }
    Ok(code)
}

fn verdict_text(verdict: &Verdict, is_dry: bool) -> (&'static str, Option<String>) {
    match verdict {
        Verdict::Apply if is_dry => ("would apply", None),
        Verdict::Apply => ("applied", None),
        Verdict::Same => ("same", None),
        Verdict::Flagged(reason) => ("flagged", Some(reason.clone())),
        Verdict::Refused(reason) => ("refused", Some(reason.to_string())),
        Verdict::Conflict(reason) => ("conflict", Some(reason.clone())),
    }
}

fn line(proposal: &Proposal) -> Value {
    let (verdict, reason) = verdict_text(&proposal.verdict, false);
    json!({
        "path": String::from_utf8_lossy(&proposal.change.path),
        "change": proposal.change.kind().as_str(),
        "verdict": verdict,
        "reason": reason,
    })
}
