//! The measurements as data.

use serde::Serialize;

use super::peers::Absent;
use super::samples::Samples;

/// A whole run of the benchmark.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    pub(super) rounds: u32,
    pub(super) rows: Vec<Row>,
    pub(super) not_measured: Vec<NotMeasured>,
    pub(super) absent_peers: Vec<Absent>,
}

impl Report {
    /// Whether no row failed. A row that this machine lacks something for fails only if it was
    /// asked for by name.
    pub(super) fn sound(&self) -> bool {
        !self.not_measured.iter().any(|row| row.is_failure)
    }
}

/// The machine that ran the benchmark.
#[derive(Serialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) architecture: &'static str,
    pub(super) processors: usize,
    /// The load average at the start; above the number of processors the figures mean little.
    pub(super) load: f64,
    pub(super) user: u32,
}

/// The first sentence of a report from a busy machine.
pub(super) const BUSY: &str = "The machine was busy: these figures mean little.";

impl Machine {
    /// Whether other work used more than half of the processors when the benchmark started.
    pub(super) fn is_busy(&self) -> bool {
        self.load > self.processors as f64 / 2.0
    }
}

/// One row.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) row: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
    pub(super) within: Option<bool>,
    pub(super) passes: Vec<Pass>,
}

/// The sides of a row, measured in alternation.
#[derive(Serialize)]
pub(super) struct Pass {
    /// The pause before each round.
    pub(super) apart_ms: u128,
    /// Stockade's own side is first.
    pub(super) sides: Vec<Samples>,
}

/// The bound of a row.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    /// Our median divided by that of one peer, at most.
    Ratio { against: &'static str, most: f64 },
    /// Our median divided by that of one peer, at least.
    Least { against: &'static str, least: f64 },
    /// Our median minus that of one peer, at most.
    Added { against: &'static str, most: f64 },
    /// Our median, at most.
    Median { most: f64 },
}

/// A row that cannot be measured here because something is missing.
#[derive(Serialize)]
pub(super) struct NotMeasured {
    pub(super) row: &'static str,
    pub(super) reason: String,
    pub(super) remedy: &'static str,
    #[serde(skip)]
    pub(super) is_failure: bool,
}

/// A program or package that a row needs and this machine lacks.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) reason: String,
    pub(super) remedy: &'static str,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Missing {}

impl Row {
    pub(super) fn new(
        (row, what): (&'static str, &'static str),
        unit: &'static str,
        bound: Bound,
        passes: Vec<Pass>,
    ) -> Row {
        let within = passes
            .iter()
            .map(|pass| bound.holds(pass))
            .try_fold(true, |all, one| one.map(|one| all && one));
        Row { row, what, unit, bound, within, passes }
    }
}

impl Bound {
    /// Whether a pass is within the bound; `None` if the peer was not measured.
    fn holds(self, pass: &Pass) -> Option<bool> {
        let ours = pass.sides.first()?;
        let peer = |name| pass.sides.iter().find(|side| side.name == name);
        match self {
            Bound::Ratio { against, most } => Some(peer(against)?.ratio? <= most),
            Bound::Least { against, least } => Some(peer(against)?.ratio? >= least),
            Bound::Added { against, most } => Some(ours.median - peer(against)?.median <= most),
            Bound::Median { most } => Some(ours.median <= most),
        }
    }

    pub(super) fn text(self, unit: &str) -> String {
        match self {
            Bound::Ratio { against, most } => format!("at most {most} × {against}"),
            Bound::Least { against, least } => format!("at least {least} × {against}"),
            Bound::Added { against, most } => format!("at most {most} {unit} more than {against}"),
            Bound::Median { most } => format!("at most {most} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ours: f64, theirs: f64) -> Pass {
        let samples = |name: &str, one| Samples::new(name.into(), String::new(), vec![one; 3]);
        let mut sides = vec![samples("stockade", ours), samples("bwrap", theirs)];
        sides[1].ratio = Some(ours / theirs);
        Pass { apart_ms: 0, sides }
    }

    #[test]
    fn row_is_within_its_bound_only_when_every_pass_is() {
        let bound = Bound::Ratio { against: "bwrap", most: 1.1 };
        let within = |passes| Row::new(("run", ""), "ms", bound, passes).within;
        assert_eq!(within(vec![pass(10.0, 10.0), pass(10.9, 10.0)]), Some(true));
        assert_eq!(within(vec![pass(10.0, 10.0), pass(12.0, 10.0)]), Some(false));
        let other = Bound::Ratio { against: "firejail", most: 1.1 };
        let row = Row::new(("run", ""), "ms", other, vec![pass(1.0, 1.0)]);
        assert_eq!(row.within, None, "a peer that was not measured says nothing");
    }

    #[test]
    fn rates_have_a_minimum_and_latencies_a_maximum_over_the_peer() {
        let within =
            |bound, ours, theirs| Row::new(("x", ""), "ms", bound, vec![pass(ours, theirs)]).within;
        let rate = Bound::Least { against: "bwrap", least: 0.5 };
        assert_eq!(within(rate, 5.0, 10.0), Some(true));
        assert_eq!(within(rate, 4.9, 10.0), Some(false));
        let added = Bound::Added { against: "bwrap", most: 1.5 };
        assert_eq!(within(added, 11.5, 10.0), Some(true));
        assert_eq!(within(added, 11.6, 10.0), Some(false));
        let other = Bound::Added { against: "direct", most: 1.5 };
        assert_eq!(within(other, 1.0, 1.0), None, "a peer that was not measured says nothing");
        assert_eq!(added.text("ms"), "at most 1.5 ms more than bwrap");
        assert_eq!(rate.text("MB/s"), "at least 0.5 × bwrap");
    }
}
