//! Runs the examples as their documentation describes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::{binary, examples, finish, is_root, outside, stockade, walls_can_be_built};
use stockade_testing::Scratch;

/// The limits of the tutorial.
const FLAGS: [&str; 4] = ["--memory", "100m", "--cpus", "0.5"];

fn tutorial(name: &str, arguments: &[&str]) -> String {
    let script = examples().join("tutorial").join(name);
    let words = [&FLAGS[..], &[script.to_str().expect("paths are text")], arguments].concat();
    stockade(&words).text().to_owned()
}

/// The commands of the README's section, one after the other, with files for the names in them.
#[test]
fn commands_of_the_readme_run_in_their_order() {
    if !walls_can_be_built() {
        return;
    }
    let readme = std::fs::read_to_string(examples().join("../README.md")).unwrap();
    let (_, section) = readme.split_once("## Run something\n\n```\n").unwrap();
    let (commands, _) = section.split_once("```").unwrap();
    assert!(commands.lines().count() >= 10, "{commands}");
    let scratch = Scratch::new();
    let script = "import sys\nprint('script', *sys.argv[1:])\n";
    for name in ["script.py", "resize.py", "agent.py"] {
        scratch.file(name, script);
    }
    for (name, text) in [("names", "one\ntwo\n"), ("photo.png", "PNG"), ("README.md", "mine\n")] {
        scratch.file(name, text);
    }
    scratch.directory("out");
    for name in ["tools.yaml", "search_notes.py"] {
        std::fs::copy(examples().join("tools").join(name), scratch.path().join(name)).unwrap();
    }
    let folder = binary().parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    for line in commands.lines() {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(scratch.path()).env("PATH", &path);
        let run = finish(shell);
        // There is no internet in a test; curl cannot resolve or reach the host then.
        let codes = if line.contains("curl") { 0..126 } else { 0..1 };
        assert!(codes.contains(&run.code), "{line}: {run:?}");
    }
    let mine = std::fs::read_to_string(scratch.path().join("README.md")).unwrap();
    assert_eq!(mine, "mine\n", "the workspace was copied");
}

#[test]
fn greeting_is_printed() {
    if !walls_can_be_built() {
        return;
    }
    let hello = examples().join("hello.py");
    let run = stockade(&[&hello]);
    assert!(run.text().starts_with("Hello from inside the stockade, Python 3."), "{}", run.stdout);
    assert!(run.stdout.contains("of user 1000, in /workspace."), "{}", run.stdout);
}

#[test]
fn safe_code_runs() {
    if !walls_can_be_built() {
        return;
    }
    let said = "sum: 55\nsquares: [1, 4, 9, 16, 25, 36, 49, 64, 81, 100]\n";
    assert_eq!(tutorial("safe.py", &[]), said);
}

#[test]
fn password_hashes_are_missing_inside() {
    if !walls_can_be_built() {
        return;
    }
    let script = examples().join("tutorial/read_shadow.py");
    let host = outside(&["python3", script.to_str().unwrap()]);
    // An ordinary user cannot read the file on the host either; inside it does not exist.
    let expected = if is_root() { "read it: " } else { "refused: Permission denied" };
    assert!(host.text().starts_with(expected), "{}", host.stdout);
    assert_eq!(tutorial("read_shadow.py", &[]), "refused: No such file or directory\n");
}

#[test]
fn write_to_the_home_of_root_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let script = examples().join("tutorial/write_root.py");
    let host = outside(&["python3", script.to_str().unwrap()]);
    let left = std::path::Path::new("/root/.stockade-was-here");
    if is_root() {
        assert_eq!(host.text(), "wrote it\n");
        std::fs::remove_file(left).unwrap();
    }
    let said = tutorial("write_root.py", &[]);
    assert!(said.starts_with("refused: "), "{said}");
    assert!(!is_root() || !left.exists());
}

#[test]
fn request_reaches_a_server_only_without_the_wall() {
    if !walls_can_be_built() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let count = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        (listener, String::from_utf8_lossy(&request[..count]).into_owned())
    });
    let script = examples().join("tutorial/request.py");
    let script = script.to_str().unwrap();
    let host = outside(&["env", "-u", "http_proxy", "-u", "HTTP_PROXY", "python3", script, &url]);
    assert_eq!(host.text(), "reached it: 200\n");
    let (listener, request) = server.join().unwrap();
    assert!(request.starts_with("GET / "), "{request}");
    let said = tutorial("request.py", &[&url]);
    assert!(said.starts_with("refused: "), "{said}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody connected from inside");
    assert!(tutorial("request.py", &[]).starts_with("refused: "));
}

#[test]
fn secrets_example_shows_the_real_key_to_the_server_only() {
    if !walls_can_be_built() {
        return;
    }
    let script = examples().join("secrets/demo.sh");
    let key = "demo-5f0c1d9e8b7a6f3e2d1c0b9a";
    let stockade = stockade_testing::under_test(env!("CARGO_BIN_EXE_stockade"));
    let name = format!("STOCKADE={}", stockade.to_str().unwrap());
    let value = format!("DEMO_API_KEY={key}");
    let run = outside(&["env", &name, &value, "bash", script.to_str().unwrap()]);
    let (inside, servers) = run.text().split_once("the servers saw:\n").unwrap();
    assert!(inside.contains("the API answers: 200 hello\n"), "{inside}");
    assert!(inside.contains("what it sent back of the key: Bearer ****"), "{inside}");
    assert!(!inside.contains(key), "{inside}");
    assert_eq!(inside.matches("denied: 403 network_requests").count(), 2, "{inside}");
    let alarm =
        "denied: 403 secrets - the placeholder of the secret DEMO_API_KEY was in the header";
    assert!(inside.contains(alarm), "{inside}");
    assert_eq!(servers, "127.0.0.1 GET /repos/stockade real key\n");
}

#[test]
fn image_example_reads_one_file_and_writes_one_directory() {
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let out = scratch.directory("out");
    let image = examples().join("image").canonicalize().unwrap();
    let photo = format!("{}:/input/photo.ppm", image.join("photo.ppm").display());
    let output = format!("{out}:/output:rw");
    let script = image.join("process.py");
    let words = ["--mount", &photo, "--mount", &output, script.to_str().unwrap()];
    let run = stockade(&[&FLAGS[..], &words].concat());
    assert_eq!(run.text(), "64x48 -> 16x12, written to /output/thumbnail.pgm\n");
    let made = std::fs::read(format!("{out}/thumbnail.pgm")).unwrap();
    assert_eq!((&made[..13], made.len()), (&b"P5\n16 12\n255\n"[..], 13 + 16 * 12));
    let run = stockade(&["--quiet", "--mount", &output, script.to_str().unwrap()]);
    assert_eq!(run.code, 1, "without the picture there is nothing to do");
}
