//! Clauses that the reduced wall enforces, and those that it refuses by name.

use std::path::Path;

use super::{PROGRAMS, can_be_built, patiently, reduced, words};
use crate::support::{Run, binary, finish, is_root, not_run, walls_can_be_built};
use stockade_testing::{Scratch, set_mode};

/// Runs `echo ran` under a policy with this text.
fn with_policy(scratch: &Scratch, text: &str) -> Run {
    let policy = scratch.file("policy.yaml", text);
    let start = ["run", "--provider", "reduced", "--policy", &policy, "--", "echo", "ran"];
    finish(words(&start))
}

fn is_refused(run: &Run, names: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (125, ""), "{}", run.stderr);
    for name in names {
        assert!(run.stderr.contains(name), "{name}: {}", run.stderr);
    }
    assert!(run.stderr.contains("  = "), "{}", run.stderr);
}

#[test]
fn reduced_wall_is_used_only_if_the_policy_accepts_it() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let unasked = finish(words(&["run", "--provider", "reduced", "--", "echo", "ran"]));
    is_refused(&unasked, &["isolation", "the policy wants process", "isolation: reduced"]);
    is_refused(&with_policy(&scratch, "name: p"), &["isolation", "the policy wants process"]);
    // A flag does not lower the isolation floor of a policy.
    let policy = scratch.file("unsaid.yaml", "name: p");
    let lower = ["run", "--isolation", "reduced", "--policy", &policy, "--", "echo", "ran"];
    is_refused(&finish(words(&lower)), &["--isolation reduced would widen the policy"]);
    let both = scratch.file("reduced.yaml", "isolation: reduced");
    let combined =
        ["run", "--provider", "reduced", "--policy", &policy, "--policy", &both, "--", "true"];
    is_refused(&finish(words(&combined)), &["the policy wants process"]);
    assert_eq!(with_policy(&scratch, "isolation: reduced").text(), "ran\n");
}

#[test]
fn policy_that_accepts_the_reduced_wall_gets_a_stronger_one_if_available() {
    if !walls_can_be_built() {
        return;
    }
    let run = words(&["run", "--json", "--isolation", "reduced", "--", "true"]);
    assert_eq!(finish(run).json()["provider"], "native");
}

#[test]
fn each_clause_that_needs_namespaces_is_refused_by_name() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.directory("place");
    for (clause, names) in [
        (
            format!("filesystem: {{ read: [{{ host: {place}, guest: /data }}] }}"),
            ["moved_paths", "/data"],
        ),
        (format!("filesystem: {{ read: [{place}], hide: [{place}/x] }}"), ["hide_paths", "x"]),
        (format!("filesystem: {{ workspace: {{ host: {place} }} }}"), ["workspace_layer", "layer"]),
        ("command_allowlist: [echo]".to_owned(), ["commands", "loader"]),
        ("network_allowlist: [example.org]".to_owned(), ["network_hosts", "network"]),
        ("tool_allowlist: [search]".to_owned(), ["tools", "search"]),
        ("limits: { exact: true }".to_owned(), ["max_disk_mb", "approximated"]),
    ] {
        let run = with_policy(&scratch, &format!("isolation: reduced\n{clause}\n"));
        is_refused(&run, &names);
    }
    is_refused(&reduced(&["--root", &place, "--", "echo", "ran"]), &["--root", "/"]);
}

#[test]
fn writable_mount_over_a_read_only_path_or_the_policy_is_refused() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.directory("place");
    set_mode(Path::new(&place), 0o777);
    let below = format!("{place}/below");
    std::fs::create_dir(&below).unwrap();
    let inner =
        format!("isolation: reduced\nfilesystem: {{ write: [{place}], read: [{below}] }}\n");
    is_refused(&with_policy(&scratch, &inner), &["below", "shows it writable"]);
    let policy = format!("{place}/policy.yaml");
    std::fs::write(&policy, format!("isolation: reduced\nfilesystem: {{ write: [{place}] }}\n"))
        .unwrap();
    let own = ["run", "--provider", "reduced", "--policy", &policy, "--", "echo", "ran"];
    is_refused(&finish(words(&own)), &["decides what the next run may do"]);
}

#[test]
fn workspace_of_the_host_is_the_working_directory_itself() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let place = scratch.directory("place");
    set_mode(Path::new(&place), 0o777);
    std::fs::write(format!("{place}/file"), "content").unwrap();
    let run = |mode: &str| {
        let workspace = format!("{place}:{mode}");
        reduced(&[
            "--quiet",
            "--workspace",
            &workspace,
            "--",
            "sh",
            "-c",
            "pwd; cat file; echo x > new",
        ])
    };
    assert_eq!(run("read").stdout, format!("{place}\ncontent"));
    assert!(!Path::new(&place).join("new").exists());
    assert_eq!(run("write").text(), format!("{place}\ncontent"));
    assert!(Path::new(&place).join("new").exists());
    let nothing = scratch
        .file("n.yaml", "isolation: reduced\nfilesystem: { workspace: { mode: nothing } }\n");
    let start = [
        "run",
        "-q",
        "--provider",
        "reduced",
        "--policy",
        &nothing,
        "--",
        "sh",
        "-c",
        "ls; echo x > new || echo no",
    ];
    assert_eq!(finish(words(&start)).text(), "no\n");
}

#[test]
fn root_gets_an_error_for_paths_that_other_users_cannot_reach() {
    if !can_be_built() {
        return;
    }
    if !is_root() {
        return not_run("only root's sandboxes have a user id of their own");
    }
    let scratch = Scratch::new();
    let place = scratch.directory("place");
    let mount = format!("{place}:{place}:rw");
    is_refused(&reduced(&["--mount", &mount, "--", "true"]), &["others may not change it"]);
    let closed = scratch.directory("closed");
    let below = format!("{closed}/below");
    std::fs::create_dir(&below).unwrap();
    set_mode(Path::new(&closed), 0o700);
    let mount = format!("{below}:{below}");
    is_refused(&reduced(&["--mount", &mount, "--", "true"]), &["others may not enter", "closed"]);
}

#[test]
fn plan_of_the_reduced_wall_names_the_mechanism_of_the_isolation() {
    if !can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("p.yaml", "isolation: reduced\n");
    let plan = |more: &[&str]| {
        let mut command = std::process::Command::new(binary());
        command.args(["policy", "plan", &policy]).args(more).env("PATH", PROGRAMS);
        finish(command)
    };
    let text = patiently(|| plan(&["--provider", "reduced"]));
    assert_eq!(text.code, 0, "{}{}", text.stdout, text.stderr);
    assert!(text.stdout.contains("no namespaces: Landlock"), "{}", text.stdout);
    set_mode(Path::new(&policy), 0o644);
    std::fs::write(&policy, "name: p\n").unwrap();
    assert_ne!(plan(&["--provider", "reduced"]).code, 0);
}
