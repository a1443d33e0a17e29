//! The summary at the end of a run.

use std::fmt::Write;
use std::time::Duration;

use crate::suite::Outcome;

/// The outcomes of all suites of a run, in order.
#[derive(Default)]
pub(crate) struct Report {
    suites: Vec<(String, Outcome, Duration)>,
    left_out: Vec<&'static str>,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, outcome: Outcome, time: Duration) {
        self.suites.push((name.to_owned(), outcome, time));
    }

    /// Records the suites that this run does not include.
    pub(crate) fn leave_out(&mut self, names: impl Iterator<Item = &'static str>) {
        self.left_out.extend(names);
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.suites.iter().any(|(held, _, _)| held == name)
    }

    pub(crate) fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed { .. }))
    }

    /// The table, the total time, the suites left out, then the counts on a line of their own.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::from("\n");
        for (name, outcome, time) in &self.suites {
            let (word, detail) = match outcome {
                Outcome::Passed { note } => ("passed", note),
                Outcome::Failed { why } => ("FAILED", why),
                Outcome::Skipped { reason } => ("skipped", reason),
            };
            let line = detail.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<10} {word:<8} {:>8}  {}", clock(*time), line.trim());
        }
        let total = self.suites.iter().map(|(_, _, time)| *time).sum();
        let _ = writeln!(text, "  {:<10} {:<8} {:>8}", "total", "", clock(total));
        if !self.left_out.is_empty() {
            let names = self.left_out.join(", ");
            let _ = writeln!(text, "\nnot run: {names}; ./test --nightly runs every suite");
        }
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed { .. }));
        let skipped = self.count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
        let _ = write!(text, "\n{passed} passed, {} failed, {skipped} skipped", self.failed());
        text
    }

    fn count(&self, kind: impl Fn(&Outcome) -> bool) -> usize {
        self.suites.iter().filter(|(_, outcome, _)| kind(outcome)).count()
    }
}

/// Minutes and seconds: `3:07`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_every_suite_with_its_time_and_closes_with_the_counts_alone() {
        let mut report = Report::default();
        report.add("format", Outcome::passed("in shape"), Duration::from_secs(2));
        report.add("lints", Outcome::failed("\nerror: one\nerror: two"), Duration::from_secs(61));
        report.add("fuzz", Outcome::skipped("no C++ compiler"), Duration::ZERO);
        let expected = "
  format     passed       0:02  in shape
  lints      FAILED       1:01  error: one
  fuzz       skipped      0:00  no C++ compiler
  total                   1:03

1 passed, 1 failed, 1 skipped";
        assert_eq!(report.summary(), expected);
        assert_eq!(report.failed(), 1);
    }

    #[test]
    fn summary_names_the_suites_that_were_not_run() {
        let mut report = Report::default();
        report.add("format", Outcome::passed("in shape"), Duration::ZERO);
        report.leave_out(["lab", "matrix"].into_iter());
        let line = "\nnot run: lab, matrix; ./test --nightly runs every suite\n";
        assert!(report.summary().contains(line), "{}", report.summary());
    }
}
