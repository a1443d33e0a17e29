use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::Value;
use stockade_api::NetworkView;

use super::*;
use crate::top::keys::Key;

fn session(name: &str, state: &str, running: usize) -> SessionView {
    SessionView {
        name: name.to_owned(),
        supervisor: 4321,
        state: state.to_owned(),
        created: 900,
        provider: "native".to_owned(),
        isolation: "process".to_owned(),
        policy: "default".to_owned(),
        policy_text: "version: \"2\"\nname: default\n".to_owned(),
        running,
        executions: 3,
        ttl_seconds: Some(3600),
        idle_seconds: Some(600),
        record: None,
        controls: Value::Null,
    }
}

fn row(name: &str, state: &str, running: usize) -> Row {
    let answered = Answered {
        view: session(name, state, running),
        cpu_percent: Some(12),
        memory_bytes: Some(120 << 20),
        network: Some(NetworkView { sent_bytes: 700, received_bytes: 4096, allowed: 1, denied: 0 }),
        denied: 0,
        denials: Vec::new(),
        programs: Vec::new(),
    };
    Row { name: name.to_owned(), created: 900, answered: Some(answered) }
}

fn denial(target: &str) -> DenialView {
    DenialView {
        time: 995,
        control: "network_hosts".to_owned(),
        rule: "policy.yaml:3:1: network_allowlist".to_owned(),
        target: target.to_owned(),
        why: "network_allowlist does not name it".to_owned(),
        how_to_allow: "add it to network_allowlist".to_owned(),
    }
}

fn model() -> Model {
    let mut model = Model { now: 1000, ..Model::default() };
    let mut denied = row("session-00c0ffee", "paused", 0);
    if let Some(answered) = &mut denied.answered {
        answered.denied = 2;
        answered.denials = vec![denial("a.test:443"), denial("evil\u{1b}[2J\nx.test:443")];
        answered.network = None;
        answered.cpu_percent = None;
    }
    let silent = Row { name: "silent".to_owned(), created: 999, answered: None };
    model.set(vec![row("agent", "running", 1), denied, silent]);
    model
}

fn drawn(model: &Model, style: Style, columns: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, 24)).unwrap();
    terminal.draw(|frame| draw(frame, model, style)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let text: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    text.chunks(width).map(|line| line.concat().trim_end().to_owned()).collect()
}

#[test]
fn list_fits_into_80_columns() {
    let found = lines(&drawn(&model(), Style::Plain, 80));
    let expected = [
        "stockade top  3 sessions, 1 program, 2 denials",
        "  NAME             STATE    CPU   MEMORY   RECEIVED SENT     DENIED PROG AGE",
        "> agent            running  12%   120 MiB  4 KiB    700 B    0      1    1m 40s",
        "  session-00c0ffee paused   -     120 MiB  ?        ?        2      0    1m 40s",
        "  silent           no reply                                              1s",
    ];
    assert_eq!(found[..5], expected);
    assert_eq!(
        found[19..22],
        [
            "",
            "LAST DENIALS",
            "  5s ago  session-00c0ffee  a.test:443: network_allowlist does not name it",
        ]
    );
    // What code inside chose cannot move the cursor or start a line.
    assert!(found[22].contains("evil\\u{1b}[2J\\u{a}x.test:443"), "{}", found[22]);
    assert_eq!(found[23], " up/down choose  enter inspect  p pause  k end  q quit");
}

#[test]
fn inspection_shows_programs_denials_and_the_policy() {
    let mut model = model();
    model.press(Key::Down);
    model.press(Key::Enter);
    let found = lines(&drawn(&model, Style::Plain, 80)).join("\n");
    for text in [
        "wall        native (process)",
        "age         1m 40s of 1h 0m, 10m 0s without use",
        "a.test:443: network_allowlist does not name it",
        "policy.yaml:3:1: network_allowlist; add it to network_allowlist",
    ] {
        assert!(found.contains(text), "{text}\n{found}");
    }
    // The rest is below.
    for _ in 0..5 {
        model.press(Key::PageDown);
    }
    let found = lines(&drawn(&model, Style::Plain, 80)).join("\n");
    assert!(found.contains("  name: default"), "{found}");
}

#[test]
fn without_colours_nothing_is_coloured_and_every_word_is_the_same() {
    let mut model = model();
    for key in [Key::Down, Key::Character('k')] {
        model.press(key);
        let (plain, coloured) =
            (drawn(&model, Style::Plain, 80), drawn(&model, Style::Colours, 80));
        assert_eq!(lines(&plain), lines(&coloured));
        assert!(
            plain.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset))
        );
        assert!(coloured.content.iter().any(|cell| cell.fg == Color::Red));
    }
    let no_color = |value: &str| Style::of(Some(OsStr::new(value)));
    assert_eq!(
        (no_color("1"), no_color(""), Style::of(None)),
        (Style::Plain, Style::Colours, Style::Colours)
    );
}

#[test]
fn end_is_confirmed_by_name() {
    let mut model = model();
    model.press(Key::Character('k'));
    let found = lines(&drawn(&model, Style::Plain, 80));
    assert_eq!(found[23], " End agent with all its programs and files? y/N");
}

#[test]
fn small_screen_and_many_sessions_keep_the_chosen_one_in_view() {
    let mut model = Model { now: 1000, ..Model::default() };
    model.set((0..100).map(|number| row(&format!("s{number:03}"), "running", 0)).collect());
    for _ in 0..60 {
        model.press(Key::Down);
    }
    for columns in [80, 40] {
        let found = lines(&drawn(&model, Style::Plain, columns)).join("\n");
        assert!(found.contains("> s060"), "{columns}\n{found}");
    }
}

#[test]
fn without_sessions_it_says_how_to_create_one() {
    let found = lines(&drawn(&Model::default(), Style::Plain, 80)).join("\n");
    assert!(found.contains("`stockade create`"), "{found}");
}
