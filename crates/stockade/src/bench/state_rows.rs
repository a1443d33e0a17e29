//! The rows about checkpoints, of a native session with 1000 files and 50 MB that cannot be
//! compressed.

use std::cell::Cell;

use anyhow::bail;
use stockade_api::{Reply, Request, RestoreParams, StoreParams};

use super::report::{Bound, Row};
use super::rows::{Ours, passes};
use super::samples::{Side, timed};
use super::sessions::{Session, Sessions, What};
use crate::args::BenchArgs;

/// Fills the workspace.
const FILL: &str = "for i in $(seq 1000); do head -c 52429 /dev/urandom > file$i; done";

/// Changes one file.
const CHANGE: &str = "head -c 52429 /dev/urandom > file1";

pub(super) fn checkpoint(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "checkpoint")?;
    let session = filled(&sessions)?;
    let number = Cell::new(0);
    let keep = |store: &str| {
        number.set(number.get() + 1);
        let name = format!("c{}", number.get());
        let store = sessions.store(store);
        sessions.ask(&session, Request::Checkpoint { name, store })
    };
    let mut sides = vec![
        side("stockade", "checkpoint SESSION, over its socket, into an empty store", || {
            let store = format!("store{}", number.get());
            let time = keep(&store)?;
            sessions.remove_store(&store)?;
            Ok(time)
        }),
        side("again", "the same into a store that has the content", || keep("kept")),
        side("restore", "restore SESSION, over its socket, after one file changed", || {
            sessions.execute(&session, &What::Command(&["sh", "-c", CHANGE]))?;
            let checkpoint = Some("base".to_owned());
            let store = sessions.store("base");
            let params = RestoreParams { store, checkpoint, force: false, any_policy: false };
            sessions.ask(&session, Request::Restore(params))
        }),
    ];
    let base = Request::Checkpoint { name: "base".to_owned(), store: sessions.store("base") };
    sessions.ask(&session, base)?;
    let what = "keeping and restoring a session with 1000 files and 50 MB";
    let passes = passes("checkpoint", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("checkpoint", what), "ms", Bound::Median { most: 150.0 }, passes))
}

pub(super) fn fork(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "fork")?;
    let session = filled(&sessions)?;
    let base = Request::Checkpoint { name: "base".to_owned(), store: sessions.store("store") };
    sessions.ask(&session, base)?;
    let empty = sessions.create(&[])?;
    let base = Request::Checkpoint { name: "base".to_owned(), store: sessions.store("store") };
    sessions.ask(&empty, base)?;
    let forked = |session: &Session| {
        let (time, fork) = timed(|| sessions.fork(session, "base"))?;
        sessions.end(&fork)?;
        Ok(time)
    };
    let mut sides = vec![
        side("stockade", "stockade fork SESSION --from base", || forked(&session)),
        side("empty", "the same of a session without files", || forked(&empty)),
        side("create", "stockade create", || {
            let (time, created) = timed(|| sessions.create(&[]))?;
            sessions.end(&created)?;
            Ok(time)
        }),
    ];
    let what = "forking a session with 1000 files and 50 MB";
    let passes = passes("fork", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("fork", what), "ms", Bound::Median { most: 30.0 }, passes))
}

fn filled(sessions: &Sessions) -> anyhow::Result<Session> {
    let session = sessions.create(&[])?;
    sessions.execute(&session, &What::Command(&["sh", "-c", FILL]))?;
    Ok(session)
}

fn side<'s>(
    name: &str,
    command: &str,
    round: impl FnMut() -> anyhow::Result<f64> + 's,
) -> Side<'s> {
    Side { name: name.to_owned(), command: command.to_owned(), round: Box::new(round) }
}

impl Sessions {
    /// A store of checkpoints in the directory of the row.
    fn store(&self, name: &str) -> StoreParams {
        use std::os::unix::ffi::OsStrExt;
        let directory = self.path().join(name).as_os_str().as_bytes().to_vec();
        let directory = directory.try_into().expect("a temporary directory has a short path");
        StoreParams { directory, quota: 10 << 30 }
    }

    fn remove_store(&self, name: &str) -> anyhow::Result<()> {
        Ok(std::fs::remove_dir_all(self.path().join(name))?)
    }

    /// Time from a request to its reply, in milliseconds.
    fn ask(&self, session: &Session, request: Request) -> anyhow::Result<f64> {
        let (time, reply) = timed(|| self.reply(session, request))?;
        match reply {
            Reply::Checkpoint(_) => Ok(time),
            other => bail!("the session answered with {other:?}"),
        }
    }

    fn fork(&self, session: &Session, from: &str) -> anyhow::Result<Session> {
        let name = session.name.as_str();
        let mut command = self.command(&["--json", "fork", name, "--from", from]);
        command.env("STOCKADE_STORE", self.path().join("store"));
        let forked: serde_json::Value = serde_json::from_slice(&self.output(command)?.stdout)?;
        self.named(forked["sessions"][0].as_str().unwrap_or_default())
    }
}
