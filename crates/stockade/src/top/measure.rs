//! Asks supervisors what their sessions use.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use stockade_api::{ExecutionView, Reply, Request, SessionView, StatsView};
use stockade_supervisor::Listed;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::model::{Answered, Model, Row};
use crate::sessions::client;

/// How long one session may take to answer; all are asked at the same time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processor time of each session at the last measurement.
#[derive(Default)]
pub(super) struct Measures {
    last: HashMap<String, Measured>,
}

#[derive(Clone, Copy)]
struct Measured {
    at: Instant,
    cpu_ms: u64,
    percent: Option<u64>,
}

/// How close two measurements may be: keys cause measurements too, and a short interval is
/// inaccurate.
const APART: Duration = Duration::from_millis(90);

/// What one supervisor answered.
type Asked = Option<(SessionView, StatsView, Vec<ExecutionView>)>;

impl Measures {
    /// Measures all sessions.
    pub(super) async fn take(&mut self, model: &mut Model) -> anyhow::Result<()> {
        let listed = client::listed()?;
        let mut asked = JoinSet::new();
        for listed in listed {
            let is_inspected = model.inspected() == Some(listed.name.as_str());
            asked.spawn(async move {
                let answer = timeout(PATIENCE, ask(&listed.name, is_inspected)).await;
                (listed, answer.ok().flatten())
            });
        }
        let mut rows: Vec<Row> = asked
            .join_all()
            .await
            .into_iter()
            .map(|(listed, asked)| self.row(listed, asked))
            .collect();
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        self.last.retain(|name, _| rows.iter().any(|row| row.name == *name));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        model.now = now.map_or(0, |now| now.as_secs());
        model.set(rows);
        Ok(())
    }

    fn row(&mut self, listed: Listed, asked: Asked) -> Row {
        let answered = asked.map(|(view, stats, programs)| Answered {
            view,
            cpu_percent: stats.cpu_ms.and_then(|cpu_ms| self.percent(&listed.name, cpu_ms)),
            memory_bytes: stats.memory_bytes,
            network: stats.network,
            denied: stats.denied,
            denials: stats.denials,
            programs,
        });
        Row { name: listed.name, created: listed.created, answered }
    }

    /// The processor time since the last measurement.
    fn percent(&mut self, name: &str, cpu_ms: u64) -> Option<u64> {
        let at = Instant::now();
        let before = self.last.get(name).copied();
        if let Some(before) = before
            && at.duration_since(before.at) < APART
        {
            return before.percent;
        }
        let percent = before.map(|before| {
            let passed = u64::try_from(at.duration_since(before.at).as_millis()).unwrap_or(1);
            cpu_ms.saturating_sub(before.cpu_ms) * 100 / passed.max(1)
        });
        self.last.insert(name.to_owned(), Measured { at, cpu_ms, percent });
        percent
    }
}

async fn ask(name: &str, is_inspected: bool) -> Asked {
    let Ok(Reply::Session(view)) = client::ask(name, Request::Inspect).await else { return None };
    let Ok(Reply::Stats(stats)) = client::ask(name, Request::Stats).await else { return None };
    let programs = match is_inspected {
        true => match client::ask(name, Request::Ps).await {
            Ok(Reply::Executions(programs)) => programs,
            _ => return None,
        },
        false => Vec::new(),
    };
    Some((*view, stats, programs))
}
