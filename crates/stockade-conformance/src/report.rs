//! The result of a run, as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::gaps::Unprobed;

/// The result of one probe behind one wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "why")]
pub enum Status {
    /// It holds, and its control proves that it could fail.
    Held,
    /// It holds, but the control does not prove that it could fail.
    Unproven(String),
    /// There is nothing to try here.
    NotApplicable(String),
    /// It fails, and is a known gap.
    Gap(String),
    /// It fails.
    Broken(String),
}

impl Status {
    fn word(&self) -> &'static str {
        match self {
            Status::Held => "held",
            Status::Unproven(_) => "unproven",
            Status::NotApplicable(_) => "not-applicable",
            Status::Gap(_) => "gap",
            Status::Broken(_) => "BROKEN",
        }
    }
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its id in the catalogue.
    pub id: &'static str,
    /// What the probe tries.
    pub title: &'static str,
    /// The expected result.
    pub class: &'static str,
    /// Whether its id counts towards the minimum.
    pub counts: bool,
    /// One per wall.
    pub statuses: Vec<Status>,
    /// What the control showed, or why it failed.
    pub control: String,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The walls, by name.
    pub walls: Vec<String>,
    /// The probes, in order.
    pub lines: Vec<Line>,
    /// Differences of the host to before.
    pub after: Vec<String>,
    /// How many must hold.
    pub fewest: usize,
    /// The walls that no probe runs behind.
    pub unprobed: Vec<Unprobed>,
}

impl Report {
    pub(crate) fn new(walls: Vec<String>) -> Report {
        Report { walls, ..Report::default() }
    }

    /// The number of counted ids that hold behind every wall.
    pub fn held(&self) -> usize {
        let all = |line: &&Line| line.counts && line.statuses.iter().all(|it| *it == Status::Held);
        self.lines.iter().filter(all).count()
    }

    /// The failures of the run; empty if it passed.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for line in &self.lines {
            for (wall, status) in self.walls.iter().zip(&line.statuses) {
                if let Status::Broken(why) = status {
                    failures.push(format!("{} as {wall}: {why}", line.id));
                }
            }
        }
        failures.extend(self.after.iter().map(|what| format!("the host after all probes: {what}")));
        if self.held() < self.fewest {
            failures.push(format!("{} probes hold, {} are required", self.held(), self.fewest));
        }
        failures
    }

    /// One line per probe, then the counts.
    pub fn text(&self) -> String {
        let walls: Vec<String> = self.walls.iter().map(|wall| format!("{wall:<14}")).collect();
        let mut text =
            format!("id   {} what the probe tries; what the control showed\n", walls.join(" "));
        for line in &self.lines {
            // Writing to a String cannot fail.
            let words: Vec<String> =
                line.statuses.iter().map(|it| format!("{:<14}", it.word())).collect();
            let _ =
                writeln!(text, "{}  {} {}; {}", line.id, words.join(" "), line.title, line.control);
        }
        for Unprobed { wall, reason } in &self.unprobed {
            let _ = writeln!(text, "not probed: {wall}: {reason}");
        }
        let _ = write!(text, "\n{}", self.counts());
        text
    }

    /// The number of counted ids with each status.
    pub fn counts(&self) -> String {
        let mut parts = Vec::new();
        for (index, wall) in self.walls.iter().enumerate() {
            let of = |word: &str| {
                let is_it = |line: &&Line| line.counts && line.statuses[index].word() == word;
                self.lines.iter().filter(is_it).count()
            };
            parts.push(format!(
                "{wall}: {} held, {} unproven, {} not-applicable, {} gap, {} broken",
                of("held"),
                of("unproven"),
                of("not-applicable"),
                of("gap"),
                of("BROKEN")
            ));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &'static str, statuses: [Status; 2]) -> Line {
        let (title, class, control) = ("try", "blocked", "works".to_owned());
        Line { id, title, class, counts: true, statuses: statuses.into(), control }
    }

    #[test]
    fn only_probes_that_hold_everywhere_count_and_broken_ones_fail() {
        let unproven = || Status::Unproven("no control".to_owned());
        let report = Report {
            walls: vec!["root".to_owned(), "user 65534".to_owned()],
            lines: vec![
                line("A01", [Status::Held, Status::Held]),
                line("A02", [Status::Held, unproven()]),
                line("A03", [Status::Gap("known".to_owned()), Status::Broken("new".to_owned())]),
            ],
            after: vec!["mount x".to_owned()],
            fewest: 2,
            unprobed: Vec::new(),
        };
        assert_eq!(report.held(), 1);
        assert_eq!(
            report.failures(),
            [
                "A03 as user 65534: new",
                "the host after all probes: mount x",
                "1 probes hold, 2 are required"
            ]
        );
        let counts = "root: 2 held, 0 unproven, 0 not-applicable, 1 gap, 0 broken; \
                      user 65534: 1 held, 1 unproven, 0 not-applicable, 0 gap, 1 broken";
        assert_eq!(report.counts(), counts);
        assert!(report.text().contains("A03  gap            BROKEN         try; works\n"));
    }
}
