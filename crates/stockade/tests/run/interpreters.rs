//! Python environments of the caller.

use std::path::Path;

use crate::support::{command, finish, outside, walls_can_be_built};
use stockade_testing::{Scratch, not_run, set_mode};

/// A home directory with secrets and a virtual environment with one module.
fn home() -> (Scratch, String) {
    let scratch = Scratch::new();
    scratch.file("canary.txt", "canary");
    scratch.directory(".ssh");
    scratch.file(".ssh/id_ed25519", "canary");
    let venv = format!("{}/project/venv", scratch.text());
    outside(&["python3", "-m", "venv", "--without-pip", &venv]).text();
    scratch.file("project/secret.txt", "canary");
    let purelib = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let python = format!("{venv}/bin/python3");
    let packages = outside(&[python.as_str(), "-c", purelib]).text().trim().to_owned();
    let module = Path::new(&packages).join("planted_module.py");
    std::fs::write(&module, "word = 'imported'\n").expect("the environment is ours");
    set_mode(&module, 0o644);
    (scratch, venv)
}

const IMPORT: &str = "import planted_module, sys; print(planted_module.word)";

#[test]
fn packages_of_an_active_environment_can_be_imported() {
    if !walls_can_be_built() {
        return;
    }
    let (home, venv) = home();
    let plain = outside(&["python3", "-c", IMPORT]);
    assert!(plain.stderr.contains("planted_module"), "only the environment has the module");
    let script = home.file("script.py", IMPORT);
    for words in [vec![script.as_str()], vec!["--", "python3", "-c", IMPORT]] {
        let mut inside = command(&words);
        inside.env("VIRTUAL_ENV", &venv).env("HOME", home.text());
        assert_eq!(finish(inside).text(), "imported\n", "{words:?}");
    }
}

#[test]
fn python_flag_accepts_a_file_or_a_directory() {
    if !walls_can_be_built() {
        return;
    }
    let (home, venv) = home();
    let script = home.file("script.py", IMPORT);
    for python in [venv.clone(), format!("{venv}/bin/python3")] {
        let mut inside = command(&["--python", &python, &script]);
        inside.env("HOME", home.text());
        assert_eq!(finish(inside).text(), "imported\n", "{python}");
    }
    let mut missing = command(&["--python", "/nonexistent/python3", &script]);
    missing.env("HOME", home.text());
    let run = finish(missing);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""));
    assert!(run.stderr.contains("/nonexistent/python3") && run.stderr.contains("  = "));
}

#[test]
fn nothing_else_of_the_home_directory_is_visible() {
    if !walls_can_be_built() {
        return;
    }
    let (home, venv) = home();
    let look = "import os, sys
for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        try: text = open(os.path.join(folder, name), errors='replace').read(100)
        except OSError: continue
        if 'canary' in text: print(name)";
    let expected = "canary.txt\nid_ed25519\nsecret.txt\n";
    let host = outside(&["python3", "-c", look, home.text()]);
    let mut found: Vec<&str> = host.text().lines().collect();
    found.sort_unstable();
    assert_eq!(found.join("\n") + "\n", expected);
    let mut inside = command(&["--", "python3", "-c", look, home.text()]);
    inside.env("VIRTUAL_ENV", &venv).env("HOME", home.text());
    assert_eq!(finish(inside).text(), "");
}

#[test]
fn virtual_environment_cannot_be_changed_from_inside() {
    if !walls_can_be_built() {
        return;
    }
    let (home, venv) = home();
    let break_it = "import planted_module, sys
try: open(planted_module.__file__, 'a').write('x'); print('changed')
except OSError as error: print(error.errno)";
    let mut inside = command(&["--", "python3", "-c", break_it]);
    inside.env("VIRTUAL_ENV", &venv).env("HOME", home.text());
    let run = finish(inside);
    assert!(["30\n", "13\n"].contains(&run.text()), "{}", run.stdout);
    let host = outside(&[format!("{venv}/bin/python3").as_str(), "-c", break_it]);
    assert_eq!(host.text(), "changed\n");
}

#[test]
fn shell_script_and_program_find_the_python_of_the_active_environment() {
    if !walls_can_be_built() {
        return;
    }
    let (home, venv) = home();
    let tool = home.file("project/venv/bin/planted-tool", "#!/bin/sh\necho tool\n");
    set_mode(Path::new(&tool), 0o755);
    let script = home.file("script.sh", format!("python3 -c '{IMPORT}'\n"));
    let shell = format!("python3 -c '{IMPORT}'");
    for (words, printed) in [
        (vec![script.as_str()], "imported\n"),
        (vec!["--", "sh", "-c", &shell], "imported\n"),
        (vec!["--", "planted-tool"], "tool\n"),
    ] {
        let mut inside = command(&words);
        inside.env("VIRTUAL_ENV", &venv).env("HOME", home.text());
        assert_eq!(finish(inside).text(), printed, "{words:?}");
        let mut named = command(&[&["--python", venv.as_str()][..], &words].concat());
        named.env("HOME", home.text());
        assert_eq!(finish(named).text(), printed, "--python {words:?}");
    }
    // Nothing else of the home becomes visible, and the environment is read-only.
    let looks =
        format!("cat {0}/project/secret.txt {0}/canary.txt; echo x > {venv}/new", home.text());
    let mut inside = command(&["--", "sh", "-c", &looks]);
    inside.env("VIRTUAL_ENV", &venv).env("HOME", home.text());
    let run = finish(inside);
    assert!(run.code != 0 && !run.stdout.contains("canary"), "{run:?}");
    assert!(!Path::new(&format!("{venv}/new")).exists());
}

/// A home with a program in `.local/bin` that starts another one of it, and the PATH with both.
fn home_with_programs() -> (Scratch, String) {
    let home = Scratch::new();
    for folder in [".local", ".local/bin", ".cargo", ".cargo/bin"] {
        home.directory(folder);
    }
    for (name, text) in [
        ("tool-of-mine", "#!/bin/sh\necho mine\nsecond-tool\n"),
        ("second-tool", "#!/bin/sh\necho second\necho x 2>/dev/null > \"$0\" || echo read-only\n"),
    ] {
        let file = home.file(&format!(".local/bin/{name}"), text);
        set_mode(file.as_ref(), 0o755);
    }
    home.file(".cargo/bin/other-tool", "#!/bin/sh\necho other\n");
    home.file("canary.txt", "canary");
    let bin = format!("{}/.local/bin", home.text());
    (home, bin)
}

#[test]
fn program_of_the_users_own_directory_runs_with_the_others_of_it() {
    if !walls_can_be_built() {
        return;
    }
    let (home, bin) = home_with_programs();
    let run = |path: &str, words: &[&str]| {
        let mut inside = command(words);
        inside.env("HOME", home.text()).env("PATH", path);
        finish(inside)
    };
    let path = format!("{bin}:{}/.cargo/bin:/usr/bin:/bin", home.text());
    let outside =
        finish(std::process::Command::new(format!("{bin}/tool-of-mine")).env("PATH", &path));
    assert_eq!(outside.text(), "mine\nsecond\n", "outside the directory can be written");
    home_with_program_text(&home);
    assert_eq!(run(&path, &["--", "tool-of-mine"]).text(), "mine\nsecond\nread-only\n");
    // Nothing else of the home is visible, and other programs do not show the directory.
    let list = format!("ls -A {} {}/.local", home.text(), home.text());
    let seen = run(&path, &["--", "sh", "-c", &list]);
    assert!(seen.code != 0 && !seen.stdout.contains("canary"), "{seen:?}");
    assert_eq!(run("/usr/bin:/bin", &["--", "tool-of-mine"]).code, 127);
}

#[test]
fn proxy_of_rustup_runs_with_its_toolchain_which_is_read_only() {
    if !walls_can_be_built() {
        return;
    }
    let Some(home) = std::env::var_os("HOME").map(std::path::PathBuf::from) else {
        return not_run("HOME is not set");
    };
    let cargo = home.join(".cargo/bin/cargo");
    let is_proxy = cargo.canonicalize().is_ok_and(|real| real == home.join(".cargo/bin/rustup"));
    if !is_proxy || !home.join(".rustup/toolchains").is_dir() {
        return not_run("rustup did not install cargo in this home");
    }
    let path = format!("{}/.cargo/bin:/usr/bin:/bin", home.display());
    let run = |words: &[&str]| {
        let mut inside = command(words);
        inside.env("PATH", &path).env_remove("RUSTUP_TOOLCHAIN");
        finish(inside)
    };
    let version = run(&["--", "cargo", "--version"]);
    assert!(version.text().starts_with("cargo 1."), "{version:?}");
    let script = "touch $RUSTUP_HOME/canary 2>/dev/null || echo read-only";
    let written = run(&["--", "rustup", "run", "stable", "sh", "-c", script]);
    assert!(!home.join(".rustup/canary").exists() && written.code == 0, "{written:?}");
    assert_eq!(written.stdout, "read-only\n", "{written:?}");
}

/// Restores the program that the run outside has overwritten.
fn home_with_program_text(home: &Scratch) {
    let text = "#!/bin/sh\necho second\necho x 2>/dev/null > \"$0\" || echo read-only\n";
    let file = home.file(".local/bin/second-tool", text);
    set_mode(file.as_ref(), 0o755);
}

#[test]
fn shell_finds_programs_of_a_shown_directory_and_else_the_run_says_why_not() {
    if !walls_can_be_built() {
        return;
    }
    let (home, bin) = home_with_programs();
    let run = |words: &[&str]| {
        let mut inside = command(words);
        inside.env("HOME", home.text()).env("PATH", format!("{bin}:/usr/bin:/bin"));
        finish(inside)
    };
    let shell = ["--", "sh", "-c", "tool-of-mine"];
    let missing = run(&shell);
    assert_eq!(missing.code, 127, "{missing:?}");
    let expected = format!("and not {bin} of your PATH");
    assert!(missing.stderr.contains(&expected), "{missing:?}");
    assert!(missing.stderr.contains(&format!("--mount {bin}:{bin} shows it read-only")));
    let mount = format!("{bin}:{bin}");
    let shown = run(&[&["--mount", &mount], &shell[..]].concat());
    assert_eq!(shown.text(), "mine\nsecond\nread-only\n", "{shown:?}");
}
