//! The summary at the end of a run.

use std::fmt::Write;

use crate::suite::Outcome;

/// How every suite of a run went, in order.
#[derive(Default)]
pub(crate) struct Report {
    suites: Vec<(String, Outcome)>,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, outcome: Outcome) {
        self.suites.push((name.to_owned(), outcome));
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.suites.iter().any(|(held, _)| held == name)
    }

    pub(crate) fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed { .. }))
    }

    /// The table, then the closing line alone.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\n");
        for (name, outcome) in &self.suites {
            let (word, detail) = match outcome {
                Outcome::Passed { note } => ("passed", note),
                Outcome::Failed { why } => ("FAILED", why),
                Outcome::Skipped { reason } => ("skipped", reason),
            };
            let line = detail.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<10} {word:<8} {}", line.trim());
        }
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed { .. }));
        let skipped = self.count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
        let _ = write!(text, "\n{passed} passed, {} failed, {skipped} skipped", self.failed());
        text
    }

    fn count(&self, kind: impl Fn(&Outcome) -> bool) -> usize {
        self.suites.iter().filter(|(_, outcome)| kind(outcome)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_every_suite_and_closes_with_the_counts_alone() {
        let mut report = Report::default();
        report.add("format", Outcome::passed("in shape"));
        report.add("lints", Outcome::failed("\nerror: one\nerror: two"));
        report.add("fuzz", Outcome::skipped("no C++ compiler"));
        let expected = "
  format     passed   in shape
  lints      FAILED   error: one
  fuzz       skipped  no C++ compiler

1 passed, 1 failed, 1 skipped";
        assert_eq!(report.summary(), expected);
        assert_eq!(report.failed(), 1);
    }
}
