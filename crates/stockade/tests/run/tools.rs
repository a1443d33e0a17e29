//! Tools and the files that a run may write.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Run, command, finish, stockade, walls_can_be_built};
use stockade_testing::Scratch;

const TOOLS: &str = "
tools:
  - name: say
    description: Says a word.
    command: [sh, ./say.sh]
    input_schema: { type: object }
";

/// Tries to replace the tool's program, then calls the tool.
const ATTEMPT: &str = "echo 'echo \\\"changed\\\"' > \"$0/say.sh\"; stockade-tool say";

fn project(scratch: &Scratch) -> &Path {
    let folder = scratch.path();
    fs::write(folder.join("tools.yaml"), TOOLS).expect("written");
    fs::write(folder.join("say.sh"), "echo '\"plain\"'").expect("written");
    folder
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

fn attempt(folder: &Path, words: &[&str], place: &str) -> Run {
    let tools = folder.join("tools.yaml");
    let mut all = vec!["--quiet", "--tools", tools.to_str().expect("plain text")];
    all.extend(words);
    all.extend(["--", "sh", "-c", ATTEMPT, place]);
    stockade(&all)
}

#[test]
fn tools_whose_programs_the_run_could_change_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = project(&scratch);
    let host = folder.to_str().expect("plain text");
    let above = folder.parent().and_then(Path::to_str).expect("plain text");
    let ways = [
        ("--mount", format!("{host}:/m:rw")),
        ("--mount", format!("{above}:/m:rw")),
        ("--mount", format!("{host}/say.sh:/m/say.sh:rw")),
        ("--workspace", format!("{host}:write")),
    ];
    for (flag, said) in &ways {
        let run = attempt(folder, &[flag, said], "/m");
        assert_eq!(run.code, 125, "{said}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("could change"), "{said}: {}", run.stderr);
        let program = fs::read_to_string(folder.join("say.sh")).expect("read");
        assert!(!program.contains("changed"), "{said}");
    }
}

#[test]
fn tools_in_a_read_only_or_overlay_mount_run_unchanged() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let folder = project(&scratch);
    let host = folder.to_str().expect("plain text");
    let ways = [
        ("--mount", format!("{host}:/m"), "/m"),
        ("--workspace", format!("{host}:overlay"), "/workspace"),
    ];
    for (flag, said, place) in &ways {
        let run = attempt(folder, &[flag, said], place);
        assert_eq!((run.code, run.stdout.as_str()), (0, "\"plain\"\n"), "{said}: {}", run.stderr);
    }
}

#[test]
fn run_that_could_write_any_path_to_a_tools_program_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let (conf, shared) = (scratch.path().join("conf"), scratch.path().join("written"));
    fs::create_dir_all(shared.join("bin")).expect("made");
    fs::create_dir(&conf).expect("made");
    let link = |to: &str, at: &Path| std::os::unix::fs::symlink(to, at).expect("a link");
    link("/bin/sh", &shared.join("bin/interpreter"));
    link("../written/bin/interpreter", &conf.join("through"));
    link("../written/later", &conf.join("dangling"));
    executable(&conf.join("twice"), "#!/bin/sh\n");
    fs::hard_link(conf.join("twice"), shared.join("twice")).expect("a second name");
    let mount = format!("{}:/m:rw", shared.display());
    for command in [
        "[../written/bin/interpreter, -c, exit]",
        "[./through, -c, exit]",
        "[./dangling]",
        "[sh, ../written/not-there-yet]",
        "[sh, --file=../written/x]",
        "[./twice]",
    ] {
        let text = TOOLS.replace("[sh, ./say.sh]", command);
        fs::write(conf.join("tools.yaml"), text).expect("written");
        let tools = conf.join("tools.yaml");
        let words =
            ["--tools", tools.to_str().expect("plain text"), "--mount", &mount, "--", "true"];
        let run = stockade(&words);
        assert_eq!(run.code, 125, "{command}: {}", run.stderr);
        assert!(run.stderr.contains("could change"), "{command}: {}", run.stderr);
        let alone = stockade(&words[..2].iter().chain(&words[4..]).copied().collect::<Vec<_>>());
        // Without the mount only the dangling link fails, because its target does not exist.
        let expected = if command == "[./dangling]" { (125, true) } else { (0, false) };
        let said = (alone.code, alone.stderr.contains("dangling`, which does not exist"));
        assert_eq!(said, expected, "{command}: {}", alone.stderr);
    }
}

#[test]
fn run_that_could_write_the_program_that_env_finds_for_a_tool_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let (conf, written) = (scratch.path().join("conf"), scratch.path().join("written"));
    for folder in [&conf, &written] {
        fs::create_dir(folder).expect("made");
    }
    executable(&conf.join("tool"), "#!/usr/bin/env teller\n");
    executable(&written.join("teller"), "#!/bin/sh\necho '\"plain\"'\n");
    let tools = conf.join("tools.yaml");
    fs::write(&tools, TOOLS.replace("[sh, ./say.sh]", "[./tool]")).expect("written");
    let path = std::env::var("PATH").expect("there is one");
    let path = format!("{path}:{}", written.display());
    let run = |mount: &str| {
        let mut run = command(&["--quiet", "--tools", tools.to_str().expect("plain text")]);
        run.args(["--mount", mount, "--", "stockade-tool", "say"]).env("PATH", &path);
        finish(run)
    };
    let seen = run(&format!("{}:/m", written.display()));
    assert_eq!((seen.code, seen.stdout.as_str()), (0, "\"plain\"\n"), "{}", seen.stderr);
    let refused = run(&format!("{}:/m:rw", written.display()));
    assert_eq!(refused.code, 125, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("could change"), "{}", refused.stderr);
}

#[test]
fn header_file_must_be_unwritable_by_the_run_and_has_a_size_limit() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let (conf, written) = (scratch.path().join("conf"), scratch.path().join("written"));
    for folder in [&conf, &written] {
        fs::create_dir(folder).expect("made");
    }
    let tools = conf.join("tools.yaml");
    let text = TOOLS.replace(
        "command: [sh, ./say.sh]",
        "http: {url: 'http://localhost:1/', headers_from: {X-Key: 'file:../written/key'}}",
    );
    fs::write(&tools, text).expect("written");
    let run = |mount: &str| {
        let tools = tools.to_str().expect("plain text");
        stockade(&["--tools", tools, "--mount", mount, "--", "echo", "it ran"])
    };
    let (seen, changed) =
        (format!("{}:/m", written.display()), format!("{}:/m:rw", written.display()));
    fs::write(written.join("key"), "k".repeat(64 << 10)).expect("written");
    let good = run(&seen);
    assert_eq!((good.code, good.stdout.as_str()), (0, "it ran\n"), "{}", good.stderr);
    let refused = run(&changed);
    assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("could change"), "{}", refused.stderr);
    fs::write(written.join("key"), "k".repeat((64 << 10) + 1)).expect("written");
    let large = run(&seen);
    assert_eq!((large.code, large.stdout.as_str()), (125, ""), "{}", large.stderr);
    assert!(large.stderr.contains("holds a header of the tool `say`"), "{}", large.stderr);
}
