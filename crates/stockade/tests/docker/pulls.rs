//! Downloading images, from a registry on this host's loopback.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use libtest_mimic::Trial;
use serde_json::{Value, json};
use stockade_testing::image::{Image, Layer};
use stockade_testing::{Run, Scratch, engine, finish, wait_for};

use crate::support::{directory, docker, named, skipped, stockade, tests};

tests![image_is_downloaded_only_if_the_caller_says_so];

/// Tests that do not depend on a runtime.
pub(crate) fn once() -> Vec<Trial> {
    named![failed_download_is_an_error_and_never_an_older_image, pull_belongs_to_the_container_wall]
}

/// A registry of a test's own. Dropping it ends it.
struct Registry {
    process: Child,
    port: u16,
    _folder: Scratch,
}

impl Registry {
    /// `None` if this host has no registry program.
    fn start() -> Option<Registry> {
        if !engine::has("docker-registry") {
            skipped("registry", "docker-registry is not installed");
            return None;
        }
        let folder = Scratch::new();
        let free = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback is free");
        let port = free.local_addr().expect("a bound socket has an address").port();
        drop(free);
        let settings = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\n\
             http: {{ addr: '127.0.0.1:{port}' }}\n",
            folder.directory("storage")
        );
        let settings = folder.file("config.yml", settings);
        let mut command = Command::new("docker-registry");
        command.args(["serve", &settings]).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.expect("the registry starts");
        let registry = Registry { process, port, _folder: folder };
        wait_for("the registry answers", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(registry)
    }

    /// The name of an image in it.
    fn name(&self, name: &str) -> String {
        format!("127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Loads an image whose `cat /own` prints `content`; returns its digest.
fn load(name: &str, content: &str) -> String {
    let layer = Layer::default().program("/bin/cat").file("own", content);
    let image = Image::new(name, vec![layer], json!({ "Env": ["PATH=/bin"] }));
    let scratch = Scratch::new();
    let archive = scratch.path().join("image.tar");
    image.save(&archive);
    docker(&["load", "--quiet", "--input", archive.to_str().expect("the path is text")]);
    image.id()
}

fn push(name: &str) {
    docker(&["push", "--quiet", name]);
}

/// Removes images of these tests alone. Containers of ended sandboxes may still use them, and the
/// engine then takes only their names.
fn remove(images: &[&str]) {
    let client = |words: &[&str]| finish(engine::client(&directory()).args(words));
    let id = |image: &str| client(&["image", "inspect", "--format", "{{.Id}}", image]);
    let ids: Vec<String> = images.iter().map(|image| id(image).text().trim().to_owned()).collect();
    wait_for("the images are removed", || {
        for image in &ids {
            client(&["rmi", "--force", image]);
        }
        ids.iter().all(|image| id(image).code != 0).then_some(())
    });
}

fn run(state: &Path, runtime: &str, flags: &[&str]) -> Run {
    let mut command = stockade();
    command.env("XDG_STATE_HOME", state);
    command.args(["run", "--runtime", runtime]).args(flags).args(["--", "cat", "/own"]);
    finish(command)
}

fn image_is_downloaded_only_if_the_caller_says_so(runtime: &'static str) {
    let Some(registry) = Registry::start() else { return };
    let state = Scratch::new();
    let name = registry.name("small:1");
    let name = name.as_str();
    // Images of the same content would be one image of both runtimes.
    let texts = ["one", "two"].map(|text| format!("{text} of {runtime}"));
    let [first, second] = texts.each_ref().map(String::as_str);
    let one = load(name, first);
    push(name);
    remove(&[name]);
    for flags in [&["--image", name][..], &["--image", name, "--pull", "never"]] {
        let refused = run(state.path(), runtime, flags);
        assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{refused:?}");
        assert!(refused.stderr.contains(&format!("has no image {name}")), "{refused:?}");
        assert!(refused.stderr.contains("or --pull missing"), "{refused:?}");
        assert_eq!(docker(&["images", "--quiet", name]), [] as [String; 0]);
    }
    let missing = ["--image", name, "--pull", "missing"];
    let pulled = run(state.path(), runtime, &missing);
    assert_eq!(pulled.text(), first, "{pulled:?}");
    let progress: Vec<&str> = pulled.stderr.lines().collect();
    assert_eq!(progress.first(), Some(&format!("image: pulling {name}").as_str()), "{pulled:?}");
    let last = progress.last().copied().unwrap_or_default();
    assert!(last.starts_with(&format!("image: pulled {name}: ")), "{pulled:?}");
    assert!(last.ends_with(" MB"), "{pulled:?}");
    assert_eq!(image_of_record(&state), one.as_str());
    // The tag moves in the registry; the engine keeps the older image.
    let two = load(name, second);
    push(name);
    docker(&["tag", &one, name]);
    let kept = run(state.path(), runtime, &missing);
    assert_eq!((kept.text(), kept.stderr.as_str()), (first, ""), "nothing is downloaded");
    let always = run(state.path(), runtime, &["--image", name, "--pull", "always", "--quiet"]);
    assert_eq!((always.text(), always.stderr.as_str()), (second, ""), "{always:?}");
    assert_eq!(image_of_record(&state), two.as_str());
    // A digest of the registry names the image that it always named.
    let digests = docker(&["inspect", "--format", "{{join .RepoDigests \"\\n\"}}", &one]);
    let digest = digests.iter().find(|it| it.contains('@')).expect("a pushed image has a digest");
    remove(&[&one]);
    let by_digest = run(state.path(), runtime, &["--image", digest, "--pull", "missing"]);
    assert_eq!(by_digest.text(), first, "{by_digest:?}");
    remove(&[&one, &two]);
}

/// The image in the latest record.
fn image_of_record(state: &Scratch) -> Value {
    let mut command = stockade();
    command.env("XDG_STATE_HOME", state.path());
    let run = finish(command.args(["audit", "show", "--json"]));
    let events: Vec<Value> = serde_json::from_str(run.text()).unwrap_or_else(|_| run.lines());
    events[0]["body"]["image"]["image"].clone()
}

fn failed_download_is_an_error_and_never_an_older_image() {
    let Some(registry) = Registry::start() else { return };
    let state = Scratch::new();
    let name = registry.name("gone:1");
    load(&name, "old");
    // The engine has it, and the registry does not.
    assert_eq!(run(state.path(), "runc", &["--image", &name]).text(), "old");
    assert_eq!(run(state.path(), "runc", &["--image", &name, "--pull", "missing"]).text(), "old");
    let refused = run(state.path(), "runc", &["--image", &name, "--pull", "always"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (125, ""), "{refused:?}");
    let expected = format!("cannot download the image {name}: ");
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    assert!(refused.stderr.contains("docker login"), "{refused:?}");
    drop(registry);
    let refused = run(state.path(), "runc", &["--image", &name, "--pull", "always"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains(&expected), "{refused:?}");
    remove(&[&name]);
    // The base of the hardened image is downloaded under the same rule.
    let mut command = stockade();
    command.args(["image", "build", "--hardened", "--name", "own:3", "--base", &name]);
    let refused = finish(command.args(["--pull", "missing"]));
    assert!(refused.code == 125 && refused.stderr.contains(&expected), "{refused:?}");
}

fn pull_belongs_to_the_container_wall() {
    let state = Scratch::new();
    for (flags, message) in [
        (&["--pull", "often", "--image", "x"][..], "--pull"),
        (&["--pull", "missing", "--provider", "native"], "--pull belongs to --provider docker"),
        (
            &["--pull", "missing", "--provider", "native", "--image", "x"],
            "the images of this wall are not on an engine",
        ),
        (&["--pull", "missing", "--root", "/srv"], "--pull"),
    ] {
        let mut command = stockade();
        command.env("XDG_STATE_HOME", state.path()).arg("run").args(flags);
        let refused = finish(command.args(["--", "cat", "/own"]));
        assert_eq!(refused.code, 125, "{flags:?}: {refused:?}");
        assert!(refused.stderr.contains(message), "{flags:?}: {refused:?}");
    }
}
