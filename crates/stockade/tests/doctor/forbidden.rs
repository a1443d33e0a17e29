//! Hosts with a missing feature, each emulated for a single command.

use std::process::Command;

use libc::{ENOSYS, EPERM};
use serde_json::Value;
use stockade_testing::skipped;

use crate::leftovers::{Host, walls_can_be_built};
use crate::refusing::{Refused, finish};
use crate::support::{
    NOBODY, Scratch, Words, control, doctor, doctor_here, error, json, native, patiently, quiet,
    refusals, stockade, words,
};

const NEW_USER: u32 = libc::CLONE_NEWUSER as u32;

/// The calls that container engines refuse by default.
const NAMESPACES: [Refused; 2] = [
    Refused { call: libc::SYS_clone, when: &[(0, NEW_USER, NEW_USER)], errno: EPERM },
    Refused { call: libc::SYS_clone3, when: &[], errno: ENOSYS },
];

const LANDLOCK: [Refused; 1] =
    [Refused { call: libc::SYS_landlock_create_ruleset, when: &[], errno: ENOSYS }];

/// A kernel without nftables refuses netfilter sockets.
const NFTABLES: [Refused; 1] = [Refused {
    call: libc::SYS_socket,
    when: &[(0, u32::MAX, libc::AF_NETLINK as u32), (2, u32::MAX, libc::NETLINK_NETFILTER as u32)],
    errno: libc::EPROTONOSUPPORT,
}];

/// unshare(1), as a user other than root.
fn unshare() -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new("unshare");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "unshare"]);
    command
}

/// The binary in its own user namespace, after a shell command with all capabilities there.
fn in_namespace(scratch: &Scratch, before: &str, arguments: &[&str]) -> Command {
    let script = format!("{before}exec \"$@\"");
    let mut command = unshare();
    command.args(["--map-current-user", "--keep-caps", "sh", "-c", &script, "sh"]);
    command.arg(scratch.binary()).args(arguments);
    quiet(command)
}

/// The answers and exit codes of `doctor`, `plan` and `run`.
struct Said {
    doctor: Value,
    codes: [Option<i32>; 3],
    words: [Words; 3],
}

fn ask(policy: &str, ask: impl Fn(&[&str]) -> (Option<i32>, Value)) -> Said {
    let (doctor_code, doctor) = doctor(&ask);
    let plan = ["policy", "plan", policy, "--provider", "native", "--json"];
    let (plan_code, plan) = patiently(|| ask(&plan));
    let (run_code, run) =
        ask(&["run", "--json", "--no-record", "--provider", "native", "--", "true"]);
    let plans = refusals(&plan);
    assert_eq!(plans.len(), 1, "one cause has one reason: {plan}");
    let words = [words(&native(&doctor)["obstacle"]), plans[0].clone(), error(&run)];
    Said { doctor, codes: [doctor_code, plan_code, run_code], words }
}

impl Said {
    /// Asserts that all three refuse the native wall with the same reason and remedy.
    fn is_refusal_by(&self, reason: &str, remedy: &str) {
        assert_eq!(self.codes[1..], [Some(125); 2]);
        // Without namespaces the reduced wall may remain, which policies must ask for.
        let others = match self.doctor["can_run"].as_array().map_or(&[][..], Vec::as_slice) {
            [] => Some(125),
            [only] if only["provider"] == "reduced" => Some(0),
            other => panic!("{other:?}"),
        };
        assert_eq!(self.codes[0], others);
        assert_eq!(self.words[0], self.words[1], "doctor and plan");
        assert_eq!(self.words[0], self.words[2], "doctor and run");
        assert!(self.words[0].0.contains(reason), "{:?}", self.words[0]);
        assert!(self.words[0].1.contains(remedy), "{:?}", self.words[0]);
    }
}

#[test]
fn doctor_plan_and_run_agree_on_forbidden_user_namespaces() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.policy("{}\n");
    let run = ["run", "--no-record", "--provider", "native", "--", "true"];
    let without = finish(in_namespace(&scratch, "", &run));
    if without.code != Some(0) {
        return skipped("namespaces", &format!("one within another: {}", without.stderr));
    }
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && ";
    let said = ask(&policy, |words| json(in_namespace(&scratch, forbid, words), &[]));
    said.is_refusal_by(
        "user namespaces are forbidden by the sysctl user.max_user_namespaces, which is 0",
        "`sysctl -w user.max_user_namespaces=15000`",
    );
    let text = finish(in_namespace(&scratch, forbid, &["doctor"])).stdout;
    let mut lines = text.lines();
    match said.codes[0] {
        Some(0) => {
            let reduced = "You can run: reduced, for policies that say `isolation: reduced`";
            assert_eq!(lines.next(), Some(reduced));
            assert_eq!(lines.next(), Some("You cannot run: native"));
        }
        _ => assert_eq!(lines.next(), Some("You can run: nothing")),
    }
    assert_eq!(lines.next(), Some(format!("  because {}", said.words[0].0).as_str()));
    assert_eq!(lines.next(), Some(format!("        = {}", said.words[0].1).as_str()));
}

#[test]
fn doctor_plan_and_run_agree_on_a_filter_that_refuses_namespaces() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.policy("{}\n");
    let said = ask(&policy, |words| json(stockade(words), &NAMESPACES));
    said.is_refusal_by("seccomp", "allow");
    let knobs = &said.doctor["machine"]["host"]["knobs"];
    assert_eq!(knobs["clone_refused"], EPERM);
    assert_eq!(knobs["seccomp_filter"], true);
    let whose = match knobs["container"].is_null() {
        true => "over the process that started Stockade",
        false => "this container's seccomp profile",
    };
    assert!(said.words[0].0.contains(whose), "{:?}", said.words[0]);
}

#[test]
fn root_of_a_small_user_namespace_gets_the_reason() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.policy("{}\n");
    let within = |arguments: &[&str]| {
        let mut command = unshare();
        command.arg("--map-root-user").arg(scratch.binary()).args(arguments);
        json(quiet(command), &[])
    };
    let said = ask(&policy, within);
    said.is_refusal_by("root has only one user id here", "outside of this user namespace");
}

#[test]
fn doctor_and_plan_agree_that_commands_need_landlock() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.policy("command_allowlist: [ls]\n");
    let plan = ["policy", "plan", &policy, "--provider", "native", "--json"];
    let (_, with) = doctor_here();
    if control(&with, "commands")["enforced"].is_null() {
        return skipped("landlock", "this kernel has none to take away");
    }
    assert_eq!(json(stockade(&plan), &[]).0, Some(0), "with Landlock the list is held");

    let (code, doctor) = doctor(|words| json(stockade(words), &LANDLOCK));
    assert_eq!(code, Some(0), "the wall itself can be run: {doctor}");
    assert_eq!(doctor["can_run"][0]["full_strength"], false);
    let missing = doctor["can_run"][0]["missing"].as_array().expect("a list");
    assert!(missing.contains(&"commands".into()), "{missing:?}");
    assert_eq!(doctor["machine"]["host"]["landlock"], "missing");
    let said = words(&control(&doctor, "commands")["missing"]);
    assert!(said.0.contains("Landlock") && said.0.contains("this kernel has none"), "{said:?}");
    let (code, plan) = json(stockade(&plan), &LANDLOCK);
    assert_eq!((code, refusals(&plan)), (Some(125), vec![said]));
}

#[test]
fn kernel_without_nftables_lacks_only_egress_and_has_a_remedy() {
    let _alone = Host::alone();
    if !walls_can_be_built() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.policy("network_allowlist: [example.org]\n");
    let plan = ["policy", "plan", &policy, "--provider", "native", "--json"];
    let (_, doctor) = json(stockade(&["doctor", "--json"]), &[]);
    if control(&doctor, "network_hosts")["enforced"].is_null() {
        return skipped("namespaces", "this kernel has no nftables to take away");
    }
    assert_eq!(json(stockade(&plan), &[]).0, Some(0), "with it the same policy is held");
    let (code, doctor) = json(stockade(&["doctor", "--json"]), &NFTABLES);
    assert_eq!((code, native(&doctor)["usable"].as_bool()), (Some(0), Some(true)));
    let missing = words(&control(&doctor, "network_hosts")["missing"]);
    assert!(missing.0.contains("no nftables"), "{missing:?}");
    assert!(missing.1.contains("modprobe"), "{missing:?}");
    let (code, planned) = json(stockade(&plan), &NFTABLES);
    assert_eq!((code, refusals(&planned)), (Some(125), vec![missing]));
    let (code, run) =
        json(stockade(&["run", "--json", "--provider", "native", "--", "true"]), &NFTABLES);
    assert_eq!(code, Some(0), "what asks for no network runs all the same: {run}");
}
