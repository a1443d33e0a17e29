//! What a run found, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

/// How one probe stands behind one wall.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "standing", content = "why")]
pub enum Standing {
    /// It holds, and its control shows that this means something.
    Held,
    /// It holds, but nothing shows that it would be seen if it did not.
    Unproven(String),
    /// There is nothing to try here.
    NotApplicable(String),
    /// It does not hold, and that is known.
    Gap(String),
    /// It does not hold.
    Broken(String),
}

impl Standing {
    fn word(&self) -> &'static str {
        match self {
            Standing::Held => "held",
            Standing::Unproven(_) => "unproven",
            Standing::NotApplicable(_) => "not-applicable",
            Standing::Gap(_) => "gap",
            Standing::Broken(_) => "BROKEN",
        }
    }
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its id in the catalogue.
    pub id: &'static str,
    /// What is tried.
    pub title: &'static str,
    /// What must happen.
    pub class: &'static str,
    /// Whether its id counts.
    pub counts: bool,
    /// One per wall.
    pub standings: Vec<Standing>,
    /// What the control showed, or why it did not.
    pub control: String,
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The walls, by name.
    pub walls: Vec<String>,
    /// The probes, in order.
    pub lines: Vec<Line>,
    /// What of the host is not as it was before.
    pub after: Vec<String>,
    /// How many must hold.
    pub fewest: usize,
}

impl Report {
    pub(crate) fn new(walls: Vec<String>) -> Report {
        Report { walls, ..Report::default() }
    }

    /// Ids that hold behind every wall, and count.
    pub fn held(&self) -> usize {
        let all =
            |line: &&Line| line.counts && line.standings.iter().all(|it| *it == Standing::Held);
        self.lines.iter().filter(all).count()
    }

    /// What makes the run a failure; nothing where it is none.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for line in &self.lines {
            for (wall, standing) in self.walls.iter().zip(&line.standings) {
                if let Standing::Broken(why) = standing {
                    failures.push(format!("{} as {wall}: {why}", line.id));
                }
            }
        }
        failures.extend(self.after.iter().map(|what| format!("the host after all probes: {what}")));
        if self.held() < self.fewest {
            failures.push(format!("{} probes hold, {} are wanted", self.held(), self.fewest));
        }
        failures
    }

    /// One line per probe, then the counts.
    pub fn text(&self) -> String {
        let mut text = format!(
            "id   {:<14} {:<14} what is tried; what the control showed\n",
            self.walls[0], self.walls[1]
        );
        for line in &self.lines {
            // Writing to a String cannot fail.
            let words: Vec<String> =
                line.standings.iter().map(|it| format!("{:<14}", it.word())).collect();
            let _ =
                writeln!(text, "{}  {} {}; {}", line.id, words.join(" "), line.title, line.control);
        }
        let _ = write!(text, "\n{}", self.counts());
        text
    }

    /// How many stand how, of the ids that count.
    pub fn counts(&self) -> String {
        let mut parts = Vec::new();
        for (index, wall) in self.walls.iter().enumerate() {
            let of = |word: &str| {
                let is_it = |line: &&Line| line.counts && line.standings[index].word() == word;
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

    fn line(id: &'static str, standings: [Standing; 2]) -> Line {
        let (title, class, control) = ("try", "blocked", "works".to_owned());
        Line { id, title, class, counts: true, standings: standings.into(), control }
    }

    #[test]
    fn only_what_holds_everywhere_counts_and_what_is_broken_fails() {
        let unproven = || Standing::Unproven("no control".to_owned());
        let report = Report {
            walls: vec!["root".to_owned(), "user 65534".to_owned()],
            lines: vec![
                line("A01", [Standing::Held, Standing::Held]),
                line("A02", [Standing::Held, unproven()]),
                line(
                    "A03",
                    [Standing::Gap("known".to_owned()), Standing::Broken("new".to_owned())],
                ),
            ],
            after: vec!["mount x".to_owned()],
            fewest: 2,
        };
        assert_eq!(report.held(), 1);
        assert_eq!(
            report.failures(),
            [
                "A03 as user 65534: new",
                "the host after all probes: mount x",
                "1 probes hold, 2 are wanted"
            ]
        );
        let counts = "root: 2 held, 0 unproven, 0 not-applicable, 1 gap, 0 broken; \
                      user 65534: 1 held, 1 unproven, 0 not-applicable, 0 gap, 1 broken";
        assert_eq!(report.counts(), counts);
        assert!(report.text().contains("A03  gap            BROKEN         try; works\n"));
    }
}
