//! Programs behind the reduced wall, and how Stockade reports them.

use serde_json::json;

use super::{can_be_built, command, reduced, report};
use crate::support::{finish, finish_with};

const SAID: &str =
    "stockade: the reduced wall was used: no namespaces, and less hidden of the host\n";

#[test]
fn reduced_wall_runs_programs_and_reports_its_use() {
    if !can_be_built() {
        return;
    }
    let hello = reduced(&["--", "echo", "hello"]);
    assert_eq!((hello.code, hello.stdout.as_str(), hello.stderr.as_str()), (0, "hello\n", SAID));
    let quiet = reduced(&["--quiet", "--", "sh", "-c", "echo error >&2; exit 7"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (7, "error\n"));
    assert_eq!(reduced(&["--quiet", "--", "sh", "-c", "kill -9 $$"]).code, 137);
    assert_eq!(reduced(&["--quiet", "--", "no-such-program"]).code, 127);
    let report = report(&["--", "true"]);
    let isolation = &report["isolation"];
    assert_eq!(report["provider"], "reduced");
    assert_eq!(
        (&isolation["provider"], &isolation["level"]),
        (&json!("reduced"), &json!("reduced"))
    );
    let controls = isolation["controls"].as_array().unwrap();
    let mechanism = |name: &str| {
        let control = controls.iter().find(|it| it["control"] == name).unwrap();
        control["mechanism"].as_str().unwrap().to_owned()
    };
    assert!(mechanism("isolation").starts_with("no namespaces: Landlock "));
    assert!(mechanism("hidden_host").contains("that a name exists"), "what is not held is said");
    assert!(controls.iter().all(|it| it["mechanism"].as_str().is_some_and(|it| !it.is_empty())));
}

#[test]
fn interpreters_run_in_a_private_scratch_directory() {
    if !can_be_built() {
        return;
    }
    let python = "import os, subprocess, sys, tempfile, asyncio, threading
with tempfile.TemporaryDirectory() as made: open(made + '/file', 'w').write('x')
asyncio.run(asyncio.sleep(0))
threading.Thread(target=print, args=('thread',)).start()
print(subprocess.check_output(['cat'], input=b'child').decode())
open('here', 'w').write('x'); print(os.listdir('.'), os.environ['HOME'] == os.environ['TMPDIR'])";
    let mut run = command(&["--quiet", "--language", "python", "-"]);
    run.env("SECRET", "of the caller");
    let run = finish_with(run, python.as_bytes());
    assert_eq!(run.text(), "thread\nchild\n['here'] True\n");
    let shell = "cat <(echo substituted); x=$(mktemp); echo \"$x\" > /dev/null; cd /; exec 3</dev/zero; env";
    let run = finish_with(command(&["--quiet", "--language", "bash", "-"]), shell.as_bytes());
    assert!(run.text().starts_with("substituted\n") && !run.stdout.contains("SECRET"), "{run:?}");
    let node = finish(command(&[
        "--quiet",
        "--",
        "node",
        "-e",
        "require('fs').writeFileSync('x', ''); console.log(1 + 1)",
    ]));
    match node.stderr.contains("no interpreter for javascript was found") {
        true => crate::support::skipped("node", "it is not installed"),
        false => assert_eq!(node.text(), "2\n"),
    }
}
