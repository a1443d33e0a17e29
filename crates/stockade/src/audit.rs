//! `stockade audit …`.

mod follow;
mod ls;
mod prune;
mod show;
mod summary;
mod text;
mod verify;

use std::path::{Path, PathBuf};

use stockade_provider::chain;
use stockade_record::{ListError, Listed, ReadError, RecordDirectory, default_places, list};

use crate::args::{AuditArgs, AuditCommand, Choice};
use crate::render::{self, Output};
use crate::{Problem, load};

pub(crate) fn run(args: AuditArgs, output: Output) -> anyhow::Result<u8> {
    let named = args.record.as_deref();
    match args.command {
        AuditCommand::Ls(ls) => ls::run(&ls, named, output),
        AuditCommand::Show(show) => show::run(show.session.as_deref(), named, output),
        AuditCommand::Follow(follow) => follow::run(follow.session.as_deref(), named, output),
        AuditCommand::Verify(verify) => verify::run(&verify, named, output),
        AuditCommand::Summary(summary) => summary::run(&summary, named, output),
        AuditCommand::Prune(prune) => prune::run(&prune, named, output),
    }
}

/// The directories for records: the named one, or the default ones of this user.
pub(crate) fn places(named: Option<&Path>, here: &Path) -> anyhow::Result<Vec<RecordDirectory>> {
    let Some(named) = named else {
        let user = rustix::process::geteuid().as_raw();
        return Ok(default_places(|name| std::env::var_os(name), user));
    };
    let place = RecordDirectory::named(&here.join(named))
        .map_err(|error| Problem::new(format!("--record {error}"), error.remedy()))?;
    Ok(vec![place])
}

/// Every record, oldest first.
fn records(named: Option<&Path>) -> anyhow::Result<Vec<Listed>> {
    let mut found = Vec::new();
    for (at, place) in places(named, &load::here()?)?.iter().enumerate() {
        match list(place) {
            Ok(listed) => found.extend(listed),
            // Any user can create this directory in /tmp; it must not block access to the other
            // records.
            Err(ListError::Place(error)) if at > 0 && error.is_somebody_elses() => {
                render::talk(&format!("passed over: {error}"));
            }
            Err(error) => {
                let remedy = "see that you may read there, or pass --record DIR";
                return Err(Problem::new(chain(&error), remedy).into());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The file of the named session, or of the latest.
pub(crate) fn find(session: Option<&str>, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = session.filter(|text| text.contains('/') || text.ends_with(".jsonl")) {
        return Ok(PathBuf::from(path));
    }
    let mut found = records(named)?;
    let Some(session) = session else {
        let latest = found.pop().ok_or_else(|| {
            let remedy = "`stockade run` leaves one, unless it runs with --no-record";
            Problem::new("there is no record yet", remedy)
        })?;
        return Ok(latest.path);
    };
    found.retain(|record| record.session.begins_with(session));
    match found.as_slice() {
        [one] => Ok(one.path.clone()),
        [] => {
            let message = format!("no session is called `{session}`");
            Err(Problem::new(message, "see which there are, with `stockade audit ls`").into())
        }
        several => {
            let message = format!("{} sessions begin with `{session}`", several.len());
            Err(Problem::new(message, "write more of its name").into())
        }
    }
}

/// The files of the chosen sessions.
fn chosen(choice: &Choice, named: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    if choice.all {
        return Ok(records(named)?.into_iter().map(|record| record.path).collect());
    }
    Ok(vec![find(choice.session.as_deref(), named)?])
}

/// The error for a record that cannot be read.
pub(crate) fn unreadable(error: &ReadError) -> Problem {
    let remedy = match error {
        ReadError::File { .. } => "check the path and its permissions",
        _ => "see how far it holds, with `stockade audit verify`",
    };
    Problem::new(chain(error), remedy)
}
