//! The directories that an image declares as volumes: small, in memory, and over nothing of ours or
//! of the caller.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stockade_testing::{Scratch, engine};

use crate::images::{built, inspected, run};
use crate::support::{directory, docker, finish, tests};

tests![
    volumes_of_an_image_are_in_memory_and_none_is_created_on_the_engine,
    volume_over_the_callers_workspace_leaves_it_as_it_is,
    volume_below_a_mount_is_refused_and_creates_nothing_in_it,
    volume_that_a_link_leads_into_a_mount_is_refused_and_creates_nothing_in_it,
    volume_over_the_guest_or_without_an_absolute_path_is_refused,
];

/// The volumes of a container on the engine's disk.
fn volumes(inspected: &Value) -> Vec<String> {
    let mounts = inspected["Mounts"].as_array().cloned().unwrap_or_default();
    let volumes = mounts.into_iter().filter(|mount| mount["Type"] == "volume");
    volumes.map(|mount| mount["Destination"].as_str().unwrap_or_default().to_owned()).collect()
}

fn image(tag: &'static str, lines: &str) -> &'static str {
    let context = Scratch::new();
    let dockerfile = context.file("Dockerfile", format!("FROM python:3.11-slim\n{lines}\n"));
    built(tag, &dockerfile, context.path(), &[]);
    tag
}

const UNCLEAN: &str = "VOLUME /data/ //double//in /a/../clean /tmp /x/../workspace /run/stockade/";

fn volumes_of_an_image_are_in_memory_and_none_is_created_on_the_engine(runtime: &'static str) {
    let image = image("volumes:1", UNCLEAN);
    // The same image in a plain container.
    let name = format!("plain-volumes-{runtime}");
    docker(&["create", "--network", "none", "--name", &name, image, "true"]);
    let mut inspect = engine::client(&directory());
    let plain = finish(inspect.args(["inspect", &name])).json();
    docker(&["rm", "--volumes", &name]);
    assert_eq!(volumes(&plain[0]).len(), 6, "{plain}");
    let script = Scratch::new();
    let wait = script.file("wait.py", "import time; time.sleep(30)\n");
    let found = inspected(runtime, image, &[&wait]);
    assert_eq!(volumes(&found), ["/run/stockade"], "{}", found["Mounts"]);
    let places = script.file(
        "places.py",
        "
import os
kinds = dict(line.split()[1:3] for line in open('/proc/mounts'))
for place in ['/data', '/double/in', '/clean', '/tmp', '/workspace']:
    with open(place + '/file', 'w') as file: file.write('x')
    print(place, kinds[place], flush=True)
for place in ['/data/x.sh', '/workspace/x.sh']:
    with open(place, 'w') as file: file.write('#!/bin/sh\\necho ran\\n')
    os.chmod(place, 0o755)
    os.system(place)
try:
    open('/run/stockade/file', 'w')
except PermissionError:
    print('closed')
",
    );
    let expected = "/data tmpfs\n/double/in tmpfs\n/clean tmpfs\n/tmp tmpfs\n/workspace tmpfs\n";
    let ended = run(runtime, &[image, &places]);
    assert_eq!(ended.text(), format!("{expected}ran\nran\nclosed\n"), "{ended:?}");
}

fn volume_over_the_callers_workspace_leaves_it_as_it_is(runtime: &'static str) {
    let image = image("volumes:1", UNCLEAN);
    let scratch = Scratch::new();
    let work = scratch.directory("work");
    let work = Path::new(&work);
    let script = "
print(open('/workspace/file').read())
try:
    open('/workspace/new', 'w')
except OSError as error:
    print(error.errno)
";
    fs::write(work.join("file"), "the caller's").expect("a file can be written");
    fs::write(work.join("look.py"), script).expect("a file can be written");
    let flag = format!("{}:read", work.display());
    let words = [image, "--workspace", &flag, "--", "python3", "/workspace/look.py"];
    let ended = run(runtime, &words);
    assert_eq!(ended.text(), "the caller's\n30\n", "{ended:?}");
    assert_eq!(fs::read_dir(work).expect("it exists").count(), 2);
}

/// Runs an image with a writable mount at `/output`, plainly and in a sandbox, and returns what each
/// leaves there, with the message of the sandbox.
fn with_output(runtime: &str, image: &str) -> (Vec<String>, Vec<String>, String) {
    let scratch = Scratch::new();
    let (plain, own) = (scratch.directory("plain"), scratch.directory("own"));
    let left = |place: &str| {
        let all = fs::read_dir(place).expect("it exists").flatten();
        all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let mount = format!("{plain}:/output");
    docker(&["run", "--rm", "--network", "none", "--volume", &mount, image, "true"]);
    let mount = format!("{own}:/output:rw");
    let refused = run(runtime, &[image, "--mount", &mount, "--", "true"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    (left(&plain), left(&own), refused.stderr)
}

fn volume_below_a_mount_is_refused_and_creates_nothing_in_it(runtime: &'static str) {
    let image = image("volumes-below:1", "VOLUME /output/made");
    let (plain, own, message) = with_output(runtime, image);
    assert_eq!((plain, own), (vec!["made".to_owned()], Vec::new()));
    assert!(message.contains("/output/made is below /output"), "{message}");
    assert_eq!(run(runtime, &[image, "--", "true"]).code, 0, "without the mount it runs");
}

fn volume_that_a_link_leads_into_a_mount_is_refused_and_creates_nothing_in_it(
    runtime: &'static str,
) {
    let image =
        image("volumes-link:1", "RUN mkdir /output && ln -s /output /link\nVOLUME /link/made");
    let (plain, own, message) = with_output(runtime, image);
    assert_eq!((plain, own), (vec!["made".to_owned()], Vec::new()));
    assert!(message.contains("a link in it leads /link/made to /output"), "{message}");
    // gVisor itself mounts nothing below a link.
    if runtime == "runc" {
        assert_eq!(run(runtime, &[image, "--", "true"]).code, 0, "without the mount it runs");
    }
}

fn volume_over_the_guest_or_without_an_absolute_path_is_refused(runtime: &'static str) {
    for (tag, line, part) in [
        ("volumes-guest:1", "VOLUME /run/stockade/guest", "is below /run/stockade"),
        ("volumes-relative:1", "VOLUME relative", "relative is not an absolute path"),
        ("volumes-kernel:1", "VOLUME /proc/sys", "it declares /proc/sys"),
    ] {
        let refused = run(runtime, &[image(tag, line), "--", "true"]);
        assert_eq!(refused.code, 125, "{refused:?}");
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
}
