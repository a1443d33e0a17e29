//! The hardened image: how it is built, what it denies, and what the record has of that.

use std::fs;
use std::process::Command;

use libtest_mimic::Trial;
use serde_json::Value;
use stockade_testing::{Run, Scratch, engine, finish};

use crate::images::{LISTING, built, run};
use crate::support::{directory, docker, forget, named, stockade, tests};

tests![
    hardened_image_is_the_default_and_is_reported,
    denied_command_fails_by_name_and_by_path_and_is_in_the_record,
    only_the_allowed_programs_are_found,
    every_program_of_a_session_has_its_own_denials,
    forged_reports_add_no_text_to_the_record,
];

/// Tests that do not depend on a runtime.
pub(crate) fn once() -> Vec<Trial> {
    named![
        docker_build_and_our_command_give_the_same_files,
        docker_build_takes_the_allowed_programs_as_an_argument,
        allowed_programs_replace_the_default_and_mistakes_are_named,
        image_with_the_name_and_another_program_is_not_the_hardened_one,
        imported_hardened_image_denies_the_same_commands_behind_the_native_wall,
    ]
}

const HARDENED: &str = "agt-sandbox/python-minimal-path:3.11";
/// A hardened image of a base image that has cloud tools.
const WITH_TOOLS: &str = "hardened-tools:1";
/// That base image.
const TOOLS: &str = "tools:1";
/// Where the recipe for `docker build` is.
const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docker/Dockerfile.sandbox");

/// The hardened image on the engine. It changes the engine's default, so it is removed at the end.
pub(crate) struct Built;

impl Built {
    /// Builds it with our command; `None` if that failed.
    pub(crate) fn new() -> Option<Built> {
        let run = image(&["build", "--hardened"]);
        match run.code {
            0 => Some(Built),
            _ => {
                stockade_testing::not_run(&format!("the hardened image cannot be built: {run:?}"));
                None
            }
        }
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        forget(&[HARDENED]);
    }
}

fn image(words: &[&str]) -> Run {
    let mut command = stockade();
    command.arg("image").args(words);
    finish(command)
}

/// An image with `az` and `git-lfs`, and the hardened image of it.
fn with_tools() -> &'static str {
    let context = Scratch::new();
    let recipe = "FROM python:3.11-slim\n\
        RUN printf '#!/bin/sh\\necho ran $*\\n' > /usr/bin/az && chmod 755 /usr/bin/az && \\\n\
        cp /usr/bin/az /opt/git-lfs && ln -s /opt/git-lfs /usr/local/bin/git && \\\n\
        ln -s dash /bin/nc\n";
    let recipe = context.file("Dockerfile", recipe);
    built(TOOLS, &recipe, context.path(), &[]);
    built(WITH_TOOLS, RECIPE, context.path(), &[&format!("BASE={TOOLS}")]);
    WITH_TOOLS
}

fn hardened_image_is_the_default_and_is_reported(runtime: &'static str) {
    let id = docker(&["images", "--quiet", "--no-trunc", HARDENED]).remove(0);
    let line = format!("image: {HARDENED}, {}\n", &id[.."sha256:".len() + 12]);
    for flags in [&["--provider", "docker"][..], &["--require-hardened-image"]] {
        let scratch = Scratch::new();
        let mut command = stockade();
        command.env("XDG_STATE_HOME", scratch.path());
        command.args(["run", "--runtime", runtime]).args(flags);
        let run = finish(command.args(["--", "python3", "-c", "print('ran')"]));
        assert_eq!((run.text(), run.stderr.as_str()), ("ran\n", line.as_str()), "{run:?}");
        let started = &events(&scratch)[0];
        assert_eq!(started["body"]["image"]["image"], id.as_str(), "{started}");
    }
    // Code of a language that it does not have runs in the image that has it.
    let mut command = stockade();
    command.args(["run", "--runtime", runtime, "--language", "bash", "-"]);
    let run = stockade_testing::finish_with(&mut command, b"echo ran");
    assert_eq!(run.text(), "ran\n", "{run:?}");
    assert!(run.stderr.starts_with("image: python:3.11-slim, sha256:"), "{run:?}");
}

/// What a program of the caller tries.
const TRIES: &str = "
import os, subprocess, sys
sys.stdout.reconfigure(line_buffering=True)
print(os.system('az account list') >> 8)
for path in ['/usr/bin/az', '/usr/local/bin/git', '/opt/git-lfs', '/usr/bin/curl', '/bin/dpkg']:
    try:
        print(path, subprocess.run([path, '--version'], stdout=subprocess.DEVNULL).returncode)
    except OSError as error:
        print(path, error.strerror)
for loader in ['/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1']:
    if os.path.exists(loader):
        words = [loader, '/usr/bin/curl', '--version']
        ended = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print('loader', ended.returncode == 0)
try:
    print('copy', len(open('/usr/bin/curl', 'rb').read()) > 1000)
except OSError as error:
    print('copy', error.strerror)
print(subprocess.run(['git', 'status']).returncode)
";

/// What it prints in the hardened image.
const DENIED: &str = "127\n/usr/bin/az Permission denied\n\
    /usr/local/bin/git Permission denied\n/opt/git-lfs Permission denied\n\
    /usr/bin/curl Permission denied\n/bin/dpkg Permission denied\n\
    loader False\ncopy Permission denied\n127\n";
const COMPLAINTS: &str = "az: command not found\ngit: command not found\n";

fn denied_command_fails_by_name_and_by_path_and_is_in_the_record(runtime: &'static str) {
    let scratch = Scratch::new();
    let script = scratch.file("tries.py", TRIES);
    let hardened = with_tools();
    // The same acts work in the image that the hardened one was made from.
    let open = run(runtime, &[TOOLS, "--quiet", &script]);
    let expected = "ran account list\n0\n/usr/bin/az 0\n/usr/local/bin/git 0\n/opt/git-lfs 0\n\
                    /usr/bin/curl 0\n/bin/dpkg 0\nloader True\ncopy True\nran status\n0\n";
    assert_eq!((open.text(), open.stderr.as_str()), (expected, ""), "{open:?}");
    let mut command = stockade();
    command.env("XDG_STATE_HOME", scratch.path());
    command.args(["run", "--runtime", runtime, "--image", hardened, "--json", &script]);
    let denied = finish(command);
    let report = denied.json();
    assert_eq!(report["stdout"], DENIED, "{report}");
    assert_eq!(report["stderr"], COMPLAINTS, "{report}");
    let targets = |denials: &[Value]| -> Vec<(String, String)> {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        denials.iter().map(|it| (text(&it["control"]), text(&it["target"]))).collect()
    };
    let pair = |name: &str| ("image".to_owned(), name.to_owned());
    let both = [pair("az"), pair("git")];
    let denials = report["denials"].as_array().cloned().unwrap_or_default();
    assert_eq!(targets(&denials), both, "{report}");
    assert_eq!(targets(&recorded_denials(&scratch)), both);
    // A link to a program that must stay executable is removed instead.
    let run = run(runtime, &[hardened, "--quiet", "--", "python3", "-c", "open('/bin/nc')"]);
    assert!(run.stderr.contains("No such file or directory: '/bin/nc'"), "{run:?}");
}

fn events(scratch: &Scratch) -> Vec<Value> {
    let mut command = stockade();
    command.env("XDG_STATE_HOME", scratch.path());
    let run = finish(command.args(["audit", "show", "--json"]));
    let text = run.text();
    serde_json::from_str(text).unwrap_or_else(|_| run.lines())
}

fn recorded_denials(scratch: &Scratch) -> Vec<Value> {
    let events = events(scratch);
    let of = |event: &Value| {
        event["body"]["denial"].is_object().then(|| event["body"]["denial"].clone())
    };
    events.iter().filter_map(of).collect()
}

fn only_the_allowed_programs_are_found(runtime: &'static str) {
    let script = "
import os
folder, = os.environ['PATH'].split(':')
print(folder)
stub = '/usr/local/lib/sandbox/denied'
names = sorted(os.listdir(folder))
print([name for name in names if os.readlink(os.path.join(folder, name)) != stub])
print({'curl', 'wget', 'ssh', 'git', 'az', 'aws', 'gcloud', 'kubectl', 'terraform', 'helm',
       'ansible', 'apt', 'dpkg'} - set(names))
print(os.access(folder, os.W_OK), os.access(stub, os.W_OK))
";
    let scratch = Scratch::new();
    let script = scratch.file("path.py", script);
    let found = run(runtime, &[HARDENED, "--quiet", &script]);
    let expected = "/usr/local/sandbox-bin\n['cat', 'echo', 'ls', 'python3', 'sleep']\nset()\n\
                    False False\n";
    assert_eq!(found.text(), expected, "{found:?}");
    for name in ["grep", "sh", "bash", "python", "env", "busybox", "no-such-program"] {
        let run = run(runtime, &[HARDENED, "--quiet", "--json", "--", name]);
        let report = run.json();
        assert_eq!((run.code, &report["outcome"]), (127, &"not_started".into()), "{name}: {run:?}");
        assert_eq!(report["denials"], Value::Array(Vec::new()), "{name}: {run:?}");
    }
    for (words, expected) in [
        (&["echo", "a"][..], "a\n"),
        (&["cat", "/etc/hostname"], "sandbox\n"),
        (&["sleep", "0"], ""),
        (&["ls"], ""),
    ] {
        let run = run(runtime, &[&[HARDENED, "--quiet", "--"], words].concat());
        assert_eq!(run.text(), expected, "{words:?}");
    }
}

fn every_program_of_a_session_has_its_own_denials(runtime: &'static str) {
    let scratch = Scratch::new();
    let session = |words: &[&str]| {
        let mut command = stockade();
        command.env("XDG_STATE_HOME", scratch.path()).env("STOCKADE_STATE", scratch.path());
        finish(command.args(words))
    };
    let name = format!("hardened-{runtime}");
    let created = session(&["create", "--name", &name, "--runtime", runtime]);
    assert_eq!(created.text(), format!("{name}\n"), "{created:?}");
    assert!(created.stderr.starts_with(&format!("image: {HARDENED}, ")), "{created:?}");
    for (tried, code) in [("az", 127), ("python3", 0), ("az", 127), ("kubectl", 127)] {
        let run = session(&["exec", &name, "--", tried, "-c", "pass"]);
        assert_eq!(run.code, code, "{tried}: {run:?}");
    }
    session(&["rm", "-f", &name]).text();
    let events = events(&scratch);
    let denied: Vec<(u64, String)> = events
        .iter()
        .filter(|event| event["body"]["denial"].is_object())
        .map(|event| {
            let target = event["body"]["denial"]["target"].as_str().unwrap_or_default();
            (event["body"]["execution"].as_u64().unwrap_or(99), target.to_owned())
        })
        .collect();
    let expected = [(0, "az"), (2, "az"), (3, "kubectl")];
    assert_eq!(denied, expected.map(|(number, name)| (number, name.to_owned())), "{events:?}");
}

fn forged_reports_add_no_text_to_the_record(runtime: &'static str) {
    let script = "
import socket
for name in [b'no-such-tool\\n', b'\\x1b[2J\\n', b'x' * 5000, b'\\n', b'', b'wget\\n', b'wget\\n', b'az']:
    with socket.socket(socket.AF_UNIX) as stub:
        stub.settimeout(10)
        stub.connect('/run/stockade-guest/denials.sock')
        try:
            stub.sendall(name)
            stub.shutdown(socket.SHUT_WR)
            assert stub.recv(10) == b''
        except OSError:
            pass
print('sent')
";
    let scratch = Scratch::new();
    let script = scratch.file("forge.py", script);
    let run = run(runtime, &[HARDENED, "--json", &script]);
    let report = run.json();
    assert_eq!(report["stdout"], "sent\n", "{report}");
    let denials = report["denials"].as_array().cloned().unwrap_or_default();
    let targets: Vec<&Value> = denials.iter().map(|denial| &denial["target"]).collect();
    assert_eq!(targets, ["wget"], "{report}");
}

/// Every file of an image without its time, which differs between builds.
fn files(image: &str) -> Vec<String> {
    let listing = LISTING.replace(", int(found.st_mtime)", "");
    assert_ne!(listing, LISTING);
    let scratch = Scratch::new();
    let script = scratch.file("listing.py", listing);
    let flags = ["--quiet", "--timeout", "5m", "--max-output", "64m"];
    let run = run("runc", &[&[image], &flags[..], &[&script]].concat());
    run.text().lines().map(str::to_owned).collect()
}

fn docker_build_and_our_command_give_the_same_files() {
    let context = Scratch::new();
    let mut command: Command = engine::client(&directory());
    command.args(["build", "--quiet", "--no-cache", "--network", "none", "--tag", "plain:1"]);
    let run = finish(command.args(["--file", RECIPE]).arg(context.path()));
    assert_eq!(run.code, 0, "{run:?}");
    let (ours, theirs) = (files(HARDENED), files("plain:1"));
    assert!(ours.len() > 1000, "{} files", ours.len());
    assert!(ours.iter().any(|line| line.starts_with("/usr/local/sandbox-bin/curl ")), "{ours:?}");
    assert_eq!(ours, theirs);
    let id = |name| docker(&["images", "--quiet", "--no-trunc", name]).remove(0);
    assert_ne!(id(HARDENED), id("plain:1"), "the second build used nothing of the first");
    // The same settings, so that it is taken for the hardened image too.
    let settings = |name: &str| {
        let text = docker(&["inspect", "--format", "{{json .Config}}", name]).remove(0);
        let found: Value = serde_json::from_str(&text).expect("the engine prints JSON");
        ["Env", "User", "Entrypoint", "Cmd", "WorkingDir"].map(|key| found[key].clone())
    };
    assert_eq!(settings(HARDENED), settings("plain:1"));
    // The directory of the repository as context sends nothing of it.
    let ignored = fs::read_to_string(format!("{}/../../.dockerignore", env!("CARGO_MANIFEST_DIR")));
    assert!(ignored.is_ok_and(|text| text.lines().any(|line| line == "*")));
    forget(&["plain:1"]);
}

fn docker_build_takes_the_allowed_programs_as_an_argument() {
    let context = Scratch::new();
    built("plain:2", RECIPE, context.path(), &["ALLOWED_BIN_NAMES=cat,grep env"]);
    let ours = image(&["build", "--hardened", "--name", "own:3", "--allow", "cat,grep,env"]);
    assert_eq!(ours.text(), "own:3\n");
    assert_eq!(files("plain:2"), files("own:3"));
    for name in ["plain:2", "own:3"] {
        let inside = |words: &[&str]| {
            crate::images::run("runc", &[&[name, "--quiet", "--"], words].concat())
        };
        assert_eq!(inside(&["grep", "-c", "^root:", "/etc/passwd"]).text(), "1\n", "{name}");
        let missing = inside(&["ls"]);
        assert_eq!(missing.code, 127, "{name}: ls is of the default list only: {missing:?}");
    }
    forget(&["plain:2", "own:3"]);
    // The argument is a list of names, and no part of it reaches a shell as a word of its own.
    for names in ["no-such-tool", "/bin/ls", "a;touch /tmp/x", "$(id)"] {
        let mut command: Command = engine::client(&directory());
        command.args(["build", "--quiet", "--force-rm", "--network", "none", "--tag", "plain:3"]);
        command.args(["--build-arg", &format!("ALLOWED_BIN_NAMES={names}")]);
        let refused = finish(command.args(["--file", RECIPE]).arg(context.path()));
        assert_ne!(refused.code, 0, "{names}: {refused:?}");
    }
}

fn image_with_the_name_and_another_program_is_not_the_hardened_one() {
    // Made from the hardened image, so that only the content of its PATH differs. The engine's
    // default is another one meanwhile, so a name of its own shows it to the other tests.
    let context = Scratch::new();
    let recipe = format!("FROM {HARDENED}\nUSER root\nCOPY curl /usr/local/sandbox-bin/curl\n");
    let dockerfile = context.file("Dockerfile", recipe);
    context.file("curl", "#!/bin/sh\necho downloaded\n");
    stockade_testing::set_mode(&context.path().join("curl"), 0o755);
    built("fake:1", &dockerfile, context.path(), &[]);
    // It works: by its own name nothing is promised about it.
    let ran = crate::images::run("runc", &["fake:1", "--quiet", "--", "curl"]);
    assert_eq!(ran.text(), "downloaded\n", "{ran:?}");
    // A second engine, in which it may have the name.
    let place = Scratch::new();
    engine::start(place.path(), engine::GVISOR, &[]).expect("a second engine starts");
    let archive = context.path().join("fake.tar");
    let archive = archive.to_str().expect("the path is text");
    docker(&["save", "--output", archive, "fake:1"]);
    let other = |words: &[&str]| finish(engine::client(place.path()).args(words));
    let required = || {
        let mut command = stockade();
        command.env("DOCKER_HOST", engine::address(place.path()));
        command.args(["run", "--runtime", "runc", "--require-hardened-image", "--"]);
        finish(command.args(["python3", "-c", "print(1)"]))
    };
    other(&["load", "--input", archive]);
    other(&["tag", "fake:1", HARDENED]);
    let fake = required();
    docker(&["save", "--output", archive, HARDENED]);
    other(&["load", "--input", archive]);
    let real = required();
    engine::stop(place.path());
    assert_eq!((fake.code, fake.stdout.as_str()), (125, ""), "{fake:?}");
    assert!(fake.stderr.contains("is not the hardened one"), "{fake:?}");
    assert_eq!(real.text(), "1\n", "{real:?}");
}

fn allowed_programs_replace_the_default_and_mistakes_are_named() {
    let words = ["build", "--hardened", "--name", "own:1", "--allow", "cat,grep", "--allow", "env"];
    let run = image(&[&words[..], &["--json"]].concat());
    let report = run.json();
    assert_eq!(report["name"], "own:1", "{report}");
    assert_eq!(report["base"], "python:3.11-slim", "{report}");
    let id = docker(&["images", "--quiet", "--no-trunc", "own:1"]).remove(0);
    assert_eq!(report["id"], id.as_str(), "{report}");
    let allowed = serde_json::json!(["python3", "cat", "grep", "env"]);
    assert_eq!(report["allowed"], allowed, "{report}");
    let inside =
        |words: &[&str]| crate::images::run("runc", &[&["own:1", "--quiet", "--"], words].concat());
    assert_eq!(inside(&["grep", "-c", "^root:", "/etc/passwd"]).text(), "1\n");
    assert_eq!(inside(&["env", "python3", "-c", "print(1)"]).text(), "1\n");
    assert_eq!(inside(&["sleep", "0"]).code, 127, "it is not among the allowed programs");
    forget(&["own:1"]);
    // A tool is allowed only if the caller says so.
    let words = ["build", "--hardened", "--name", "own:2", "--allow", "curl"];
    assert_eq!(image(&words).text(), "own:2\n");
    let run = crate::images::run("runc", &["own:2", "--quiet", "--", "curl", "--version"]);
    assert!(run.text().starts_with("curl "), "{run:?}");
    forget(&["own:2"]);
    for (words, message) in [
        (&["--hardened", "--base", "no-such-image:1"][..], "no image no-such-image:1"),
        (&["--hardened", "--allow", "no-such-tool"], "the base image has no program no-such-tool"),
        (&["--hardened", "--allow", "/bin/ls"], "cannot be a program of the hardened image"),
        (&["--hardened", "--allow", "a;b"], "cannot be a program of the hardened image"),
        (&["--hardened", "--name=--privileged"], "is not a reference such as"),
        (&[], "--hardened"),
    ] {
        let run = image(&[&["build"], words].concat());
        assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{words:?}: {run:?}");
        assert!(run.stderr.contains(message), "{words:?}: {run:?}");
    }
}

fn imported_hardened_image_denies_the_same_commands_behind_the_native_wall() {
    let scratch = Scratch::new();
    let archive = scratch.path().join("hardened.tar");
    let archive = archive.to_str().expect("the path is text");
    docker(&["save", "--output", archive, with_tools()]);
    let script = scratch.file("tries.py", TRIES);
    let data = scratch.path().join("data");
    let native = |words: &[&str]| {
        let mut command = stockade();
        command.env("XDG_DATA_HOME", &data).args(words);
        finish(command)
    };
    assert_eq!(native(&["image", "import", archive]).text(), format!("{WITH_TOOLS}\n"));
    let words =
        ["run", "--provider", "native", "--image", WITH_TOOLS, "--quiet", "--json", &script];
    let run = native(&words).json();
    assert_eq!((&run["stdout"], &run["stderr"]), (&DENIED.into(), &COMPLAINTS.into()), "{run}");
    let denials = run["denials"].as_array().cloned().unwrap_or_default();
    let targets: Vec<&Value> = denials.iter().map(|it| &it["target"]).collect();
    assert_eq!(targets, ["az", "git"], "{run}");
    // Only the container wall can require it.
    let refused = native(&["run", "--provider", "native", "--require-hardened-image", &script]);
    assert_eq!(refused.code, 125, "{refused:?}");
}
