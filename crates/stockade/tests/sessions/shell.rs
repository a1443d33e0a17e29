//! `stockade shell` in a terminal multiplexer.

use crate::support::{Sessions, wait_for};
use crate::terminal::Terminal;

/// A shell in a session, in a terminal.
fn open(sessions: &Sessions) -> Option<Terminal<'_>> {
    sessions.create("one");
    let terminal = Terminal::new(sessions)?;
    terminal.wait_for("a prompt", |line| line.ends_with(['#', '$']));
    terminal.line("stty -a > before; \"$BINARY\" shell one; echo left $?");
    sessions.wait_for_programs("one", 1);
    // The shell inside may take a moment to read its first line.
    terminal.line("PS1='inside> '; stty size");
    terminal.wait_for("the size", |line| line == "24 80");
    terminal.wait_for("the prompt inside", |line| line == "inside>");
    Some(terminal)
}

#[test]
fn shell_has_job_control_and_ctrl_c_acts_inside() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    terminal.line("sleep 600");
    sessions.wait_for_programs("one", 1);
    terminal.key("C-c");
    terminal.line("echo code $?");
    terminal.wait_for("the code of SIGINT", |line| line == "code 130");
    terminal.line("cat");
    terminal.line("echoed by cat");
    terminal.key("C-z");
    terminal.line("jobs");
    terminal.wait_for("a stopped job", |line| line.contains("Stopped") && line.contains("cat"));
    terminal.line("kill %1; fg; echo gone");
    terminal.wait_for("the job is gone", |line| line == "gone");
    terminal.line("exit 7");
    terminal.wait_for("the code of the shell", |line| line == "left 7");
    terminal.line("stty -a > after; cmp before after && echo restored");
    terminal.wait_for("the mode of the terminal", |line| line == "restored");
    assert_eq!(sessions.text(&["ls", "-q"]), "one\n");
}

#[test]
fn shell_follows_the_size_of_its_terminal() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    assert_eq!(terminal.tmux(&["resize-window", "-x", "101", "-y", "33"]).code, 0);
    let found = || {
        terminal.line("clear; stty size");
        terminal.screen().lines().any(|line| line == "33 101").then_some(())
    };
    wait_for("the new size inside", found);
}

#[test]
fn full_screen_program_draws_and_leaves_the_screen_as_it_was() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    terminal.line("seq 1 500 > numbers; echo still here");
    terminal.wait_for("the line before", |line| line == "still here");
    // Draws on the alternate screen, moves the cursor, and reads single keys.
    let program = "import curses\ndef main(s):\n s.addstr(5, 20, 'drawn')\n s.refresh()\n \
                   k = s.getkey()\n s.addstr(6, 20, 'key ' + k)\n s.refresh()\n s.getkey()\n\
                   curses.wrapper(main)\n";
    let file = sessions.place.file("screen.py", program);
    let save = "cat > /workspace/screen.py";
    let mut command = sessions.command(&["exec", "-i", "one", "--", "sh", "-c", save]);
    let text = std::fs::read(file).unwrap();
    assert_eq!(crate::support::finish_with(&mut command, &text).code, 0);
    terminal.line("python3 screen.py");
    let drawn = format!("{:20}drawn", "");
    terminal.wait_for("the drawing", |line| line == drawn);
    terminal.key("x");
    terminal.wait_for("the key", |line| line.trim() == "key x");
    terminal.key("q");
    terminal.wait_for("the screen before", |line| line == "still here");
}

#[test]
fn closed_terminal_ends_the_shell_and_keeps_the_session() {
    let Some(sessions) = Sessions::new() else { return };
    let Some(terminal) = open(&sessions) else { return };
    sessions.wait_for_programs("one", 1);
    drop(terminal);
    sessions.wait_for_programs("one", 0);
    assert_eq!(sessions.sh("one", "echo here").text(), "here\n");
}
