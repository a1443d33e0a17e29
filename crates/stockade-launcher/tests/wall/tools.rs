//! The tool directory, without a guest that serves its socket.

use stockade_launcher::{Plan, Step, ToolFile, ToolSocket};

use crate::support::{Ended, carry_out, plan, walls_can_be_built};

/// A wall with a tool directory around a shell command.
fn wall(script: &str) -> Plan {
    let mut plan = plan(script);
    let after =
        plan.inside.iter().position(|step| step.name() == "loopback").expect("the step is there")
            + 1;
    let file = |path: &str, content: &str| ToolFile { path: path.into(), content: content.into() };
    plan.inside.insert(
        after,
        Step::ToolSocket(ToolSocket {
            directory: "/tmp/tools".into(),
            files: vec![file("list", "one\n"), file("a/b/c", &"x".repeat(100_000))],
            commands: vec!["bin/tool".into(), "guest".into()],
            socket: Some("socket".into()),
            denials: Some("denials".into()),
        }),
    );
    plan
}

fn said(script: &str) -> String {
    match carry_out(&wall(script)) {
        Ended::Ran(0, text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tool_directory_is_complete_and_read_only() {
    if !walls_can_be_built() {
        return;
    }
    let text = said(
        "cd /tmp/tools && cat list && wc -c < a/b/c && stat -c '%a %F %n' . a a/b/c list socket denials bin/tool guest; \
         grep ' /tmp/tools ' /proc/self/mountinfo | cut -d' ' -f6; \
         echo x 2>/dev/null > more || echo refused; rm -f socket 2>/dev/null || echo refused; \
         mv /tmp/tools /tmp/gone 2>/dev/null || echo refused; test -S socket && echo there",
    );
    let expected = "one\n100000\n755 directory .\n755 directory a\n444 regular file a/b/c\n\
                    444 regular file list\n666 socket socket\n666 socket denials\n\
                    555 regular file bin/tool\n555 regular file guest\n";
    let (found, rest) = text.split_at(expected.len());
    assert_eq!(found, expected, "{text}");
    let attributes = rest.lines().next().unwrap();
    for attribute in ["ro", "nosuid", "nodev"] {
        assert!(attributes.split(',').any(|it| it == attribute), "{attributes}");
    }
    assert!(rest.ends_with("\nrefused\nrefused\nrefused\nthere\n"), "{rest}");
}

#[test]
fn tool_command_is_the_launchers_own_executable() {
    if !walls_can_be_built() {
        return;
    }
    let own = std::fs::metadata(env!("CARGO_BIN_EXE_stockade-launch")).unwrap().len();
    // It finds no plan on standard input and exits with 1.
    let text = said("wc -c < /tmp/tools/bin/tool; /tmp/tools/bin/tool < /dev/null; echo $?");
    assert_eq!(text, format!("{own}\n1\n"));
}
