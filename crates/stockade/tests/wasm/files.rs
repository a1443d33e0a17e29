//! Files inside and of the host.

use crate::support::{directory, named, run, run_with};

named![
    input_is_read_only_and_output_reaches_the_host,
    no_path_leads_out_of_a_mounted_directory,
    files_of_the_host_are_not_there,
    files_inside_behave_as_files,
    workspace_of_the_host_can_be_written,
    overlay_and_hidden_paths_are_refused_by_name,
    single_file_is_mounted_read_only,
    policy_file_in_a_writable_mount_is_refused,
];

fn input_is_read_only_and_output_reaches_the_host() {
    let (_in, input) = directory(&[("a.txt", "hello")]);
    let (_out, output) = directory(&[]);
    let mounts = [
        "--mount",
        &format!("{}:/input", input.display()),
        "--mount",
        &format!("{}:/output:rw", output.display()),
    ]
    .map(str::to_owned);
    let options: Vec<&str> = mounts.iter().map(String::as_str).collect();
    let code = r#"
import os
open("/output/b.txt", "w").write(open("/input/a.txt").read() + " there")
for attempt in (lambda: open("/input/a.txt", "a"), lambda: open("/input/c", "w"),
                lambda: os.remove("/input/a.txt"), lambda: os.mkdir("/input/d")):
    try:
        attempt()
        print("changed")
    except OSError:
        print("refused")
print(sorted(os.listdir("/")), os.listdir("/input"))
"#;
    let run = run_with(&options, code);
    assert!(run.text().starts_with(&"refused\n".repeat(4)), "{run:?}");
    assert!(run.stdout.contains("'input', 'output'"), "{run:?}");
    assert_eq!(std::fs::read_to_string(output.join("b.txt")).expect("written"), "hello there");
    assert_eq!(std::fs::read_to_string(input.join("a.txt")).expect("there"), "hello");
}

fn no_path_leads_out_of_a_mounted_directory() {
    let (_scratch, path) = directory(&[("secret", "hidden")]);
    let shown = path.join("shown");
    std::fs::create_dir(&shown).expect("new");
    std::os::unix::fs::symlink("../secret", shown.join("link")).expect("new");
    std::os::unix::fs::symlink(path.join("secret"), shown.join("absolute")).expect("new");
    let mount = format!("{}:/output:rw", shown.display());
    let code = r#"
import os
for name in ("link", "absolute", "../secret", "x/../../secret"):
    try:
        print(open("/output/" + name).read())
    except OSError:
        print("refused")
try:
    os.symlink("/etc/passwd", "/output/passwd")
    print(open("/output/passwd").read())
except OSError:
    print("refused")
"#;
    assert_eq!(run_with(&["--mount", &mount], code).text(), "refused\n".repeat(5));
    assert!(std::fs::read(shown.join("link")).is_ok(), "the host can follow it");
}

fn files_of_the_host_are_not_there() {
    let code = "import os; print(os.path.exists('/etc/passwd'), os.path.exists('/proc'), sorted(os.listdir('/')))";
    assert_eq!(run(code).text(), "False False ['dev', 'tmp', 'var', 'workspace']\n");
}

fn files_inside_behave_as_files() {
    let code = r#"
import os, pathlib, shutil, tempfile
os.makedirs("a/b/c")
pathlib.Path("a/b/f.txt").write_text("one\ntwo\n")
with open("a/b/f.txt", "r+") as file:
    file.seek(4)
    file.write("TWO")
    file.truncate(7)
print(open("a/b/f.txt").read())
open("a/b/f.txt", "a").write("!")
os.rename("a/b/f.txt", "a/g.txt")
os.symlink("g.txt", "a/link")
print(open("a/link").read(), os.readlink("a/link"), os.path.getsize("a/g.txt"))
print([sorted(part) if isinstance(part, list) else part for entry in os.walk("a") for part in entry])
try:
    os.rmdir("a")
except OSError as error:
    print(type(error).__name__)
shutil.rmtree("a")
print(os.path.exists("a"))
with tempfile.NamedTemporaryFile(dir="/tmp") as file:
    file.write(b"x")
try:
    open("/dev/null", "w").write("gone")
    open("/new", "w")
except OSError:
    print("refused")
"#;
    let expected = "one\nTWO\none\nTWO! g.txt 8\n\
        ['a', ['b'], ['g.txt', 'link'], 'a/b', ['c'], [], 'a/b/c', [], []]\n\
        OSError\nFalse\nrefused\n";
    assert_eq!(run(code).text(), expected);
}

fn workspace_of_the_host_can_be_written() {
    let (_scratch, path) = directory(&[("a.txt", "before")]);
    let (_other, policy) = directory(&[]);
    let text = format!("filesystem: {{workspace: {{host: {}, mode: write}}}}", path.display());
    let file = policy.join("p.yaml");
    std::fs::write(&file, text).expect("new");
    let code = "print(open('a.txt').read()); open('a.txt', 'w').write('after')";
    let run = run_with(&["--policy", file.to_str().expect("text")], code);
    assert_eq!(run.text(), "before\n");
    assert_eq!(std::fs::read_to_string(path.join("a.txt")).expect("there"), "after");
}

fn overlay_and_hidden_paths_are_refused_by_name() {
    let (_scratch, path) = directory(&[]);
    let run = run_with(&["--workspace", path.to_str().expect("text")], "print(1)");
    assert!(run.stderr.contains("no private layer over a host directory"), "{run:?}");
    let text = format!(
        "filesystem: {{read: [{{host: {}, guest: /data}}], hide: [/data/x]}}",
        path.display()
    );
    let (_other, policy) = directory(&[("p.yaml", &text)]);
    let file = policy.join("p.yaml");
    let run = run_with(&["--policy", file.to_str().expect("text")], "print(1)");
    assert!(run.stderr.contains("this wall shows whole directories"), "{run:?}");
}

fn single_file_is_mounted_read_only() {
    let (_scratch, path) = directory(&[("a.txt", "hello")]);
    let file = path.join("a.txt");
    let mount = format!("{}:/input/a.txt", file.display());
    let code = "print(open('/input/a.txt').read())\ntry:\n    open('/input/a.txt', 'w')\n\
                except OSError:\n    print('refused')";
    assert_eq!(run_with(&["--mount", &mount], code).text(), "hello\nrefused\n");
    let run = run_with(&["--mount", &format!("{mount}:rw")], code);
    assert!(run.stderr.contains("a single file cannot be writable"), "{run:?}");
}

fn policy_file_in_a_writable_mount_is_refused() {
    let (_scratch, path) = directory(&[]);
    let text = format!("filesystem: {{write: [{{host: {}, guest: /output}}]}}", path.display());
    let file = path.join("p.yaml");
    std::fs::write(&file, text).expect("new");
    let run = run_with(&["--policy", file.to_str().expect("text")], "print(1)");
    assert!(run.stderr.contains("which decides what the next run may do"), "{run:?}");
}
