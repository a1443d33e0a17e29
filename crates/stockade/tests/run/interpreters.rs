//! Python environments of the caller.

use std::path::Path;

use crate::support::{command, finish, outside, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

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
