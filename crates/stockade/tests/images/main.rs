//! Images without an engine: `stockade image` and the native wall, end to end.

mod hardened;
mod support;

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stockade_testing::image::{EntryType, Image, Layer};
use stockade_testing::{Conversation, finish, is_root, wait_for};

use support::{Place, shell, walls_can_be_built};

#[test]
fn imported_image_is_the_read_only_root_of_the_native_wall() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&shell("test:1", json!({})));
    let script = "cat /own; echo x > /own || echo kept; echo x > /new || echo kept; \
                  echo x > /tmp/new && echo written; cat /etc/passwd; ls /usr /home 2>&1 | wc -l";
    for _ in 0..2 {
        let run = place.run(&["test:1", "--", "sh", "-c", script]);
        let text = run.text();
        let expected = "the image's\nkept\nkept\nwritten\nroot:x:0:0::/:\n\
                        agent:x:1005:1006::/home/agent:\n";
        assert!(text.starts_with(expected), "{run:?}");
    }
    // The host has what the image has not.
    let script = "ls /usr/share/doc || echo missing";
    assert!(std::path::Path::new("/usr/share/doc").is_dir());
    assert_eq!(place.run(&["test:1", "--", "sh", "-c", script]).text(), "missing\n");
}

#[test]
fn own_program_runs_with_its_settings_and_dangerous_variables_are_dropped_and_recorded() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&shell(
        "test:1",
        json!({
            "Entrypoint": ["sh", "-c", "echo \"$0 $*\"; pwd; echo $MODE $LD_PRELOAD $API_KEY."],
            "Cmd": ["one", "two"],
            "Env": ["PATH=/bin", "MODE=on", "LD_PRELOAD=/evil.so", "API_KEY=x"],
            "WorkingDir": "/home/agent",
            "User": "agent",
            "Volumes": { "/bin": {} },
            "Healthcheck": { "Test": ["CMD", "evil"] },
        }),
    ));
    let run = place.run(&["test:1"]);
    assert_eq!(run.text(), "one two\n/home/agent\non .\n");
    for words in [
        "dropped its variable LD_PRELOAD",
        "dropped its variable API_KEY",
        "its program runs as its user agent, id 1005",
    ] {
        assert!(run.stderr.contains(words), "{run:?}");
    }
    let run = place.run(&["test:1", "--env", "MODE=off", "--workdir", "/tmp", "--", "a", "b c"]);
    assert_eq!(run.text(), "a b c\n/tmp\noff .\n");
    let started = place.first_event();
    assert_eq!(started["body"]["image"]["image"], place.id("test:1"), "{started}");
    let dropped = json!(["LD_PRELOAD", "API_KEY"]);
    assert_eq!(started["body"]["image"]["dropped_variables"], dropped, "{started}");
    // A script is the caller's program: it gets the search path of the image and nothing else.
    let script = place.path().join("script.sh");
    fs::write(&script, "echo $MODE. $PATH\npwd\n").unwrap();
    let run = place.run(&["test:1", "--quiet", "--language", "bash", script.to_str().unwrap()]);
    assert_eq!(run.text(), ". /bin\n/workspace\n");
}

#[test]
fn program_runs_as_a_user_of_the_image_and_never_as_root() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&shell("test:1", json!({})));
    let ids = |user: &[&str]| {
        let words = ["--", "sh", "-c", "id -u; id -g; echo $HOME; echo x > /tmp/x && echo done"];
        place.run(&[&["test:1"], user, &words].concat())
    };
    assert_eq!(ids(&[]).text(), "1000\n1000\n/tmp\ndone\n");
    assert_eq!(ids(&["--user", "agent"]).text(), "1005\n1006\n/home/agent\ndone\n");
    assert_eq!(ids(&["--user", "1005"]).text(), "1005\n1006\n/home/agent\ndone\n");
    assert_eq!(ids(&["--user", "77"]).text(), "77\n77\n/tmp\ndone\n");
    for user in ["root", "0", "70000", "nobody-here"] {
        let run = ids(&["--user", user]);
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
        assert!(run.stderr.contains("--user: "), "{run:?}");
    }
    // A file that only its owner may read.
    let secret = ["--", "sh", "-c", "cat /home/agent/private || echo refused"];
    let read = |user: &[&str]| place.run(&[&["test:1"], user, &secret].concat());
    assert_eq!(read(&["--user", "agent"]).text(), "private\n");
    // Without root the image belongs to the caller, whatever the user is called inside.
    let expected = if is_root() { "refused\n" } else { "private\n" };
    assert_eq!(read(&[]).text(), expected);
}

#[test]
fn own_program_runs_as_the_user_of_the_image_unless_that_is_root_or_files_are_shown() {
    if !walls_can_be_built() {
        return;
    }
    let config = |user: &str| {
        let script = "id -u; echo $HOME; cat /home/agent/private || echo refused";
        json!({ "Entrypoint": ["sh", "-c", script], "User": user })
    };
    // Without root every file of the image belongs to the caller, whatever the user is inside.
    let others = if is_root() { "refused\n" } else { "private\n" };
    for user in ["agent", "1005", "agent:agent"] {
        let place = Place::with(&shell("own:1", config(user)));
        let run = place.run(&["own:1"]);
        assert_eq!(run.text(), "1005\n/home/agent\nprivate\n", "{user}: {run:?}");
        assert!(run.stderr.contains("its program runs as its user"), "{run:?}");
        // A program of the caller is not the image's.
        let script = place.path().join("script.sh");
        fs::write(&script, "id -u; echo $HOME\n").unwrap();
        let words = ["own:1", "--language", "bash", script.to_str().unwrap()];
        assert_eq!(place.run(&words).text(), "1000\n/tmp\n");
    }
    for user in ["root", "0", "0:1005", "missing", "70000"] {
        let place = Place::with(&shell("own:1", config(user)));
        let run = place.run(&["own:1"]);
        assert_eq!(run.text(), format!("1000\n/tmp\n{others}"), "{user}: {run:?}");
    }
    // What the image calls its user never decides how files of the host are read or written.
    let place = Place::with(&shell("own:1", config("agent")));
    let shown = place.path().join("shown");
    fs::create_dir(&shown).unwrap();
    for mode in ["", ":rw"] {
        let mount = format!("{}:/shown{mode}", shown.display());
        let run = place.run(&["own:1", "--mount", &mount]);
        // Packages that the user of the image installed are in that user's home.
        assert_eq!(run.text(), format!("1000\n/home/agent\n{others}"), "{run:?}");
        assert!(run.stderr.contains("files of this host are shown"), "{run:?}");
        let run = place.run(&["own:1", "--user", "agent", "--mount", &mount]);
        assert_eq!(run.text(), "1005\n/home/agent\nprivate\n", "{run:?}");
    }
}

#[test]
fn output_of_a_program_in_an_image_belongs_to_the_caller() {
    use std::os::unix::fs::MetadataExt;
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&shell("test:1", json!({})));
    let out = place.path().join("out");
    fs::create_dir(&out).unwrap();
    let mount = format!("{}:/out:rw", out.display());
    let words = ["test:1", "--user", "agent", "--mount", &mount];
    let run = place.run(&[&words[..], &["--", "sh", "-c", "echo made > /out/file"]].concat());
    assert_eq!(run.text(), "");
    let made = fs::metadata(out.join("file")).unwrap();
    assert_eq!(made.uid(), fs::metadata(&out).unwrap().uid());
}

#[test]
fn image_is_listed_kept_while_it_is_used_and_removed() {
    if !walls_can_be_built() {
        return;
    }
    let image = shell("test:1", json!({}));
    let place = Place::with(&image);
    let listed = place.image(&["ls", "--json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["names"]), (&json!(image.id()), &json!(["test:1"])));
    let doctor = finish(place.command(&["doctor", "--json"])).json();
    let warning = doctor["machine"]["image_warnings"][0].as_str().unwrap_or_default().to_owned();
    assert!(warning.starts_with("the image test:1 (native) is "), "{doctor}");
    let table = place.image(&["ls"]);
    assert!(table.text().contains(&image.id()[..19]), "{table:?}");
    let mut command = place.command(&["run", "--provider", "native", "--image", "test:1"]);
    command.args(["--", "sh", "-c", "echo ready; read line; cat /own"]);
    let mut running = Conversation::start(command);
    assert_eq!(running.hear(), "ready");
    let refused = place.image(&["rm", "test:1"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("a sandbox uses the image test:1"), "{refused:?}");
    running.say("go on");
    assert_eq!(running.hear(), "the image's");
    assert_eq!(running.end(), 0);
    wait_for("the image is removed", || (place.image(&["rm", "test:1"]).code == 0).then_some(()));
    let run = place.run(&["test:1", "--", "true"]);
    assert_eq!(run.code, 125, "{run:?}");
    assert!(run.stderr.contains("stockade image import"), "{run:?}");
    assert_eq!(place.image(&["ls", "--json"]).json(), json!([]));
}

#[test]
fn session_starts_from_an_image() {
    if !walls_can_be_built() {
        return;
    }
    let place = Place::with(&shell("test:1", json!({ "Env": ["PATH=/bin"] })));
    let state = place.path().join("state");
    let session = |words: &[&str]| {
        let mut command = place.command(words);
        command.env("STOCKADE_STATE", &state);
        finish(command)
    };
    let words = ["create", "--name", "of-image", "--provider", "native", "--image", "test:1"];
    assert_eq!(session(&words).text(), "of-image\n");
    let run = session(&["exec", "of-image", "--", "sh", "-c", "cat /own; echo $PATH"]);
    assert_eq!(run.text(), "the image's\n/bin\n");
    assert_eq!(place.image(&["rm", "test:1"]).code, 125, "the session uses it");
    session(&["rm", "-f", "of-image"]).text();
}

#[test]
fn killed_import_leaves_nothing_that_counts_as_an_image() {
    let place = Place::new();
    let many = (0..6_000).fold(Layer::default(), |layer, number| {
        layer.file(&format!("d{}/f{number}", number % 50), "x")
    });
    let image = Image::new("many:1", vec![many], json!({}));
    let file = place.path().join("many.tar");
    image.save(&file);
    let mut command = place.command(&["image", "import"]);
    command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let new = place.path().join("data/stockade/images/images/.new/root/d1");
    wait_for("the import unpacks", || new.exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(new.exists(), "the import was killed before its end");
    assert_eq!(place.image(&["ls", "--json"]).json(), json!([]));
    let run = place.run(&["many:1", "--", "true"]);
    assert_eq!(run.code, 125, "{run:?}");
    let file = file.to_str().unwrap();
    assert_eq!(place.image(&["import", file]).text(), "many:1\n");
    assert!(!new.exists());
    let root = format!("data/stockade/images/images/{}/root", &image.id()[7..]);
    assert_eq!(fs::read_dir(place.path().join(root)).unwrap().count(), 50);
}

#[test]
fn hostile_image_is_refused_with_the_reason_and_a_remedy() {
    let place = Place::new();
    let file = place.path().join("hostile.tar");
    let outside = place.path().join("canary");
    fs::write(&outside, "safe").unwrap();
    let climbing = Layer::default().file("../../../../canary", "bad");
    Image::new("bad:1", vec![climbing], json!({})).save(&file);
    let run = place.image(&["import", file.to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{run:?}");
    assert!(run.stderr.contains("../../../../canary") && run.stderr.contains("`..`"), "{run:?}");
    let bomb = Layer::default().file("zeros", vec![0; 3 << 20]);
    Image::new("bad:1", vec![bomb], json!({})).save(&file);
    let run = place.image(&["import", "--max-size", "2m", file.to_str().unwrap()]);
    assert!(run.stderr.contains("--max-size"), "{run:?}");
    let special = Layer::default().entry("null", EntryType::Char, "", b"").owned(
        "su",
        EntryType::Regular,
        "",
        b"x",
        0o4755,
        0,
    );
    Image::new("odd:1", vec![special], json!({})).save(&file);
    let run = place.image(&["import", file.to_str().unwrap()]);
    assert_eq!(run.text(), "odd:1\n");
    for words in ["1 entries were left out", "1 files lost their set-id bits", "su: "] {
        assert!(run.stderr.contains(words), "{run:?}");
    }
    assert_eq!(fs::read(&outside).unwrap(), b"safe");
}

#[test]
fn name_of_another_image_moves_only_if_the_caller_says_so() {
    let first = Image::new("tool:1", vec![Layer::default().file("a", "1")], json!({}));
    let second = Image::new("tool:1", vec![Layer::default().file("a", "2")], json!({}));
    let place = Place::with(&first);
    let file = place.path().join("second.tar");
    second.save(&file);
    let file = file.to_str().unwrap();
    let run = place.image(&["import", file]);
    assert_eq!(run.text(), format!("{}\n", second.id()));
    let expected = format!("the name tool:1 stays with {}; to move it, import", first.id());
    assert!(run.stderr.contains(&expected), "{run:?}");
    let report = place.image(&["import", "--json", file]).json();
    assert_eq!(report["taken"], json!([{ "name": "tool:1", "id": first.id() }]), "{report}");
    assert_eq!(place.id("tool:1"), json!(first.id()));
    assert_eq!(place.image(&["import", "--name", "tool:1", file]).text(), "tool:1\n");
    assert_eq!(place.id("tool:1"), json!(second.id()));
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let place = Place::with(&shell("test:1", json!({})));
    for (words, message) in [
        (&["--provider", "native", "--image", "test:1"][..], "neither ENTRYPOINT nor CMD"),
        (&["--provider", "native", "--image", "other:1", "--", "sh"], "there is no image other:1"),
        (&["--provider", "native", "--image=-x", "--", "sh"], "is not a reference"),
        (&["--provider", "reduced", "--image", "test:1", "--", "sh"], "has no images"),
        (&["--user", "agent", "--", "sh"], "--image"),
    ] {
        let mut command = place.command(&["run"]);
        command.args(words);
        let run = finish(command);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains(message), "{words:?}: {run:?}");
    }
    // The remedy works when it is pasted.
    let run = finish(place.command(&["run", "--provider", "native", "--image", "test:1"]));
    let remedy = "`stockade run --provider native --image test:1 -- ls -l`";
    assert!(run.stderr.contains(remedy), "{run:?}");
    let run = place.image(&["import", "/nonexistent.tar"]);
    assert!(run.code == 125 && run.stderr.contains("/nonexistent.tar"), "{run:?}");
}

/// The value of a key in the JSON of an event.
fn event(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// A `stockade` command of the binary under test.
fn binary() -> Command {
    Command::new(stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade")))
}
