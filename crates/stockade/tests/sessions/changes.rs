//! What a session changed: how it is shown, applied, exported and imported.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::support::Sessions;
use crate::terminal::Terminal;

/// A session over a project of three files.
fn project(sessions: &Sessions) -> PathBuf {
    let project = sessions.place.path().join("project");
    fs::create_dir_all(project.join("src")).expect("the project can be made");
    fs::write(project.join("src/main"), "one\ntwo\nthree\n").expect("the project can be made");
    fs::write(project.join("old"), "gone soon\n").expect("the project can be made");
    fs::write(project.join("picture"), [0, 159, 146, 150]).expect("the project can be made");
    sessions.text(&[
        "create",
        "--name",
        "work",
        "--workspace",
        project.to_str().expect("the project can be made"),
    ]);
    project
}

#[test]
fn diff_looks_like_that_of_git_and_applies_with_git() {
    let Some(sessions) = Sessions::new() else { return };
    let project = project(&sessions);
    assert_eq!(sessions.text(&["diff", "work"]), "");
    let script = "sed -i s/two/TWO/ src/main; rm old; printf '\\0\\1' > picture; ln -s src way; \
                  echo '#!/bin/sh' > run; chmod +x run; mkdir empty; printf 'a\\033[31m' > escape";
    assert_eq!(sessions.sh("work", script).code, 0);
    let text = sessions.text(&["diff", "work"]);
    for part in [
        "diff --git a/src/main b/src/main\n--- a/src/main\n+++ b/src/main\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        "deleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone soon\n",
        "Binary files a/picture (4 bytes, blake3 ",
        "diff --git a/way b/way\nnew file mode 120000\n",
        "diff --git a/run b/run\nnew file mode 100755\n",
        "added directory empty\n",
        "+a\\u{1b}[31m",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines = sessions.json(&["diff", "work"]);
    let of = |path: &str| lines.as_array().unwrap().iter().find(|it| it["path"] == path).unwrap();
    assert_eq!(
        (&of("src/main")["change"], &of("src/main")["added"]),
        (&"modified".into(), &1.into())
    );
    assert_eq!(of("way")["new"]["target"], "src");
    assert_eq!(of("picture")["binary"], true);
    // As a patch, for a tool that reads those.
    let script = "rm picture; cp /dev/null picture; rm escape; mkdir .git; echo x > .git/HEAD";
    assert_eq!(sessions.sh("work", script).code, 0);
    let run = sessions.run(&["diff", "work", "--patch"]);
    assert!(run.code == 0 && run.stderr.contains("picture: not in the patch"), "{run:?}");
    assert!(run.stderr.contains(".git/HEAD: not in the patch, because git"), "{run:?}");
    let patch = run.stdout;
    if std::process::Command::new("git").arg("--version").output().is_ok() {
        fs::write(sessions.place.path().join("patch"), &patch).unwrap();
        let mut git = std::process::Command::new("git");
        git.args(["apply", "-p1", "../patch"]).current_dir(&project);
        git.env("GIT_CEILING_DIRECTORIES", sessions.place.path());
        let ran = git.output().unwrap();
        assert!(ran.status.success(), "{}\n{patch}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(fs::read_to_string(project.join("src/main")).unwrap(), "one\nTWO\nthree\n");
        assert!(!project.join("old").exists());
    }
}

#[test]
fn diff_is_coloured_on_a_terminal_and_nowhere_else() {
    let Some(sessions) = Sessions::new() else { return };
    project(&sessions);
    assert_eq!(sessions.sh("work", "sed -i s/two/TWO/ src/main").code, 0);
    assert!(!sessions.text(&["diff", "work"]).contains('\u{1b}'));
    sessions.text(&["checkpoint", "work", "edited"]);
    let Some(terminal) = Terminal::new(&sessions) else { return };
    let shown = |line: &str, end: &str| {
        terminal.line(line);
        terminal.wait_for("the command has ended", |line| line == end);
        terminal.tmux(&["capture-pane", "-p", "-e"]).stdout
    };
    let store = format!("STOCKADE_STORE={}", sessions.store().display());
    let coloured = shown(&format!("env {store} \"$BINARY\" diff work/edited; echo ended"), "ended");
    // The multiplexer prints a change of colour where it draws the first character with it.
    for part in ["\u{1b}[31m-two", "\u{1b}[32m+TWO", "\u{1b}[36m", "\u{1b}[1mdiff --git a/src"] {
        assert!(coloured.contains(part), "{part:?}: {coloured:?}");
    }
    terminal.line("clear");
    let plain = format!("env NO_COLOR=1 {store} \"$BINARY\" diff work/edited; echo plain");
    let plain = shown(&plain, "plain");
    assert!(plain.contains("+TWO") && !plain.contains("\u{1b}[32m+TWO"), "{plain:?}");
}

#[test]
fn apply_takes_what_the_person_names_and_asks_for_the_rest() {
    let Some(sessions) = Sessions::new() else { return };
    let project = project(&sessions);
    let script = "sed -i s/two/TWO/ src/main; rm old; echo '{}' > package.json; ln -s /etc/passwd out; \
                  mkfifo pipe; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo n > new";
    assert_eq!(sessions.sh("work", script).code, 0);
    let dry = sessions.run(&["--json", "apply", "work", "--dry-run"]);
    assert_eq!(dry.code, 1, "{dry:?}");
    assert_eq!(fs::read_to_string(project.join("src/main")).unwrap(), "one\ntwo\nthree\n");
    let only = sessions.run(&["apply", "work", "--only", "src", "new"]);
    assert_eq!(only.code, 0, "{only:?}");
    assert_eq!(fs::read_to_string(project.join("src/main")).unwrap(), "one\nTWO\nthree\n");
    assert!(project.join("old").exists());
    let all = sessions.run(&["apply", "work"]);
    assert_eq!(all.code, 1, "{all:?}");
    for line in [
        "applied      deleted  old\n",
        "flagged      added    package.json: a package manager runs its scripts\n",
        "refused      added    out: the link leads out of the directory\n",
        "refused      added    pipe: it is a FIFO",
        "flagged      added    .git/hooks/pre-commit: git runs hooks",
    ] {
        assert!(all.stdout.contains(line), "{line}: {}", all.stdout);
    }
    assert!(all.stderr.contains("--accept"), "{}", all.stderr);
    assert!(!project.join("old").exists() && !project.join(".git/hooks/pre-commit").exists());
    assert_eq!(
        sessions.run(&["apply", "work", "--only", "package.json", "--accept", "package.json"]).code,
        0
    );
    assert_eq!(fs::read_to_string(project.join("package.json")).unwrap(), "{}\n");
    // What it applied itself is no conflict; what the person changed is.
    assert_eq!(sessions.sh("work", "sed -i s/three/3/ src/main; echo more > new").code, 0);
    fs::write(project.join("new"), "by the person\n").unwrap();
    let again = sessions.run(&["apply", "work", "--only", "src/main", "new"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stdout.contains("conflict     modified new: the host"), "{}", again.stdout);
    assert_eq!(fs::read_to_string(project.join("src/main")).unwrap(), "one\nTWO\n3\n");
    assert_eq!(fs::read_to_string(project.join("new")).unwrap(), "by the person\n");
}

#[test]
fn export_and_import_give_back_the_same_files_and_no_trust() {
    let Some(sessions) = Sessions::new() else { return };
    sessions.create("work");
    let make = "mkdir d; echo text > d/file; ln d/file d/hard; ln -s d link; head -c 3000000 /dev/urandom > big";
    assert_eq!(sessions.sh("work", make).code, 0);
    let list = "find . -printf '%p %M %T@ %s %n %l\\n' | sort; cat big | md5sum";
    let before = sessions.sh("work", list).stdout;
    sessions.text(&["checkpoint", "work", "first"]);
    let parcel = sessions.place.path().join("first.tar.zst");
    let parcel = parcel.to_str().unwrap();
    sessions.text(&["export", "work/first", parcel]);
    // It has the files and the variables of the session: only its owner may read it.
    assert_eq!(fs::metadata(parcel).unwrap().permissions().mode() & 0o777, 0o600);
    let again = sessions.run(&["export", "work/first", parcel]);
    assert!(again.code == 125 && again.stderr.contains("exists"), "{again:?}");
    let left = fs::read_dir(sessions.place.path()).unwrap();
    let is_left = |name: &str| name.starts_with(".stockade-export-");
    assert!(!left.flatten().any(|entry| is_left(&entry.file_name().to_string_lossy())));
    sessions.text(&["checkpoint", "rm", "work/first"]);
    sessions.text(&["store", "gc"]);
    assert_eq!(sessions.text(&["import", parcel]), "work/first\n");
    assert_eq!(sessions.text(&["import", parcel, "--as", "other/copy"]), "other/copy\n");
    assert_eq!(sessions.sh("work", "rm -rf ./*").code, 0);
    sessions.text(&["restore", "work", "other/copy"]);
    assert_eq!(sessions.sh("work", list).stdout, before);
    sessions.refused(&["fork", "other", "--from", "copy"], "its author chose", "--trust-import");
    let fork = sessions.text(&["fork", "other", "--from", "copy", "--trust-import"]);
    assert_eq!(sessions.sh(fork.trim(), list).stdout, before);
    // A session as it is now, too; and nothing that is damaged.
    let now = sessions.place.path().join("now.tar.zst");
    sessions.text(&["export", "work", now.to_str().unwrap()]);
    let bytes = fs::read(&now).unwrap();
    for (at, name) in [(bytes.len() / 2, "middle"), (40, "start"), (bytes.len() - 30, "end")] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x55;
        let path = sessions.place.path().join(name);
        fs::write(&path, &wrong).unwrap();
        let run = sessions.run(&["import", path.to_str().unwrap(), "--as", "bad/one"]);
        assert_eq!(run.code, 125, "{name}: {run:?}");
    }
    let path = sessions.place.path().join("short");
    fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    assert_eq!(sessions.run(&["import", path.to_str().unwrap(), "--as", "bad/one"]).code, 125);
    assert!(!sessions.text(&["checkpoints", "-q"]).contains("bad"));
    assert_eq!(sessions.json(&["store", "verify"])["problems"], serde_json::json!([]));
}

#[test]
fn run_that_is_kept_can_be_looked_at_forked_and_applied() {
    let Some(sessions) = Sessions::new() else { return };
    let project = sessions.place.path().join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("file"), "old\n").unwrap();
    let workspace = project.to_str().unwrap();
    let words = ["run", "--keep", "first", "--workspace", workspace, "--", "sh", "-c"];
    let run = sessions.run(&[&words[..], &["echo new > file; echo said; exit 3"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (3, "said\n"), "{run:?}");
    assert_eq!(fs::read_to_string(project.join("file")).unwrap(), "old\n");
    assert_eq!(sessions.text(&["checkpoints", "-q", "run"]), "run/first\n");
    assert!(sessions.text(&["diff", "run/first"]).contains("-old\n+new\n"));
    let fork = sessions.text(&["fork", "run", "--from", "first"]);
    assert_eq!(sessions.sh(fork.trim(), "cat file").stdout, "new\n");
    assert_eq!(sessions.run(&["apply", "run/first"]).code, 0);
    assert_eq!(fs::read_to_string(project.join("file")).unwrap(), "new\n");
    // Found before anything runs.
    let again = sessions.run(&[&words[..], &["touch /workspace/never; echo said"]].concat());
    assert_eq!((again.code, again.stdout.as_str()), (125, ""), "{again:?}");
    assert!(again.stderr.contains("run/first exists already"), "{again:?}");
    let report = sessions.json(&[
        "run",
        "--keep",
        "late",
        "--timeout",
        "500ms",
        "--",
        "sh",
        "-c",
        "echo x > x; sleep 60",
    ]);
    assert_eq!(report["outcome"], "timed_out");
    let late = sessions.text(&["fork", "run", "--from", "late"]);
    assert_eq!(sessions.sh(late.trim(), "cat x").stdout, "x\n");
}

#[test]
fn path_without_a_change_is_refused_and_nothing_is_applied() {
    let Some(sessions) = Sessions::new() else { return };
    let project = project(&sessions);
    assert_eq!(sessions.sh("work", "echo new > src/new").code, 0);
    for flag in ["--only", "--accept"] {
        let words = ["apply", "work", flag, "src/nwe"];
        sessions.refused(&words, "src/nwe: nothing changed there", "stockade diff");
    }
    assert!(!project.join("src/new").exists());
    assert_eq!(sessions.run(&["apply", "work", "--only", "/workspace/src"]).code, 0);
    assert_eq!(fs::read_to_string(project.join("src/new")).unwrap(), "new\n");
}
