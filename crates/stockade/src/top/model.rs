//! What is shown, and what keys do.
//!
//! ```text
//! list ── enter ──▶ inspecting ── escape, q ──▶ list
//!  └── k ──▶ confirming ── y: ends the session; any other key ──▶ list
//! ```

use stockade_api::{DenialView, ExecutionView, NetworkView, SessionView};

use super::keys::Key;

/// Lines per page of an inspected session.
const PAGE: usize = 10;

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    /// In seconds since 1970.
    pub(super) created: u64,
    /// Its supervisor's reply; `None` if it does not answer.
    pub(super) answered: Option<Answered>,
}

/// A supervisor's reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answered {
    pub(super) view: SessionView,
    /// Processors in use since the last measurement, in percent of one.
    pub(super) cpu_percent: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) network: Option<NetworkView>,
    pub(super) denied: u64,
    pub(super) denials: Vec<DenialView>,
    /// The programs, of the inspected session only.
    pub(super) programs: Vec<ExecutionView>,
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// By name.
    pub(super) rows: Vec<Row>,
    /// The name of the chosen session: its place may change.
    pub(super) chosen: Option<String>,
    pub(super) mode: Mode,
    /// An error of the last key.
    pub(super) message: Option<String>,
    /// In seconds since 1970.
    pub(super) now: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    List,
    /// Shows one session, from a line on.
    Inspecting { line: usize },
    /// Asks whether the session shall end.
    Confirming { name: String },
}

/// The action of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Quit,
    Pause(String),
    Resume(String),
    End(String),
}

impl Model {
    /// Shows newly measured sessions. Another is chosen if the chosen one is gone.
    pub(super) fn set(&mut self, rows: Vec<Row>) {
        let before = self.place();
        self.rows = rows;
        let is_there = |name: &String| self.rows.iter().any(|row| row.name == *name);
        if !self.chosen.as_ref().is_some_and(is_there) {
            let place = before.min(self.rows.len().saturating_sub(1));
            self.chosen = self.rows.get(place).map(|row| row.name.clone());
            // Whatever was shown or asked concerned a session that is gone.
            self.mode = Mode::List;
        }
    }

    /// The index of the chosen session.
    pub(super) fn place(&self) -> usize {
        let is_chosen = |row: &Row| Some(&row.name) == self.chosen.as_ref();
        self.rows.iter().position(is_chosen).unwrap_or(0)
    }

    /// The chosen session.
    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.place())
    }

    /// The name of the session whose programs are shown.
    pub(super) fn inspected(&self) -> Option<&str> {
        match self.mode {
            Mode::Inspecting { .. } => self.chosen.as_deref(),
            _ => None,
        }
    }

    pub(super) fn press(&mut self, key: Key) -> Act {
        self.message = None;
        match (std::mem::take(&mut self.mode), key) {
            (_, Key::Interrupt) => Act::Quit,
            (Mode::Confirming { name }, Key::Character('y' | 'Y')) => Act::End(name),
            (Mode::Confirming { .. }, _) => Act::Nothing,
            (Mode::Inspecting { .. }, Key::Escape | Key::Enter | Key::Character('q')) => {
                Act::Nothing
            }
            (Mode::Inspecting { line }, key) => {
                let line = match key {
                    Key::Down => line + 1,
                    Key::PageDown => line + PAGE,
                    Key::Up => line.saturating_sub(1),
                    Key::PageUp => line.saturating_sub(PAGE),
                    _ => line,
                };
                self.mode = Mode::Inspecting { line };
                self.act(key)
            }
            (Mode::List, Key::Character('q')) => Act::Quit,
            (Mode::List, Key::Up) => self.choose(self.place().saturating_sub(1)),
            (Mode::List, Key::Down) => self.choose(self.place() + 1),
            (Mode::List, Key::PageUp) => self.choose(self.place().saturating_sub(PAGE)),
            (Mode::List, Key::PageDown) => self.choose(self.place() + PAGE),
            (Mode::List, Key::Enter) => {
                if self.row().is_some() {
                    self.mode = Mode::Inspecting { line: 0 };
                }
                Act::Nothing
            }
            (Mode::List, key) => self.act(key),
        }
    }

    fn choose(&mut self, place: usize) -> Act {
        let place = place.min(self.rows.len().saturating_sub(1));
        self.chosen = self.rows.get(place).map(|row| row.name.clone());
        Act::Nothing
    }

    /// What a key does to the chosen session.
    fn act(&mut self, key: Key) -> Act {
        let Some(row) = self.row() else { return Act::Nothing };
        let name = row.name.clone();
        match key {
            Key::Character('p') => match &row.answered {
                Some(answered) if answered.view.state == "paused" => Act::Resume(name),
                _ => Act::Pause(name),
            },
            Key::Character('k') => {
                self.mode = Mode::Confirming { name };
                Act::Nothing
            }
            _ => Act::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row { name: name.to_owned(), created: 0, answered: None }
    }

    fn model(names: &[&str]) -> Model {
        let mut model = Model::default();
        model.set(names.iter().map(|name| row(name)).collect());
        model
    }

    #[test]
    fn chosen_session_stays_chosen_when_others_come_and_go() {
        let mut model = model(&["a", "b", "c"]);
        assert_eq!(model.press(Key::Down), Act::Nothing);
        assert_eq!(model.chosen.as_deref(), Some("b"));
        model.set(vec![row("0"), row("b"), row("c")]);
        assert_eq!(model.chosen.as_deref(), Some("b"));
        model.set(vec![row("0"), row("c")]);
        assert_eq!(model.chosen.as_deref(), Some("c"));
        model.set(Vec::new());
        assert_eq!(model.chosen, None);
        assert_eq!(model.press(Key::Character('k')), Act::Nothing);
        assert_eq!(model.mode, Mode::List);
    }

    #[test]
    fn session_ends_only_after_a_confirmation() {
        let mut model = model(&["a", "b"]);
        assert_eq!(model.press(Key::Character('y')), Act::Nothing);
        assert_eq!(model.press(Key::Character('k')), Act::Nothing);
        assert_eq!(model.press(Key::Enter), Act::Nothing);
        assert_eq!(model.press(Key::Character('y')), Act::Nothing);
        assert_eq!(model.press(Key::Character('k')), Act::Nothing);
        assert_eq!(model.press(Key::Character('y')), Act::End("a".to_owned()));
    }

    #[test]
    fn confirmation_ends_with_the_session_that_it_concerns() {
        let mut model = model(&["a", "b"]);
        model.press(Key::Character('k'));
        model.set(vec![row("b")]);
        assert_eq!(model.press(Key::Character('y')), Act::Nothing);
    }

    #[test]
    fn escape_leaves_the_inspection_and_q_quits_the_list() {
        let mut model = model(&["a"]);
        model.press(Key::Enter);
        assert_eq!(model.inspected(), Some("a"));
        assert_eq!(model.press(Key::Escape), Act::Nothing);
        assert_eq!(model.inspected(), None);
        assert_eq!(model.press(Key::Character('p')), Act::Pause("a".to_owned()));
        assert_eq!(model.press(Key::Character('q')), Act::Quit);
    }
}
