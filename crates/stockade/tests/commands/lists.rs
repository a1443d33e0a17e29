//! Which programs a command list allows and denies, and which lists are refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{PRELUDE, Tools, lists_can_be_held, report, run, stockade};

#[test]
fn listed_helper_starts_and_the_denial_names_an_unlisted_one() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let policy = tools.plain_policy("command_allowlist: [python3, ls]\n");
    let code =
        format!("{PRELUDE}start('ls', '/'); start('/bin/ls', '/'); start('cat', '/dev/null')");
    let held = run(&["--policy", &policy, "--"], &code);
    assert_eq!(held.text("stdout"), "started 0\nstarted 0\nrefused 2\n");
    assert_eq!(held.targets(), ["/usr/bin/cat"]);
    let denial = &held.0["denials"][0];
    assert_eq!(denial["why"], "command_allowlist does not name `cat`");
    assert_eq!(denial["how_to_allow"], "add `cat` to command_allowlist");
}

#[test]
fn empty_list_allows_only_the_interpreter_of_the_script() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let script = tools.path().join("script.py");
    let code = format!("{PRELUDE}start(sys.executable, '-c', ''); start('/bin/ls', '/')");
    std::fs::write(&script, code).unwrap();
    let script = script.to_str().unwrap();
    let free = report(&stockade(&["run", "--json", script]));
    assert_eq!(free.text("stdout"), "started 0\nstarted 0\n");
    let policy = tools.plain_policy("command_allowlist: []\n");
    let held = report(&stockade(&["run", "--json", "--policy", &policy, script]));
    assert_eq!(held.text("stdout"), "started 0\nrefused 2\n");
    assert_eq!(held.targets(), ["/bin/ls"]);
}

#[test]
fn listed_command_missing_on_the_host_is_refused_before_anything_runs() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let policy = tools.plain_policy("command_allowlist: [python3, surely-no-such-program]\n");
    let output = stockade(&["run", "--policy", &policy, "--", "python3", "-c", "print('ran')"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]), "{said}");
    assert!(said.contains("`surely-no-such-program`"), "{said}");
}

#[test]
fn listed_path_allows_only_that_file() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let own = tools.path().join("tools");
    std::fs::copy(own.join("ls"), own.join("other")).unwrap();
    let (ls, other) = (own.join("ls"), own.join("other"));
    let text = |list: &str| format!("filesystem: {{read: [{}]}}\n{list}", own.display());
    let code = format!("{PRELUDE}start({ls:?}, '/'); start({other:?}, '/')");
    let free = run(&["--policy", &tools.plain_policy(&text("")), "--"], &code);
    assert_eq!(free.text("stdout"), "started 0\nstarted 0\n");
    let list = format!("command_allowlist: [python3, {}]\n", ls.display());
    let held = run(&["--policy", &tools.plain_policy(&text(&list)), "--"], &code);
    assert_eq!(held.text("stdout"), "started 0\nrefused 13\n", "{}", held.0);
    assert_eq!(held.targets(), [other.to_str().unwrap()]);
    let how = held.0["denials"][0]["how_to_allow"].as_str().unwrap();
    assert_eq!(how, format!("add `{}` to command_allowlist", other.display()));
}

#[test]
fn listed_script_needs_its_interpreter_listed_and_the_denial_names_it() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let script = tools.path().join("tools/script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let code = format!("{PRELUDE}start({script:?})");
    let text = |list: &str| {
        format!("filesystem: {{read: [{}]}}\n{list}", tools.path().join("tools").display())
    };
    let list = |more: &str| format!("command_allowlist: [python3, {}{more}]\n", script.display());
    let alone = run(&["--policy", &tools.plain_policy(&text(&list(""))), "--"], &code);
    assert!(alone.text("stdout").starts_with("refused"), "{}", alone.0);
    assert_eq!(alone.targets(), ["/bin/sh"]);
    let both = run(&["--policy", &tools.plain_policy(&text(&list(", sh"))), "--"], &code);
    assert_eq!((both.text("stdout"), both.targets().len()), ("started 0\n", 0));
}

#[test]
fn no_program_starts_from_a_writable_or_overlaid_host_directory() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let own = tools.path().join("tools");
    for (clause, place) in [
        (format!("filesystem: {{write: [{{host: {}, guest: /out}}]}}\n", own.display()), "/out"),
        (
            format!("filesystem: {{workspace: {{host: {}, mode: overlay}}}}\n", own.display()),
            "/workspace",
        ),
        (
            format!("filesystem: {{workspace: {{host: {}, mode: write}}}}\n", own.display()),
            "/workspace",
        ),
    ] {
        let code = format!(
            "{PRELUDE}start('{place}/ls'); start(shutil.copy('{place}/ls', '{place}/new'))"
        );
        let free = run(&["--policy", &tools.plain_policy(&clause), "--"], &code);
        assert_eq!(free.text("stdout"), "started 0\nstarted 0\n", "{clause}: {}", free.0);
        let policy = tools.plain_policy(&format!("{clause}command_allowlist: [python3]\n"));
        let held = run(&["--policy", &policy, "--"], &code);
        assert_eq!(held.text("stdout"), "refused 13\nrefused 13\n", "{clause}: {}", held.0);
        assert_eq!(held.targets(), [format!("{place}/ls"), format!("{place}/new")]);
    }
}

#[test]
fn many_denials_are_capped_and_their_control_characters_escaped() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let code = format!(
        "{PRELUDE}\
         for n in range(100):\n start(shutil.copy('/tools/ls', f'/tmp/\\x1b[2J{{n}}'))\n"
    );
    let policy = tools.policy("command_allowlist: [python3]");
    let held = run(&["--policy", &policy, "--"], &code);
    assert_eq!(held.text("stdout"), "refused 13\n".repeat(100));
    let targets = held.targets();
    assert_eq!((targets.len(), targets[0]), (64, "/tmp/\\u{1b}[2J0"));
}

#[test]
fn custom_root_starts_only_its_listed_programs() {
    if !lists_can_be_held() {
        return;
    }
    let tools = Tools::new();
    let root = tools.path().join("root");
    let programs = ["/bin/sh", "/bin/true"];
    for program in programs {
        install(&root, program);
    }
    std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
    // An unpacked image has these directories and files.
    for folder in ["etc", "dev", "proc", "tmp", "workspace"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for file in ["etc/passwd", "etc/hosts", "dev/null", "dev/stdout"] {
        std::fs::write(root.join(file), "the image's own\n").unwrap();
    }
    std::os::unix::fs::symlink("/nowhere", root.join("etc/resolv.conf")).unwrap();
    let shell = "/bin/true && echo started || echo refused";
    let start = |policy: &str| {
        let root = root.to_str().unwrap();
        let words = ["run", "--json", "--root", root, "--policy", policy, "--", "sh", "-c", shell];
        report(&stockade(&words))
    };
    assert_eq!(start(&tools.plain_policy("{}\n")).text("stdout"), "started\n");
    let held = start(&tools.plain_policy("command_allowlist: [sh]\n"));
    assert_eq!(held.text("stdout"), "refused\n", "{}", held.0);
    held.assert_names("/bin/true");
    let both = start(&tools.plain_policy("command_allowlist: [sh, \"true\"]\n"));
    assert_eq!((both.text("stdout"), both.targets().len()), ("started\n", 0));
    let kept = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert_eq!(kept, "the image's own\n", "the directory itself is not changed");
}

/// Copies a program to `usr/bin`, and its shared libraries to their own paths.
fn install(root: &Path, program: &str) {
    let put = |from: &str, to: PathBuf| {
        let folder = to.parent().expect("a program is in a folder");
        std::fs::create_dir_all(folder).expect("a folder can be made");
        std::fs::copy(from, to).expect("a program can be copied");
    };
    let name = program.rsplit_once('/').map_or(program, |(_, name)| name);
    put(program, root.join("usr/bin").join(name));
    let needed = Command::new("ldd").arg(program).output().expect("ldd starts").stdout;
    for word in String::from_utf8_lossy(&needed).split_whitespace() {
        if word.starts_with('/') {
            put(word, root.join(word.trim_start_matches('/')));
        }
    }
}
