//! What a session did so far, for people who watch it: network traffic and the last denials.
//!
//! With a record, each event counts as it is recorded. Without one, denials count when their program
//! ends, from its report, and traffic is not counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use stockade_api::{DenialView, NetworkView};
use stockade_policy::{Denial, Effect};
use stockade_record::Body;

/// How many denials are kept.
const KEPT: usize = 32;

/// How many characters of each text of a denial are kept; a program chooses some of them.
const MOST_CHARACTERS: usize = 512;

/// Counts what a session does.
#[derive(Debug)]
pub struct Activity {
    is_recorded: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    network: NetworkView,
    denied: u64,
    denials: VecDeque<DenialView>,
}

impl Activity {
    /// Nothing happened yet. `is_recorded` is whether [`Activity::observe`] receives the events of a
    /// record.
    pub fn new(is_recorded: bool) -> Activity {
        Activity { is_recorded, state: Mutex::default() }
    }

    /// Counts one event of the record.
    pub fn observe(&self, body: &Body) {
        match body {
            Body::Denial(denied) => self.note(&denied.denial),
            Body::Verdict(given) => given.denial.iter().for_each(|denial| self.note(denial)),
            Body::ToolCall(call) => call.denial.iter().for_each(|denial| self.note(denial)),
            Body::Egress(egress) => {
                {
                    let network = &mut self.lock().network;
                    network.sent_bytes += egress.sent_bytes;
                    network.received_bytes += egress.received_bytes;
                    match egress.verdict {
                        Effect::Deny => network.denied += 1,
                        Effect::Allow | Effect::Audit => network.allowed += 1,
                    }
                }
                egress.denial.iter().for_each(|denial| self.note(denial));
            }
            _ => {}
        }
    }

    /// Counts the denials of a program that has ended, unless a record has counted them already.
    pub(crate) fn ended(&self, denials: &[Denial]) {
        if !self.is_recorded {
            denials.iter().for_each(|denial| self.note(denial));
        }
    }

    /// Traffic, the number of denials, and the last of them.
    pub(crate) fn view(&self) -> (Option<NetworkView>, u64, Vec<DenialView>) {
        let state = self.lock();
        let network = self.is_recorded.then_some(state.network);
        (network, state.denied, state.denials.iter().cloned().collect())
    }

    fn note(&self, denial: &Denial) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let short = |text: &str| text.chars().take(MOST_CHARACTERS).collect::<String>();
        let view = DenialView {
            time: now.map_or(0, |now| now.as_secs()),
            control: short(&denial.control),
            rule: short(&denial.rule),
            target: short(&denial.target),
            why: short(&denial.why),
            how_to_allow: short(&denial.how_to_allow),
        };
        let mut state = self.lock();
        state.denied += 1;
        if state.denials.len() == KEPT {
            state.denials.pop_front();
        }
        state.denials.push_back(view);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No critical section leaves the value inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use stockade_record::Denied;

    use super::*;

    fn denial(target: &str) -> Denial {
        let text = |text: &str| text.to_owned();
        Denial {
            control: "network_hosts".into(),
            rule: text("rule"),
            target: text(target),
            why: text("why"),
            how_to_allow: text("how"),
        }
    }

    #[test]
    fn last_denials_are_kept_shortened_and_all_are_counted() {
        let activity = Activity::new(true);
        for number in 0..100 {
            let denial = denial(&format!("{number} {}", "x".repeat(10_000)));
            activity.observe(&Body::Denial(Denied { execution: None, denial }));
        }
        let (_, denied, denials) = activity.view();
        assert_eq!((denied, denials.len()), (100, KEPT));
        assert!(
            denials[0].target.starts_with("68 ") && denials[KEPT - 1].target.starts_with("99 ")
        );
        assert!(denials.iter().all(|denial| denial.target.chars().count() == MOST_CHARACTERS));
    }

    #[test]
    fn denials_of_a_report_count_only_without_a_record() {
        for (is_recorded, expected) in [(true, 0), (false, 1)] {
            let activity = Activity::new(is_recorded);
            activity.ended(&[denial("a")]);
            let (network, denied, _) = activity.view();
            assert_eq!((network.is_some(), denied), (is_recorded, expected));
        }
    }
}
