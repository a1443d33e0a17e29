//! `stockade diff`.

use std::io::{IsTerminal, stdout};
use std::ops::ControlFlow;

use serde_json::{Value, json};
use stockade_policy::WORKSPACE;
use stockade_store::{Change, EntryKind, Patch, TreeEntry, View, changes, flag, patch};

use super::look::{Look, base, view};
use super::place::problem;
use crate::Problem;
use crate::args::StateDiffArgs;
use crate::render::{self, Output};

pub(crate) fn diff(args: &StateDiffArgs, output: Output) -> anyhow::Result<u8> {
    let mut lines = Vec::new();
    each(args, |change, patch, path, prefix| {
        match output {
            Output::Json => lines.push(line(change, patch, path)),
            Output::Text => print(change, patch, prefix, args.patch)?,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if output == Output::Json {
        render::json(&lines)?;
    }
    Ok(0)
}

/// The changes as JSON, each with its patch.
pub(crate) fn lines(args: &StateDiffArgs) -> anyhow::Result<Value> {
    let mut lines = Vec::new();
    each(args, |change, patch, path, _| {
        let mut line = line(change, patch, path);
        line["patch"] = patch.text.clone().into();
        lines.push(line);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(lines.into())
}

/// Visits each change with its patch, the path of its place, and the prefix of its name, until
/// `visit` breaks.
pub(crate) fn each(
    args: &StateDiffArgs,
    mut visit: impl FnMut(&Change, &Patch, &str, &str) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let new = Look::at(&args.session)?;
    let old = args.from.as_deref().map(|name| new.earlier(name)).transpose()?;
    let contents = new.contents()?;
    let earlier = old.as_ref().map(Look::contents).transpose()?;
    for (number, path, below) in new.places(args.all) {
        let base = base(below.as_ref())?;
        let now = view(&contents, number, base.as_ref())?;
        let then = match (&old, &earlier) {
            (Some(old), Some(earlier)) => {
                let places = old.places(true);
                let same = places.into_iter().find(|(_, at, from)| *at == path && *from == below);
                let (number, ..) = same.ok_or_else(|| {
                    let message = format!("the two checkpoints have different places at {path}");
                    Problem::new(message, "compare checkpoints of one session and its forks")
                })?;
                view(earlier, number, base.as_ref())?
            }
            _ => View::empty(base.as_ref()),
        };
        // Names in the workspace stand alone, as in a patch for it.
        let prefix = match path == WORKSPACE {
            true => String::new(),
            false => format!("{}/", path.trim_start_matches('/')),
        };
        for change in changes(&then, &now).map_err(|error| problem(&error))? {
            let patch = patch(&then, &now, &change, &prefix).map_err(|error| problem(&error))?;
            if visit(&change, &patch, &path, &prefix)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether git refuses a path in a patch: one of its own directory, in any case.
fn is_gits(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b".git"))
}

fn is_special(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::Special(_) | EntryKind::Other)
}

/// A change as JSON.
fn line(change: &Change, patch: &Patch, place: &str) -> Value {
    json!({
        "place": place,
        "path": String::from_utf8_lossy(&change.path),
        "change": change.kind().as_str(),
        "old": change.old.as_ref().map(entry),
        "new": change.new.as_ref().map(entry),
        "binary": patch.is_binary,
        "added": patch.added,
        "removed": patch.removed,
        "flag": change.new.as_ref().and_then(|_| flag(&change.path)),
    })
}

fn entry(entry: &TreeEntry) -> Value {
    let (kind, size, target) = match &entry.kind {
        EntryKind::Directory { .. } => ("directory", None, None),
        EntryKind::File(content) => ("file", Some(content.size()), None),
        EntryKind::Link(target) => ("link", None, Some(String::from_utf8_lossy(target))),
        EntryKind::Special(_) | EntryKind::Other => ("special", None, None),
    };
    let mode = format!("{:04o}", entry.mode & 0o7777);
    json!({ "kind": kind, "mode": mode, "bytes": size, "target": target })
}

fn print(change: &Change, patch: &Patch, prefix: &str, is_raw: bool) -> anyhow::Result<()> {
    if is_raw {
        // No reader of patches takes these; one of them would make it refuse the rest.
        let left = if [&change.old, &change.new].into_iter().flatten().any(is_special) {
            Some("it is no file, directory or link; `stockade apply` refuses it")
        } else if is_gits(&change.path) {
            Some("git refuses paths of its own directory; `stockade apply` takes it")
        } else {
            patch.is_binary.then_some("it is no text; `stockade apply` takes it")
        };
        if let Some(why) = left {
            let name = String::from_utf8_lossy(&change.path).escape_debug().to_string();
            render::talk(&format!("{prefix}{name}: not in the patch, because {why}\n"));
            return Ok(());
        }
        return render::data(&patch.text);
    }
    let is_coloured = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let path = format!("{prefix}{}", String::from_utf8_lossy(&change.path));
    if patch.text.is_empty() {
        let name = path.escape_debug();
        return render::text(&format!("{} directory {name}\n", change.kind().as_str()));
    }
    for line in patch.text.split_inclusive('\n') {
        let colour = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => "1",
            [b'+', ..] => "32",
            [b'-', ..] => "31",
            [b'@', ..] => "36",
            _ => "",
        };
        match is_coloured && !colour.is_empty() {
            true => {
                render::data(&format!("\u{1b}[{colour}m"))?;
                render::text(line.trim_end_matches('\n'))?;
                render::data("\u{1b}[0m\n")?;
            }
            false => render::text(line)?,
        }
    }
    Ok(())
}
