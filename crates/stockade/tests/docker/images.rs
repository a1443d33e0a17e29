//! Images: their own program, their users, what they cannot change, and the same files behind both
//! walls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use stockade_testing::{Run, Scratch, engine, examples, set_mode, wait_for, within};

use crate::support::{containers, directory, docker, finish, forget, named, stockade, tests};

tests![
    own_program_of_an_image_runs_with_its_settings,
    agent_sandbox_example_runs_as_its_user,
    thumbnail_example_writes_a_picture_that_belongs_to_the_caller,
    image_cannot_change_the_isolation,
];

/// Tests that do not depend on a runtime.
pub(crate) fn once() -> Vec<Trial> {
    named![
        command_of_the_thumbnail_example_works_as_printed_for_root,
        same_image_is_the_same_files_behind_both_walls,
        missing_hardened_image_is_refused_if_required_and_else_replaced_and_reported,
        images_of_the_engine_are_listed_with_their_age_and_doctor_warns_about_old_ones,
    ]
}

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

/// The images that this process has built.
static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Removes the images that this process has built, at its end.
pub(crate) fn forget_built() {
    // An image of a container that still exists only loses its name.
    within(Duration::from_secs(30), || docker(&["ps", "--all", "--quiet"]).is_empty());
    let all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    // The last ones are made from the first ones.
    for tag in all.iter().rev() {
        forget(&[tag]);
    }
}

/// Builds an image once, without a network.
#[track_caller]
pub(crate) fn built(tag: &str, dockerfile: &str, context: &Path, arguments: &[&str]) {
    let mut all = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if all.iter().any(|known| known == tag) {
        return;
    }
    let mut command = engine::client(&directory());
    command.args(["build", "--quiet", "--network", "none", "--tag", tag]);
    for argument in arguments {
        command.args(["--build-arg", argument]);
    }
    command.arg("--file").arg(dockerfile).arg(context);
    let run = finish(command);
    assert_eq!(run.code, 0, "{run:?}");
    all.push(tag.to_owned());
}

/// The arguments that build an example without a network: a base image with its packages.
fn offline(example: &str) -> [String; 2] {
    let wheels = wheels(example);
    let folder = wheels.file_name().and_then(|name| name.to_str()).expect("the path is text");
    let base = format!("base-{folder}");
    let context = Scratch::new();
    context.file("Dockerfile", "FROM python:3.11-slim\nCOPY *.whl /wheels/\n");
    for wheel in fs::read_dir(wheels).expect("the wheels can be listed").flatten() {
        fs::copy(wheel.path(), context.path().join(wheel.file_name())).expect("it can be copied");
    }
    let dockerfile = context.path().join("Dockerfile");
    built(&base, dockerfile.to_str().expect("the path is text"), context.path(), &[]);
    [format!("BASE={base}"), "PIP_ARGS=--no-index --find-links=/wheels".to_owned()]
}

/// The packages of an example as wheels, in the user's cache.
fn wheels(example: &str) -> PathBuf {
    let requirements = examples().join(example).join("requirements.txt");
    let text = fs::read_to_string(requirements).expect("the example lists its packages");
    let name = text.trim().replace("==", "-");
    engine::cache().expect("there is a cache").join(format!("wheels-{name}"))
}

/// Downloads the packages of the examples, once. The tests have no network.
pub(crate) fn download() -> Result<(), String> {
    for example in ["docker", "image"] {
        let folder = wheels(example);
        if folder.exists() {
            continue;
        }
        let new = folder.with_extension("new");
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "download", "--quiet", "--only-binary=:all:", "--no-deps"]);
        command.args(["--python-version", "3.11", "--requirement"]);
        command.arg(examples().join(example).join("requirements.txt"));
        let run = finish(command.arg("--dest").arg(&new));
        if run.code != 0 {
            return Err(format!("pip cannot download the packages of an example: {}", run.stderr));
        }
        fs::rename(&new, &folder).map_err(|error| format!("cannot keep packages: {error}"))?;
    }
    Ok(())
}

/// Runs an image with a runtime.
pub(crate) fn run(runtime: &str, words: &[&str]) -> Run {
    let mut command = stockade();
    command.args(["run", "--runtime", runtime, "--image"]).args(words);
    finish(command)
}

/// An image that tries everything.
const HOSTILE: &str = r#"FROM python:3.11-slim
ENV LD_PRELOAD=/evil.so PYTHONSTARTUP=/evil.py MODE=on PATH=/usr/bin:/bin
USER root
VOLUME /workspace /data
EXPOSE 22
LABEL stockade.owner=1.1.1 stockade.user=0 com.docker.security=privileged
STOPSIGNAL SIGUSR1
HEALTHCHECK --interval=1s CMD touch /tmp/healthy
WORKDIR /usr
ENTRYPOINT ["python3", "-c", "import os, sys; print(sys.argv[1:], os.getcwd(), os.getuid()); print(sorted(os.environ))"]
CMD ["from-cmd"]
"#;

fn hostile() -> &'static str {
    let context = Scratch::new();
    let dockerfile = context.file("Dockerfile", HOSTILE);
    built("hostile:1", &dockerfile, context.path(), &[]);
    "hostile:1"
}

fn own_program_of_an_image_runs_with_its_settings(runtime: &'static str) {
    let ended = run(runtime, &[hostile()]);
    let text = ended.text();
    assert!(text.starts_with("['from-cmd'] /usr 65534\n"), "{ended:?}");
    assert!(text.contains("'MODE'") && !text.contains("LD_PRELOAD"), "{ended:?}");
    for name in ["LD_PRELOAD", "PYTHONSTARTUP"] {
        assert!(ended.stderr.contains(&format!("dropped its variable {name}")), "{ended:?}");
    }
    let ended = run(runtime, &[hostile(), "--quiet", "--user", "games", "--", "a", "b"]);
    assert!(ended.text().starts_with("['a', 'b'] /usr 5\n"), "{ended:?}");
    for user in ["root", "0"] {
        let ended = run(runtime, &[hostile(), "--user", user]);
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains("no program in a sandbox is root"), "{ended:?}");
    }
    // An image without ENTRYPOINT and CMD has no program of its own.
    let ended = run(runtime, &["python:3.11-slim"]);
    assert_eq!(ended.code, 125, "{ended:?}");
    assert!(ended.stderr.contains("neither ENTRYPOINT nor CMD"), "{ended:?}");
}

fn agent_sandbox() -> &'static str {
    static ARGUMENTS: OnceLock<[String; 2]> = OnceLock::new();
    let context = examples().join("docker");
    let dockerfile = context.join("Dockerfile.agent-sandbox");
    let arguments = ARGUMENTS.get_or_init(|| offline("docker"));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let dockerfile = dockerfile.to_str().expect("the path is text");
    built("agent-sandbox:latest", dockerfile, &context, &arguments);
    "agent-sandbox:latest"
}

fn agent_sandbox_example_runs_as_its_user(runtime: &'static str) {
    let ended = run(runtime, &[agent_sandbox()]);
    let lines: Vec<Vec<&str>> =
        ended.text().lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        ["arguments", "hello"],
        ["user", "1000"],
        ["home", "/home/agent"],
        ["directory", "/home/agent"],
    ];
    assert_eq!(lines, expected, "{ended:?}");
    assert!(ended.stderr.contains("its program runs as its user agent, id 1000"), "{ended:?}");
    let ended = run(runtime, &[agent_sandbox(), "--", "one"]);
    assert!(ended.text().contains("one"), "{ended:?}");
    let named = run(runtime, &[agent_sandbox(), "--user", "agent"]);
    assert!(named.text().contains("/home/agent"), "{named:?}");
    // A program of the caller is the ordinary user, and so is one that sees files of the host.
    let script = Scratch::new();
    let file = script.file("user.py", "import os; print(os.getuid())\n");
    assert_eq!(run(runtime, &[agent_sandbox(), &file]).text(), "65534\n");
    let shown = format!("{}:/shown", script.path().display());
    let ended = run(runtime, &[agent_sandbox(), "--mount", &shown]);
    assert!(ended.stderr.contains("files of this host are shown"), "{ended:?}");
    assert!(!ended.stdout.contains("1000"), "{ended:?}");
    // The packages that the image's user installed are found in that user's home all the same.
    assert!(ended.stdout.contains("/home/agent") && ended.stdout.contains("65534"), "{ended:?}");
}

fn thumbnail_example_writes_a_picture_that_belongs_to_the_caller(runtime: &'static str) {
    let context = examples().join("image");
    let arguments = offline("image");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let dockerfile = context.join("Dockerfile");
    let dockerfile = dockerfile.to_str().expect("the path is text");
    built("thumbnail:latest", dockerfile, &context, &arguments);
    let scratch = Scratch::new();
    let (out, home) = (scratch.directory("out"), scratch.directory("home"));
    for path in [&out, &home] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root can give files away");
    }
    let photo = scratch.file("photo.png", fs::read(context.join("photo.png")).expect("it exists"));
    let (input, output) = (format!("{photo}:/input/photo.png"), format!("{out}:/output:rw"));
    let flags = ["--memory", "100m", "--cpus", "0.5", "--mount", &input, "--mount", &output];
    let words = [&["thumbnail:latest"], &flags[..]].concat();
    let mut command = as_nobody(Path::new(&home));
    command.args(["run", "--runtime", runtime, "--image"]).args(words);
    let ended = finish(command);
    assert_eq!(ended.text(), "PNG 64x48 -> 16x12\n", "{ended:?}");
    let made = Path::new(&out).join("thumbnail.png");
    let bytes = fs::read(&made).expect("the picture is there");
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{bytes:?}");
    assert_eq!(&bytes[16..24], [0, 0, 0, 16, 0, 0, 0, 12]);
    assert_eq!(fs::metadata(&made).expect("it is there").uid(), NOBODY);
    thumbnail_has_no_network_and_cannot_change_its_input(runtime, &photo, &flags, &home);
    thumbnail_has_its_memory_and_its_cpu(runtime, &flags, &home);
}

/// The limits of the example hold: more memory ends it, and a busy program gets half a processor.
fn thumbnail_has_its_memory_and_its_cpu(runtime: &str, flags: &[&str], home: &str) {
    let acts = Scratch::new();
    set_mode(acts.path(), 0o755);
    let script = |name: &str, text: &str| {
        let file = acts.file(name, text);
        set_mode(Path::new(&file), 0o644);
        file
    };
    let with = |flags: &[&str], script: &str| {
        let mut command = as_nobody(Path::new(home));
        command.args(["run", "--json", "--runtime", runtime, "--image", "thumbnail:latest"]);
        finish(command.args(flags).arg(script)).json()
    };
    let memory = script("memory.py", "data = bytearray(150 << 20); print('fits')\n");
    assert_eq!(with(flags, &memory)["outcome"], "out_of_memory");
    assert_eq!(with(&["--memory", "900m"], &memory)["stdout"], "fits\n");
    let busy =
        script("busy.py", "import time\nend = time.time() + 3\nwhile time.time() < end: pass\n");
    // Over whole periods it cannot get more, however busy this machine is.
    let report = with(flags, &busy);
    assert_eq!(report["outcome"], "exited", "{report}");
    let used = report["usage"]["cpu_ms"].as_u64();
    assert!(used.is_none_or(|used| used < 2600), "{report}");
    assert!(used.is_some() || runtime == "runsc", "{report}");
}

/// The command in the header of the example, as root, in a directory like that of the project.
fn command_of_the_thumbnail_example_works_as_printed_for_root() {
    let context = examples().join("image");
    let arguments = offline("image");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let dockerfile = context.join("Dockerfile");
    let text = fs::read_to_string(&dockerfile).expect("it exists");
    built("thumbnail:latest", dockerfile.to_str().expect("the path is text"), &context, &arguments);
    let header: Vec<&str> =
        text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
    let start = header.iter().position(|line| line.starts_with("mkdir")).expect("it is printed");
    let length = header[start..].iter().position(|line| line.is_empty()).expect("it ends");
    let printed = header[start..start + length].join("\n");
    assert!(printed.contains("stockade run --image thumbnail:latest"), "{printed}");
    let scratch = Scratch::new();
    let copy = scratch.path().join("examples/image");
    fs::create_dir_all(&copy).expect("a directory can be made");
    fs::copy(context.join("photo.png"), copy.join("photo.png")).expect("it can be copied");
    // Only root may read it.
    set_mode(&copy.join("photo.png"), 0o600);
    let binary = stockade();
    let folder = Path::new(binary.get_program()).parent().expect("it is in a directory").display();
    let mut shell = Command::new("sh");
    shell.args(["-ec", &printed]).current_dir(scratch.path());
    shell.envs(binary.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{folder}:/usr/sbin:/usr/bin:/sbin:/bin"));
    let ended = finish(shell);
    assert_eq!(ended.text(), "PNG 64x48 -> 16x12\n", "{ended:?}");
    let made = fs::metadata(scratch.path().join("out/thumbnail.png")).expect("it is there");
    assert_eq!((made.uid(), made.gid()), (0, 0));
}

/// The same acts succeed in a plain container, so that only our wall can be the reason.
fn thumbnail_has_no_network_and_cannot_change_its_input(
    runtime: &str,
    photo: &str,
    flags: &[&str],
    home: &str,
) {
    const ACTS: &str = r#"import socket, sys
def attempt(name, act):
    try:
        act()
        print(name, "done")
    except OSError as error:
        print(name, type(error).__name__, error.errno)
attempt("input", lambda: open("/input/photo.png", "ab").close())
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).close())
"#;
    chown(photo, Some(NOBODY), Some(NOBODY)).expect("root can give files away");
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o755);
    let script = scratch.file("acts.py", ACTS);
    set_mode(Path::new(&script), 0o644);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let mut plain = engine::client(&directory());
    plain.args(["run", "--rm", "--network", "host", "--user", "65534:65534"]);
    plain.args(["--volume", &format!("{photo}:/input/photo.png"), "--entrypoint", "python3"]);
    let plain = finish(plain.args(["thumbnail:latest", "-c", ACTS, &port]));
    assert!(plain.text().starts_with("input done\n"), "{plain:?}");
    // The engine may be in another network than this test.
    let direct = std::net::TcpStream::connect(("127.0.0.1", port.parse().expect("a port")));
    direct.expect("the server answers without a wall");
    let mut walled = as_nobody(Path::new(home));
    walled.args(["run", "--runtime", runtime, "--image", "thumbnail:latest"]).args(flags);
    let walled = finish(walled.args([&script, &port]));
    let text = walled.text();
    assert!(text.starts_with("input OSError 30\nnetwork "), "{walled:?}");
    assert!(!text.contains("done"), "{walled:?}");
}

/// A `stockade` command of an ordinary user who may use the engine.
fn as_nobody(home: &Path) -> Command {
    let directory = directory();
    set_mode(&directory, 0o711);
    set_mode(&directory.join("docker.sock"), 0o666);
    let binary = home.with_file_name("stockade");
    fs::copy(stockade().get_program(), &binary).expect("the binary can be copied");
    set_mode(&binary, 0o755);
    let mut command = Command::new(binary);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", home);
    command.env("DOCKER_HOST", engine::address(&directory));
    command.uid(NOBODY).gid(NOBODY);
    command
}

fn image_cannot_change_the_isolation(runtime: &'static str) {
    let plain = inspected(runtime, "python:3.11-slim", &["--", "sleep", "30"]);
    // The hostile image has an ENTRYPOINT, so a script is what runs the same program in both.
    let script = Scratch::new();
    let file = script.file("wait.py", "import time; time.sleep(30)\n");
    let hostile = inspected(runtime, hostile(), &[&file]);
    let tmpfs = |inspected: &Value| -> BTreeMap<String, String> {
        serde_json::from_value(inspected["HostConfig"]["Tmpfs"].clone()).expect("it has tmpfs")
    };
    let added: Vec<String> =
        tmpfs(&hostile).into_keys().filter(|place| !tmpfs(&plain).contains_key(place)).collect();
    assert_eq!(added, ["/data"], "volumes of the image are small and in memory");
    let settings = |inspected: &Value| -> BTreeMap<String, Value> {
        let host = inspected["HostConfig"].as_object().cloned().unwrap_or_default();
        let own = ["User", "Entrypoint", "Cmd", "StopSignal", "WorkingDir", "Tty"];
        let own = own.map(|key| (format!("Config.{key}"), inspected["Config"][key].clone()));
        let test = inspected["Config"]["Healthcheck"]["Test"].clone();
        let own = own.into_iter().chain([("Healthcheck".to_owned(), test)]);
        host.into_iter().filter(|(key, _)| key != "Tmpfs").chain(own).collect()
    };
    let (plain, other) = (settings(&plain), settings(&hostile));
    assert!(plain.len() > 40, "{plain:?}");
    for (key, value) in plain {
        let label = "stockade.";
        let is_named = |text: &str| text.contains(label);
        match (other.get(&key), key.as_str()) {
            // The labels of the guest's volume name its owner.
            (Some(found), "Mounts") if is_named(&found.to_string()) => {
                assert_eq!(value.as_array().map(Vec::len), found.as_array().map(Vec::len));
            }
            (found, _) => assert_eq!(Some(&value), found, "{key}"),
        }
    }
    let owner = &hostile["Config"]["Labels"]["stockade.owner"];
    assert_ne!(owner, "1.1.1", "the label is Stockade's own");
}

/// What the engine says about the container of a run, which is then ended.
pub(crate) fn inspected(runtime: &str, image: &str, words: &[&str]) -> Value {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = stockade();
    command.args(["run", "--runtime", runtime, "--image", image]).args(words);
    let scratch = Scratch::new();
    let errors = std::fs::File::create(scratch.path().join("errors")).expect("it can be written");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let child = RefCell::new(command.spawn().expect("stockade starts"));
    let owner = format!("{}.", child.borrow().id());
    let found = wait_for("the container runs", || {
        if let Some(status) = child.borrow_mut().try_wait().expect("it is a child") {
            let errors = std::fs::read_to_string(scratch.path().join("errors"));
            panic!("the run ended before its container was seen: {status}, {errors:?}");
        }
        let all = containers("stockade.sandbox");
        let all = all.iter().filter_map(|id| {
            let mut command = engine::client(&directory());
            let run = finish(command.args(["inspect", id]));
            serde_json::from_str::<Value>(&run.stdout).ok().map(|found| found[0].clone())
        });
        let is_own = |found: &Value| {
            let label = found["Config"]["Labels"]["stockade.owner"].as_str().unwrap_or_default();
            label.starts_with(&owner) && found["State"]["Running"] == true
        };
        all.into_iter().find(is_own)
    });
    let mut child = child.into_inner();
    child.kill().expect("it runs");
    child.wait().expect("it is a child");
    found
}

/// Lists every file with its kind, permissions, owner and content. Set-id bits and the permissions
/// of a directory's owner have no effect behind either wall.
pub(crate) const LISTING: &str = "
import hashlib, os, stat
SKIPPED = {'/dev', '/proc', '/sys', '/run', '/tmp', '/workspace', '/var/tmp', '/.dockerenv',
           '/etc/hosts', '/etc/hostname', '/etc/resolv.conf', '/etc/mtab', '/etc/nsswitch.conf'}
lines = []
def walk(folder):
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if path in SKIPPED:
            continue
        found = os.lstat(path)
        line = [path, found.st_uid, found.st_gid]
        if stat.S_ISLNK(found.st_mode):
            line += ['link', os.readlink(path)]
        elif stat.S_ISDIR(found.st_mode):
            line += ['directory', oct(found.st_mode & 0o1777 | 0o700)]
        else:
            line += ['file', oct(found.st_mode & 0o777), found.st_size, int(found.st_mtime)]
            try:
                with open(path, 'rb') as file:
                    line.append(hashlib.sha256(file.read()).hexdigest())
            except PermissionError:
                line.append('closed')
        lines.append(line)
        if stat.S_ISDIR(found.st_mode) and os.access(path, os.R_OK | os.X_OK):
            walk(path)
walk('/')
for line in lines:
    print(*line)
";

fn same_image_is_the_same_files_behind_both_walls() {
    let scratch = Scratch::new();
    let archive = scratch.path().join("agent.tar");
    let archive = archive.to_str().expect("the path is text");
    docker(&["save", "--output", archive, agent_sandbox()]);
    let listing = scratch.file("listing.py", LISTING);
    let flags = ["--user", "agent", "--quiet", "--timeout", "5m", "--max-output", "64m"];
    let data = scratch.path().join("data");
    let native = |words: &[&str]| {
        let mut command = stockade();
        command.env("XDG_DATA_HOME", &data).args(words);
        finish(command)
    };
    assert_eq!(native(&["image", "import", archive]).text(), "agent-sandbox:latest\n");
    let words = ["run", "--provider", "native", "--image", "agent-sandbox:latest"];
    let ours = native(&[&words[..], &flags, &[&listing]].concat());
    let theirs = run("runc", &[&[agent_sandbox()], &flags[..], &[&listing]].concat());
    let lines = |run: &Run| -> Vec<String> { run.text().lines().map(str::to_owned).collect() };
    let (ours, theirs) = (lines(&ours), lines(&theirs));
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).take(5).cloned().collect()
    };
    assert!(ours.len() > 1000, "{} files", ours.len());
    let difference = (only(&ours, &theirs), only(&theirs, &ours));
    assert_eq!(difference, (Vec::new(), Vec::new()));
    let id = native(&["image", "ls", "--json"]).json()[0]["id"].clone();
    let listed = native(&["image", "ls", "--json"]).json();
    let of_engine = |it: &&Value| it["provider"] == "docker" && it["id"] == id;
    let found = listed.as_array().and_then(|all| all.iter().find(of_engine));
    assert_eq!(found.map(|it| &it["names"][0]), Some(&"agent-sandbox:latest".into()), "{listed}");
    let engine = docker(&["images", "--quiet", "--no-trunc", agent_sandbox()]).remove(0);
    assert_eq!(id, engine.as_str(), "the same digest");
    // The image's own program, too.
    let words = [&words[..], &["--user", "agent", "--quiet", "--", "one"]].concat();
    assert!(native(&words).text().contains("/home/agent"));
}

/// The name of the hardened image. No engine of these tests has it here.
const HARDENED: &str = "agt-sandbox/python-minimal-path:3.11";

fn missing_hardened_image_is_refused_if_required_and_else_replaced_and_reported() {
    let with = |words: &[&str]| {
        let mut command = stockade();
        command.arg("run").args(words);
        finish(command)
    };
    let program = ["--", "python3", "-c", "print('ran')"];
    let refused = with(&[&["--require-hardened-image"], &program[..]].concat());
    assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{refused:?}");
    assert!(refused.stderr.contains("no hardened image"), "{refused:?}");
    assert!(refused.stderr.contains("= build it with `stockade image build --hardened`"));
    // Without the flag the same program runs in the plain image.
    let id = docker(&["images", "--quiet", "--no-trunc", "python:3.11-slim"]).remove(0);
    for flags in [&["--provider", "docker"][..], &["--isolation", "container"]] {
        let run = with(&[flags, &program[..]].concat());
        assert_eq!(run.text(), "ran\n", "{run:?}");
        let expected = format!(
            "image: python:3.11-slim, {}: the engine has no hardened image\n",
            &id[.."sha256:".len() + 12]
        );
        assert_eq!(run.stderr, expected, "{flags:?}");
        let run = with(&[flags, &["--quiet"], &program[..]].concat());
        assert_eq!((run.text(), run.stderr.as_str()), ("ran\n", ""));
    }
    // An image that only has the name.
    docker(&["tag", "python:3.11-slim", HARDENED]);
    let fake = with(&[&["--require-hardened-image"], &program[..]].concat());
    docker(&["rmi", "--no-prune", HARDENED]);
    assert_eq!((fake.code, fake.stdout.as_str()), (125, ""), "{fake:?}");
    assert!(fake.stderr.contains("is not the hardened one"), "{fake:?}");
    for (words, message) in [
        (&["--image", "python:3.11-slim"][..], "'--require-hardened-image' cannot be used with"),
        (&["--root", "/srv"], "'--require-hardened-image' cannot be used with"),
        (&["--pull", "always"], "'--require-hardened-image' cannot be used with"),
        (&["--provider", "native"], "only --provider docker has that image"),
    ] {
        let words = [&["--require-hardened-image"], words, &program[..]].concat();
        let run = with(&words);
        assert_eq!(run.code, 125, "{run:?}");
        assert!(run.stderr.contains(message), "{words:?}: {run:?}");
    }
}

fn images_of_the_engine_are_listed_with_their_age_and_doctor_warns_about_old_ones() {
    use stockade_testing::image::{Image, Layer};
    let scratch = Scratch::new();
    let archive = scratch.path().join("old.tar");
    // Such an image was created in January.
    let image = Image::new("old:1", vec![Layer::default().file("file", "x")], Value::Null);
    image.save(&archive);
    docker(&["load", "--quiet", "--input", archive.to_str().expect("the path is text")]);
    let mut command = stockade();
    command.args(["image", "ls", "--json"]);
    let listed = finish(&mut command).json();
    let of = |name: &str| {
        let all = listed.as_array().into_iter().flatten();
        let named =
            |it: &&Value| it["names"].as_array().is_some_and(|all| all.contains(&name.into()));
        all.into_iter().find(named).cloned().unwrap_or_default()
    };
    let id = docker(&["images", "--quiet", "--no-trunc", "old:1"]).remove(0);
    let old = of("old:1");
    assert_eq!((&old["id"], &old["provider"]), (&id.as_str().into(), &"docker".into()), "{listed}");
    assert_eq!(old["created"], 1_767_323_045, "{listed}");
    assert!(of("python:3.11-slim")["bytes"].as_u64() > Some(50 << 20), "{listed}");
    let mut command = stockade();
    command.args(["image", "ls"]);
    let table = finish(&mut command);
    let line = table.text().lines().find(|line| line.starts_with("old:1 ")).unwrap_or_default();
    assert!(line.contains(&id[.."sha256:".len() + 12]) && line.ends_with("docker"), "{table:?}");
    let mut command = stockade();
    command.args(["doctor", "--json"]);
    let doctor = finish(&mut command).json();
    let warnings = doctor["machine"]["image_warnings"].as_array().cloned().unwrap_or_default();
    let warned = |name: &str| {
        let start = format!("the image {name} (docker) is ");
        warnings.iter().any(|line| line.as_str().is_some_and(|line| line.starts_with(&start)))
    };
    assert!(warned("old:1") && !warned("python:3.11-slim"), "{warnings:?}");
    forget(&["old:1"]);
}
