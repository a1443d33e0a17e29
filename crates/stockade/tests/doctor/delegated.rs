//! An ordinary user with delegated cgroups.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use stockade_testing::{not_run, skipped};

use crate::leftovers::{Host, walls_can_be_built};
use crate::support::{Scratch, control, doctor, doctor_here, json, quiet, refusals};

const NOBODY: u32 = 65_534;

/// Cgroups that belong to another user, removed on drop.
struct Delegated(Vec<PathBuf>);

impl Delegated {
    /// Creates a group in each parent of this host's sandbox groups.
    fn new() -> Delegated {
        let (_, doctor) = doctor_here();
        let cgroups = doctor["machine"]["host"]["cgroups"].as_array().expect("a list").clone();
        let mut groups = Delegated(Vec::new());
        for cgroup in
            cgroups.iter().filter(|it| it["controllers"] != serde_json::json!(["devices"]))
        {
            let parent = cgroup["parent"].as_str().expect("a path");
            let group = Path::new(parent).join(format!("doctor-{}", std::process::id()));
            fs::create_dir(&group).expect("root can make groups");
            groups.0.push(group.clone());
            chown(&group, Some(NOBODY), Some(NOBODY)).expect("root can give groups away");
            for file in ["cgroup.procs", "tasks", "cgroup.subtree_control"] {
                // Each cgroup version has only two of these files.
                let _ = chown(group.join(file), Some(NOBODY), Some(NOBODY));
            }
        }
        groups
    }

    /// A `stockade` command as that user, in those groups.
    fn stockade(&self, scratch: &Scratch, arguments: &[&str]) -> Command {
        let enter: String = self
            .0
            .iter()
            .map(|group| format!("echo 0 > '{}/cgroup.procs' && ", group.display()))
            .collect();
        let script =
            format!("{enter}exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(scratch.binary()).args(arguments);
        quiet(command)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        for group in &self.0 {
            // A group in use stays; the next run uses another name.
            let _ = fs::remove_dir(group);
        }
    }
}

#[test]
fn delegated_cgroups_hold_limits_exactly_for_an_ordinary_user() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("only root can give cgroups away");
    }
    let scratch = Scratch::new();
    let memory = |doctor: &Value| control(doctor, "max_memory_mb")["enforced"]["precision"].clone();
    let (_, as_root) = doctor_here();
    if memory(&as_root) != "exact" {
        return skipped("cgroup", "memory is not held by a cgroup here");
    }
    let (_, without) = doctor(|words| {
        let mut plain = Command::new(scratch.binary());
        plain.args(words).uid(NOBODY).gid(NOBODY);
        json(quiet(plain), &[])
    });
    assert_eq!(memory(&without), "approximate", "without delegation: {without}");

    let delegated = Delegated::new();
    let (code, with) = doctor(|words| json(delegated.stockade(&scratch, words), &[]));
    assert_eq!((code, memory(&with)), (Some(0), "exact".into()), "{with}");
    let policy = scratch.policy("limits:\n  exact: true\n");
    let plan = ["policy", "plan", &policy, "--provider", "native", "--json"];
    let (code, planned) = json(delegated.stockade(&scratch, &plan), &[]);
    assert_eq!((code, refusals(&planned)), (Some(0), Vec::new()), "{planned}");
    let hungry = [
        "run",
        "--json",
        "--no-record",
        "--memory",
        "64m",
        "--",
        "sh",
        "-c",
        "head -c 200m /dev/zero | tail",
    ];
    let (_, report) = json(delegated.stockade(&scratch, &hungry), &[]);
    let held = report["isolation"]["controls"].as_array().expect("controls are a list");
    let memory_held =
        held.iter().find(|held| held["control"] == "max_memory_mb").expect("it is held");
    assert_eq!(memory_held["precision"], "exact", "{report}");
    assert_ne!(report["exit_code"], 0, "{report}");
    let peak = report["usage"]["memory_peak_bytes"].as_u64().expect("a cgroup counts");
    assert!(peak <= 64 << 20, "{peak}");
}
