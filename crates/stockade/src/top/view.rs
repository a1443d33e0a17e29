//! Draws the screen. A colour only repeats what a word or a number shows.

use std::ffi::OsStr;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as CellStyle};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};
use stockade_api::{DenialView, SessionView};

use super::model::{Answered, Mode, Model, Row};
use crate::sessions::summary::plain;
use crate::sessions::table::{age, size};

/// How many denials the list shows at most.
const DENIALS: u16 = 8;

/// Whether colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Colours,
    Plain,
}

impl Style {
    /// `NO_COLOR` counts unless it is empty.
    pub(super) fn of(no_color: Option<&OsStr>) -> Style {
        if no_color.is_some_and(|value| !value.is_empty()) { Style::Plain } else { Style::Colours }
    }

    fn of_colour(self, colour: Color) -> CellStyle {
        match self {
            Style::Colours => CellStyle::new().fg(colour),
            Style::Plain => CellStyle::new(),
        }
    }
}

const BOLD: CellStyle = CellStyle::new().add_modifier(Modifier::BOLD);
const CHOSEN: CellStyle = CellStyle::new().add_modifier(Modifier::REVERSED);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, style: Style) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title(model), head);
    match (&model.mode, model.row()) {
        (Mode::Inspecting { line }, Some(row)) => {
            let lines = inspected(row, model.now, style);
            let last = lines.len().saturating_sub(usize::from(body.height));
            let first = u16::try_from((*line).min(last)).unwrap_or(u16::MAX);
            frame.render_widget(Paragraph::new(lines).scroll((first, 0)), body);
        }
        _ => list(frame, body, model, style),
    }
    frame.render_widget(footer(model, style), foot);
}

fn title(model: &Model) -> Paragraph<'static> {
    let answered = || model.rows.iter().filter_map(|row| row.answered.as_ref());
    let programs: usize = answered().map(|answered| answered.view.running).sum();
    let denied: u64 = answered().map(|answered| answered.denied).sum();
    let count = |number: u64, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    };
    let parts = [
        count(model.rows.len() as u64, "session", "sessions"),
        count(programs as u64, "program", "programs"),
        count(denied, "denial", "denials"),
    ];
    Paragraph::new(Line::from(vec![
        Span::styled("stockade top", BOLD),
        Span::raw(format!("  {}", parts.join(", "))),
    ]))
}

fn footer(model: &Model, style: Style) -> Paragraph<'static> {
    let line = match (&model.mode, &model.message) {
        (Mode::Confirming { name }, _) => {
            let text = format!(" End {name} with all its programs and files? y/N");
            Line::styled(text, BOLD.patch(style.of_colour(Color::Red)))
        }
        (_, Some(message)) => {
            Line::styled(format!(" {}", plain(message)), style.of_colour(Color::Red))
        }
        (Mode::List, None) => Line::raw(" up/down choose  enter inspect  p pause  k end  q quit"),
        (Mode::Inspecting { .. }, None) => Line::raw(" up/down scroll  esc back  p pause  k end"),
    };
    Paragraph::new(line)
}

fn list(frame: &mut Frame<'_>, area: Rect, model: &Model, style: Style) {
    if model.rows.is_empty() {
        let text = "\n  No sessions. `stockade create` creates one.";
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let denials = last_denials(model);
    let shown = u16::try_from(denials.len()).unwrap_or(DENIALS).min(DENIALS);
    // A line between the two, and a heading.
    let below = if shown == 0 { 0 } else { shown + 2 };
    let [above, below] =
        Layout::vertical([Constraint::Min(2), Constraint::Length(below)]).areas(area);
    table(frame, above, model, style);
    let mut lines = vec![Line::raw(""), Line::styled("LAST DENIALS", BOLD)];
    lines.extend(denials.iter().rev().take(usize::from(DENIALS)).rev().map(|(name, denial)| {
        let ago = age(model.now.saturating_sub(denial.time));
        Line::raw(format!("  {ago} ago  {name}  {}", sentence(denial)))
    }));
    frame.render_widget(Paragraph::new(lines), below);
}

fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, style: Style) {
    let heads = ["NAME", "STATE", "CPU", "MEMORY", "RECEIVED", "SENT", "DENIED", "PROG", "AGE"];
    let widths = [
        Constraint::Min(8),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(4),
        Constraint::Length(7),
    ];
    let rows = model.rows.iter().map(|row| cells(row, model.now, style));
    let table = Table::new(rows, widths)
        .header(TableRow::new(heads).style(BOLD))
        .row_highlight_style(CHOSEN)
        .highlight_symbol("> ");
    let mut state = TableState::new().with_selected(Some(model.place()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn cells(row: &Row, now: u64, style: Style) -> TableRow<'static> {
    let old = age(now.saturating_sub(row.created));
    let Some(answered) = &row.answered else {
        let state = Cell::new("no reply").style(style.of_colour(Color::Red));
        let blank = std::iter::repeat_n(Cell::new(""), 6);
        let first = [Cell::new(row.name.clone()), state];
        return TableRow::new(first.into_iter().chain(blank).chain([Cell::new(old)]));
    };
    let unknown = || "?".to_owned();
    let network = |bytes: Option<u64>| bytes.map_or_else(unknown, size);
    let state = match answered.view.state.as_str() {
        "running" => Cell::new("running").style(style.of_colour(Color::Green)),
        other => Cell::new(other.to_owned()).style(style.of_colour(Color::Yellow)),
    };
    let denied = Cell::new(answered.denied.to_string());
    let denied =
        if answered.denied > 0 { denied.style(style.of_colour(Color::Red)) } else { denied };
    TableRow::new([
        Cell::new(row.name.clone()),
        state,
        Cell::new(percent(answered)),
        Cell::new(answered.memory_bytes.map_or_else(unknown, size)),
        Cell::new(network(answered.network.map(|network| network.received_bytes))),
        Cell::new(network(answered.network.map(|network| network.sent_bytes))),
        denied,
        Cell::new(answered.view.running.to_string()),
        Cell::new(old),
    ])
}

fn percent(answered: &Answered) -> String {
    answered.cpu_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
}

/// The denials of all sessions, the oldest first.
fn last_denials(model: &Model) -> Vec<(&str, &DenialView)> {
    let of = |row: &'_ Row| row.answered.is_some();
    let rows = model.rows.iter().filter(|row| of(row));
    let mut all: Vec<(&str, &DenialView)> = rows
        .flat_map(|row| {
            let denials = row.answered.iter().flat_map(|answered| &answered.denials);
            denials.map(|denial| (row.name.as_str(), denial))
        })
        .collect();
    all.sort_by_key(|(_, denial)| denial.time);
    all
}

/// A denial in one line. Code inside chooses parts of it.
fn sentence(denial: &DenialView) -> String {
    let DenialView { target, why, .. } = denial;
    plain(&format!("{target}: {why}"))
}

/// Everything about one session.
fn inspected(row: &Row, now: u64, style: Style) -> Vec<Line<'static>> {
    let head = |text: &str| Line::styled(text.to_owned(), BOLD);
    let fact = |name: &str, value: String| Line::raw(format!("  {name:<12}{}", plain(&value)));
    let mut lines = vec![head(&row.name)];
    let Some(answered) = &row.answered else {
        let text = "  Its supervisor does not answer: it is being created, or hangs.";
        lines.push(Line::styled(text, style.of_colour(Color::Red)));
        return lines;
    };
    let Answered { view, memory_bytes, network, .. } = answered;
    lines.extend([
        fact("state", view.state.clone()),
        fact("wall", format!("{} ({})", view.provider, view.isolation)),
        fact("age", lifetime(row, view, now)),
        fact("supervisor", view.supervisor.to_string()),
        fact("record", view.record.clone().unwrap_or_else(|| "not kept".to_owned())),
        fact("cpu", percent(answered)),
        fact("memory", memory_bytes.map_or_else(|| "?".to_owned(), size)),
    ]);
    if let Some(network) = network {
        let (received, sent) = (size(network.received_bytes), size(network.sent_bytes));
        let text = format!(
            "{received} received, {sent} sent; {} connections allowed, {} denied",
            network.allowed, network.denied
        );
        lines.push(fact("network", text));
    }
    lines.extend([Line::raw(""), head("PROGRAMS")]);
    lines.extend(answered.programs.iter().filter(|program| program.state == "running").map(
        |program| {
            let old = age(now.saturating_sub(program.started));
            let text = format!("  {}  {old}  {}", program.execution, program.command.join(" "));
            Line::raw(plain(&text))
        },
    ));
    lines.extend([Line::raw(""), head("LAST DENIALS")]);
    for denial in answered.denials.iter().rev() {
        let ago = age(now.saturating_sub(denial.time));
        lines.push(Line::raw(format!("  {ago} ago  {}", sentence(denial))));
        lines.push(Line::raw(plain(&format!("    {}; {}", denial.rule, denial.how_to_allow))));
    }
    lines.extend([Line::raw(""), head("POLICY")]);
    lines.extend(view.policy_text.lines().map(|line| Line::raw(plain(&format!("  {line}")))));
    lines
}

fn lifetime(row: &Row, view: &SessionView, now: u64) -> String {
    let old = age(now.saturating_sub(row.created));
    let most = view.ttl_seconds.map(|ttl| format!(" of {}", age(ttl))).unwrap_or_default();
    let idle = view.idle_seconds.map(|idle| format!(", {} without use", age(idle)));
    format!("{old}{most}{}", idle.unwrap_or_default())
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
