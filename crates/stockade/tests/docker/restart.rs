//! The engine ends and comes back.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use stockade_testing::{Run, Scratch, ended, engine, wait_for};

use crate::life::running;
use crate::support::{
    command, directory, docker, finish, named, report, run, skipped, stockade, wait_until_removed,
};

pub(crate) fn tests() -> Vec<Trial> {
    named![
        restarted_engine_ends_the_session_and_leaves_nothing,
        runsc_that_is_runc_is_caught_by_its_kernel,
        repaired_runtime_is_taken_by_the_next_run,
        failure_of_a_runtime_is_kept_until_doctor_tries_it_again,
        engine_behind_tls_works_by_address_and_by_context,
        engine_with_a_full_disk_is_named_and_leaves_nothing,
    ]
}

/// Starts the engine again with other arguments, until the test ends.
struct Changed;

impl Changed {
    fn start(runsc: &str, arguments: &[&str]) -> Changed {
        engine::stop(&directory());
        engine::start(&directory(), runsc, arguments).expect("the engine starts again");
        Changed
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        engine::stop(&directory());
        engine::start(&directory(), engine::GVISOR, &[]).expect("the engine starts again");
    }
}

fn restarted_engine_ends_the_session_and_leaves_nothing() {
    wait_until_removed("stockade.sandbox");
    let mut command = command("runc", &["--json"], &["sleep", "86403"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("stockade starts");
    wait_for("the program runs", || running("86403"));
    engine::stop(&directory());
    let ended = ended(child);
    assert_eq!(ended.json()["outcome"], "engine_lost", "{ended:?}");
    assert_eq!(run("runc", &[], &["true"]).code, 125);
    engine::start(&directory(), engine::GVISOR, &[]).expect("the engine starts again");
    assert_eq!(run("runc", &[], &["true"]).code, 0);
    wait_until_removed("stockade.sandbox");
    wait_until_removed("stockade.user");
    let filter = "label=stockade.sandbox";
    assert_eq!(docker(&["volume", "ls", "--quiet", "--filter", filter]), [] as [String; 0]);
    let networks = docker(&["network", "ls", "--format", "{{.Name}}"]);
    assert!(
        networks.iter().all(|name| ["bridge", "host", "none"].contains(&&**name)),
        "{networks:?}"
    );
    let images = docker(&["images", "--format", "{{.Repository}}"]);
    // The tests of images have built others under names of their own.
    let is_ours = |name: &&String| name.starts_with("stockade") && *name != "stockade-trial";
    assert_eq!(images.iter().find(is_ours), None, "{images:?}");
}

fn runsc_that_is_runc_is_caught_by_its_kernel() {
    let _changed = Changed::start(r#"{"path": "/usr/bin/runc"}"#, &[]);
    let refused = run("runsc", &[], &["true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("which is not what its name promises"), "{refused:?}");
    let report = report("auto", &[], &["true"]);
    assert_eq!(report["isolation"]["level"], "container", "{report}");
    let floor = run("auto", &["--isolation", "user-kernel"], &["true"]);
    assert_eq!(floor.code, 125, "{floor:?}");
    let doctor = finish(stockade().args(["doctor", "--json"])).json();
    let trials = doctor["machine"]["containers"]["trials"].as_array().cloned().unwrap_or_default();
    let runsc = trials.into_iter().find(|trial| trial["runtime"] == "runsc").unwrap_or_default();
    assert!(runsc["obstacle"]["reason"].to_string().contains("its name promises"), "{runsc}");
}

/// A runtime of gVisor that does not start, until it is repaired.
struct Broken {
    place: Scratch,
    program: std::path::PathBuf,
}

impl Broken {
    fn new() -> Broken {
        let place = Scratch::new();
        let program = place.path().join("runsc");
        // The second line is another program, which can change alone.
        let text = format!("#!/bin/sh\nexec {} \"$@\"\n", place.path().join("inner").display());
        fs::write(&program, text).expect("a file can be written");
        stockade_testing::set_mode(&program, 0o755);
        let broken = Broken { place, program };
        broken.inner("exit 1");
        broken
    }

    fn inner(&self, text: &str) {
        let inner = self.place.path().join("inner");
        fs::write(&inner, format!("#!/bin/sh\n{text}\n")).expect("a file can be written");
        stockade_testing::set_mode(&inner, 0o755);
    }

    fn json(&self) -> String {
        format!(r#"{{"path": "{}"}}"#, self.program.display())
    }
}

const GVISOR: &str = "exec /usr/bin/runsc --network=none --platform=ptrace \"$@\"";

fn level() -> serde_json::Value {
    report("auto", &[], &["true"])["isolation"]["level"].clone()
}

fn repaired_runtime_is_taken_by_the_next_run() {
    if !engine::has("runsc") {
        return skipped("gvisor", "runsc is not installed");
    }
    let broken = Broken::new();
    let _changed = Changed::start(&broken.json(), &[]);
    assert_eq!(level(), "container");
    fs::write(&broken.program, format!("#!/bin/sh\n{GVISOR}\n")).expect("it can be written");
    assert_eq!(level(), "user-kernel");
}

fn failure_of_a_runtime_is_kept_until_doctor_tries_it_again() {
    if !engine::has("runsc") {
        return skipped("gvisor", "runsc is not installed");
    }
    let broken = Broken::new();
    let _changed = Changed::start(&broken.json(), &[]);
    assert_eq!(level(), "container");
    // The registered file is the same, so nothing shows that it would start now.
    broken.inner(GVISOR);
    finish(stockade().args(["doctor", "--json"])).json();
    assert_eq!(level(), "user-kernel");
}

/// Makes an authority, and certificates of it for the engine and for a client.
fn certificates(place: &Path) {
    let openssl = |words: &[&str]| {
        let made = finish(Command::new("openssl").args(words).current_dir(place));
        assert_eq!(made.code, 0, "{words:?}: {}", made.stderr);
    };
    let new = ["req", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    openssl(
        &[&new[..], &["-x509", "-subj", "/CN=a", "-keyout", "a.key", "-out", "ca.pem"]].concat(),
    );
    for (name, extension) in
        [("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")]
    {
        let subject = format!("/CN={name}");
        let (key, asked, made) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        openssl(&[&new[..4], &["-subj", &subject, "-keyout", &key, "-out", &asked]].concat());
        fs::write(place.join("extension"), extension).expect("a file can be written");
        let sign = ["x509", "-req", "-CA", "ca.pem", "-CAkey", "a.key", "-CAcreateserial"];
        let rest = ["-days", "2", "-in", &asked, "-out", &made, "-extfile", "extension"];
        openssl(&[&sign[..], &rest].concat());
    }
    for (from, to) in [("client.pem", "cert.pem"), ("client.key", "key.pem")] {
        fs::copy(place.join(from), place.join(to)).expect("a file can be copied");
    }
}

fn engine_behind_tls_works_by_address_and_by_context() {
    if !engine::has("openssl") {
        return skipped("docker", "openssl is not installed");
    }
    let (place, stranger) = (Scratch::new(), Scratch::new());
    certificates(place.path());
    certificates(stranger.path());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let url = format!("tcp://{}", port.expect("a port is free"));
    let file = |name: &str| place.path().join(name).display().to_string();
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let tls = ["--tlsverify", "--tlscacert", &ca, "--tlscert", &certificate, "--tlskey", &key];
    let _changed = Changed::start(engine::GVISOR, &[&["--host", &url], &tls[..]].concat());
    let remote = |certificates: &str, flags: &[&str]| -> Run {
        let mut command = stockade();
        command.env_remove("DOCKER_HOST").env("DOCKER_TLS_VERIFY", "1");
        command.env("DOCKER_CERT_PATH", certificates);
        command.args(["run", "--docker-url", &url, "--runtime", "runsc"]);
        finish(command.args(flags).args(["--", "echo", "x"]))
    };
    assert_eq!(remote(place.text(), &[]).text(), "x\n");
    let strange = remote(stranger.text(), &[]);
    assert_eq!(strange.code, 125, "{strange:?}");
    assert!(strange.stderr.contains("cannot reach a Docker engine"), "{strange:?}");
    let mounted = remote(place.text(), &["--mount", &format!("{}:/in", place.text())]);
    assert_eq!(mounted.code, 125, "{mounted:?}");
    assert!(mounted.stderr.contains("another machine"), "{mounted:?}");
    let home = Scratch::new();
    let docker = format!("host={url},ca={ca},cert={},key={}", file("cert.pem"), file("key.pem"));
    let mut context = Command::new("docker");
    context.args(["context", "create", "away", "--docker", &docker]).env("HOME", home.path());
    finish(context).text();
    let mut command = stockade();
    command.env_remove("DOCKER_HOST").env("HOME", home.path()).env("DOCKER_CONTEXT", "away");
    command.args(["run", "--runtime", "runc", "--", "echo", "x"]);
    assert_eq!(finish(command).text(), "x\n");
}

/// A file system of a few megabytes; dropping it unmounts it.
struct Small(Scratch);

impl Small {
    fn mount() -> Small {
        let place = Scratch::new();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "stockade-test"]).arg(place.path());
        finish(mount).text();
        Small(place)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        engine::stop(self.0.path());
        finish(Command::new("umount").args(["--recursive", "--lazy"]).arg(self.0.path()));
    }
}

fn engine_with_a_full_disk_is_named_and_leaves_nothing() {
    let small = Small::mount();
    let place = small.0.path();
    engine::start(place, engine::GVISOR, &[]).expect("a second engine starts");
    let archive = place.join("image.tar");
    let mut pack = Command::new("tar");
    finish(pack.arg("-cf").arg(&archive).args(["-C", "/etc", "hostname"])).text();
    finish(engine::client(place).arg("import").arg(&archive).arg("small:1")).text();
    let run = || {
        let mut command = stockade();
        command.env("DOCKER_HOST", engine::address(place));
        finish(command.args(["run", "--runtime", "runc", "--image", "small:1", "--", "/x"]))
    };
    // The program is missing, so the container itself works.
    assert_eq!(run().code, 127);
    let filler = place.join("filler");
    let mut fill = Command::new("dd");
    finish(fill.args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", filler.display())));
    let full = run();
    assert_eq!(full.code, 125, "{full:?}");
    // runc may fail first, without naming the cause.
    let is_unnamed = full.stderr.contains("unable to store init state");
    let is_named = full.stderr.contains("because its disk is full");
    assert!(is_named || is_unnamed, "{full:?}");
    assert_eq!(full.stderr.contains("docker system prune"), is_named, "{full:?}");
    assert!(full.elapsed.as_secs() < 30, "{full:?}");
    fs::remove_file(&filler).expect("the filler is removed");
    for kind in [&["ps", "--all", "--quiet"][..], &["volume", "ls", "--quiet"]] {
        wait_for("nothing is left", || {
            finish(engine::client(place).args(kind)).text().is_empty().then_some(())
        });
    }
    assert_eq!(run().code, 127);
}
