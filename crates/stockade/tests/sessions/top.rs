//! `stockade top` in a terminal multiplexer.

use crate::support::{Sessions, finish};
use crate::terminal::Terminal;

/// A denial of the gate: a name that the policy does not allow.
const DENIED: &str =
    "import socket\ntry: socket.getaddrinfo('evil.test', 443)\nexcept OSError: pass";

/// Sessions `agent`, in which something was denied, and `idle`, shown without colours.
fn open(sessions: &Sessions) -> Option<Terminal<'_>> {
    let terminal = Terminal::new(sessions)?;
    sessions.text(&["create", "--name", "agent", "--allow-host", "good.test"]);
    sessions.create("idle");
    let code = sessions.place.file("denied.py", DENIED);
    sessions.text(&["code", "agent", &code]);
    terminal.wait_for("a prompt", |line| line.ends_with(['#', '$']));
    terminal.line("stty -a > before; NO_COLOR=1 \"$BINARY\" top -n 200ms; echo left $?");
    terminal.wait_for("the first measurement", |line| line.starts_with("> agent"));
    Some(terminal)
}

/// A line with every number replaced, as it may be another the next time.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for character in line.trim_end().chars() {
        let character = if character.is_ascii_digit() { '9' } else { character };
        if !(character == '9' && shape.ends_with('9')) {
            shape.push(character);
        }
    }
    shape.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn top_is_drawn_in_80_columns_and_24_rows() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    // The second measurement has the use of the processor.
    terminal.wait_for("a percentage", |line| line.starts_with("> agent") && line.contains('%'));
    let screen = terminal.screen();
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines.len(), 24, "{screen}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{screen}");
    let title = shape(lines[0]);
    assert!(title.starts_with("stockade top 9 sessions, 9 programs, 9 denial"), "{screen}");
    let heads = "  NAME             STATE    CPU   MEMORY   RECEIVED SENT     DENIED PROG AGE";
    assert_eq!(lines[1].trim_end(), heads, "{screen}");
    let memory = |line: &str| line.replace("KiB", "MiB");
    assert_eq!(memory(&shape(lines[2])), "> agent running 9% 9 MiB 9 B 9 B 9 9 9s", "{screen}");
    assert_eq!(memory(&shape(lines[3])), "idle running 9% 9 MiB 9 B 9 B 9 9 9s", "{screen}");
    let denials = lines.iter().position(|line| line.trim_end() == "LAST DENIALS");
    let denials = &lines[denials.expect("there is a heading") + 1..23];
    assert!(denials.iter().all(|line| line.contains("agent  evil.test: ")), "{screen}");
    let foot = " up/down choose  enter inspect  p pause  k end  q quit";
    assert_eq!(lines[23].trim_end(), foot, "{screen}");
    // tmux would print the escape sequences of colours.
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]).stdout;
    let is_colour = |part: &str| {
        let codes = part.split('m').next().unwrap_or_default();
        codes.split(';').any(|code| {
            code.len() == 2 && code.starts_with(['3', '4', '9']) && code != "39" && code != "49"
        })
    };
    assert!(!coloured.split("\u{1b}[").skip(1).any(is_colour), "{coloured:?}");
    terminal.key("q");
    terminal.wait_for("the code", |line| line == "left 0");
    terminal.line("stty -a > after; cmp before after && echo restored");
    terminal.wait_for("the mode of the terminal", |line| line == "restored");
}

#[test]
fn keys_inspect_pause_and_end_the_chosen_session() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    terminal.key("Enter");
    terminal.wait_for("the wall", |line| line.trim().starts_with("wall"));
    terminal.wait_for("a denial", |line| line.contains("evil.test"));
    terminal.key("Escape");
    terminal.wait_for("the list", |line| line.starts_with("> agent"));
    terminal.key("Down");
    terminal.wait_for("the second session", |line| line.starts_with("> idle"));
    terminal.key("p");
    terminal.wait_for("it is paused", |line| line.starts_with("> idle") && line.contains("paused"));
    assert_eq!(sessions.json(&["inspect", "idle"])[0]["state"], "paused");
    terminal.key("p");
    terminal.wait_for("it runs", |line| line.starts_with("> idle") && line.contains("running"));
    terminal.key("k");
    terminal.wait_for("the question", |line| line.contains("End idle with all its programs"));
    terminal.key("n");
    terminal.wait_for("no question", |line| line.contains("q quit"));
    assert_eq!(sessions.text(&["ls", "-q"]), "agent\nidle\n");
    terminal.key("k");
    terminal.key("y");
    terminal.wait_for("one session", |line| line.starts_with("stockade top  1 session,"));
    assert_eq!(sessions.text(&["ls", "-q"]), "agent\n");
    terminal.key("C-c");
    terminal.wait_for("the code", |line| line == "left 0");
}

#[test]
fn looking_at_a_session_does_not_keep_it_alive() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.text(&["create", "--name", "idle", "--idle", "1s"]);
    let supervisor = sessions.supervisor("idle");
    // Every look is less than a second after the last.
    crate::support::wait_for("the session ends", || {
        sessions.run(&["stats", "idle"]);
        (!crate::support::is_alive(supervisor)).then_some(())
    });
}

#[test]
fn stats_count_the_memory_in_use_and_the_denials() {
    let Some(sessions) = Sessions::new() else { return };
    for (name, record) in [("kept", None), ("unkept", Some("--no-record"))] {
        let words = ["create", "--name", name, "--allow-host", "good.test"];
        let words: Vec<&str> = words.into_iter().chain(record).collect();
        sessions.text(&words);
        let code = sessions.place.file("denied.py", DENIED);
        sessions.text(&["code", name, &code]);
        let stats = &sessions.json(&["stats", name])[0];
        assert!(stats["memory_bytes"].as_u64() <= stats["memory_peak_bytes"].as_u64(), "{stats}");
        assert!(stats["memory_bytes"].as_u64() > Some(0), "{stats}");
        assert!(stats["denied"].as_u64() > Some(0), "{stats}");
        assert!(stats["denials"][0]["target"].as_str().unwrap().contains("evil.test"), "{stats}");
        assert_eq!(stats["network"].is_null(), record.is_some(), "{stats}");
    }
}

#[test]
fn top_without_a_terminal_names_what_to_use_instead() {
    let sessions = finish(std::process::Command::new(crate::support::binary()).arg("top"));
    assert_eq!(sessions.code, 125, "{sessions:?}");
    for part in ["terminal", "stockade ls", "stockade stats", "--json"] {
        assert!(sessions.stderr.contains(part), "{}", sessions.stderr);
    }
}
