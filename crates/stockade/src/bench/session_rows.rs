//! The rows about sessions.

use std::time::Duration;

use super::peers::{self, Absent};
use super::programs::Timed;
use super::progress;
use super::report::{Bound, Pass, Row};
use super::rows::{CODE, Ours, RESULT, interpreter, passes, python_words};
use super::samples::{Samples, Side, in_turns};
use super::sandboxes::{descendants, megabytes};
use super::sessions::{Session, Sessions, What};
use crate::args::BenchArgs;

/// The sessions that are alive in the row `crowd`.
const CROWD: usize = 100;
/// How many executions one figure of the row `crowd` is taken from, and how often it is taken.
const EXECUTIONS: usize = 300;
const FIGURES: u32 = 3;

const TRUE: What<'static> = What::Command(&["/bin/true"]);
const PYTHON: What<'static> = What::Python { code: CODE[1], prints: RESULT };
const CONTEXT: What<'static> = What::Context { code: CODE[1], prints: RESULT };

fn side<'s>(
    name: &str,
    command: &str,
    round: impl FnMut() -> anyhow::Result<f64> + 's,
) -> Side<'s> {
    Side { name: name.to_owned(), command: command.to_owned(), round: Box::new(round) }
}

pub(super) fn exec(args: &BenchArgs, ours: &Ours, absent: &mut Vec<Absent>) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "exec")?;
    let session = sessions.create(&[])?;
    let words = ["exec", "--quiet", session.name.as_str(), "--", "/bin/true"];
    let mut sides = vec![
        side("stockade", "exec SESSION -- /bin/true, over its socket", || {
            sessions.execute(&session, &TRUE)
        }),
        side("stockade exec", "stockade exec SESSION -- /bin/true", || {
            Ok(super::samples::timed(|| sessions.output(sessions.command(&words)))?.0)
        }),
    ];
    let (bwrap, missing) = peers::bwrap(&args.against, ours.stockade());
    absent.extend(missing);
    sides.extend(bwrap.map(Timed::side));
    let what = "one more execution of /bin/true in a session; bwrap has the mounts of a sandbox";
    let bound = Bound::Ratio { against: "bwrap", most: 0.3 };
    let passes = passes("exec", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("exec", what), "ms", bound, passes))
}

pub(super) fn code(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let python = interpreter(ours)?;
    let sessions = Sessions::new(ours.stockade(), "code")?;
    let session = sessions.create(&["--python", &python.display().to_string()])?;
    // From the second code on, an interpreter is started ahead.
    sessions.execute(&session, &PYTHON)?;
    let mut sides = vec![
        side("stockade", "code SESSION, over its socket: print(1)", || {
            sessions.execute(&session, &PYTHON)
        }),
        Timed::new("bare", python_words(&python), RESULT).side(),
    ];
    let what = "one more execution of Python code in a session";
    let bound = Bound::Ratio { against: "bare", most: 0.25 };
    let passes = passes("code", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("code", what), "ms", bound, passes))
}

pub(super) fn context(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let python = interpreter(ours)?;
    let sessions = Sessions::new(ours.stockade(), "context")?;
    let session = sessions.create(&["--python", &python.display().to_string()])?;
    // The first call starts the interpreter.
    sessions.execute(&session, &CONTEXT)?;
    let mut sides = vec![
        side("stockade", "code SESSION --context NAME, over its socket: print(1)", || {
            sessions.execute(&session, &CONTEXT)
        }),
        Timed::new("bare", python_words(&python), RESULT).side(),
    ];
    let what = "one more call in a context, an interpreter that stays";
    let bound = Bound::Ratio { against: "bare", most: 0.1 };
    let passes = passes("context", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("context", what), "ms", bound, passes))
}

pub(super) fn destroy(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "session-destroy")?;
    let passes = removals("session-destroy", &sessions, &[], args)?;
    let what = "removing a session, as its client sees it";
    Ok(Row::new(("session-destroy", what), "ms", Bound::Median { most: 5.0 }, passes))
}

/// Removes new sessions, and waits for the end of others; `words` are options of `create`.
pub(super) fn removals(
    row: &str,
    sessions: &Sessions,
    words: &[&str],
    args: &BenchArgs,
) -> anyhow::Result<Vec<Pass>> {
    let mut sides = [
        side("stockade", "rm SESSION, over its socket", || {
            sessions.remove(&sessions.create(words)?)
        }),
        side("until nothing is left", "rm SESSION, and the end of its supervisor", || {
            sessions.end(&sessions.create(words)?)
        }),
    ];
    passes(row, &mut sides, args)
}

pub(super) fn memory(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "session-memory")?;
    let measured = side("stockade", "Pss of the supervisor and all processes below it", || {
        let session = sessions.create(&[])?;
        // A session is idle some time after its last client.
        std::thread::sleep(Duration::from_secs(1));
        let processes = descendants(session.supervisor);
        let used = megabytes(processes.into_iter().chain([session.supervisor]));
        sessions.end(&session)?;
        used
    });
    let sides = in_turns(&mut [measured], args.rounds, Duration::ZERO, |_| {})?;
    let passes = vec![Pass { apart_ms: 0, sides }];
    let what = "memory of a session in which nothing ran, its supervisor included";
    Ok(Row::new(("session-memory", what), "MB", Bound::Median { most: 4.0 }, passes))
}

pub(super) fn crowd(ours: &Ours) -> anyhow::Result<Row> {
    let sessions = Sessions::new(ours.stockade(), "crowd")?;
    let session = sessions.create(&[])?;
    let (mut many, mut one) = (Vec::new(), Vec::new());
    // The first warms caches.
    tail(&sessions, &session)?;
    for figure in 1..=FIGURES {
        let alone = tail(&sessions, &session)?;
        let crowd: Vec<Session> = (1..CROWD)
            .map(|number| {
                progress(&format!("crowd {figure} of {FIGURES}: session {number} of {CROWD}"));
                sessions.create(&[])
            })
            .collect::<anyhow::Result<_>>()?;
        let crowded = tail(&sessions, &session)?;
        for idle in &crowd {
            sessions.end(idle)?;
        }
        one.push(alone);
        many.push(crowded);
    }
    let command = format!("99th percentile of {EXECUTIONS} times /bin/true, over the socket");
    let of = |name: &str, figures| Samples::new(name.to_owned(), command.clone(), figures);
    let sides = Samples::compared(vec![of("100 sessions", many), of("one session", one)]);
    let passes = vec![Pass { apart_ms: 0, sides }];
    let what = "99th percentile of an execution while 100 idle sessions are alive, and with one";
    let bound = Bound::Ratio { against: "one session", most: 1.5 };
    Ok(Row::new(("crowd", what), "ms", bound, passes))
}

/// The 99th percentile of an execution, in milliseconds.
fn tail(sessions: &Sessions, session: &Session) -> anyhow::Result<f64> {
    let times = (0..EXECUTIONS).map(|_| sessions.execute(session, &TRUE));
    let times = times.collect::<anyhow::Result<Vec<f64>>>()?;
    Ok(Samples::new(String::new(), String::new(), times).quantile(0.99))
}

/// Time of `/bin/true` as one more execution in a session, for the rows of other walls.
pub(super) fn once_more<'s>(sessions: &'s Sessions, session: &'s Session) -> Side<'s> {
    side("stockade", "exec SESSION -- /bin/true, over its socket", || {
        sessions.execute(session, &TRUE)
    })
}
