//! `--as-user`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::support::{
    Conversation, Run, binary, command, not_run, outside, report, skipped, stockade,
    walls_can_be_built,
};
use stockade_testing::{Scratch, set_mode};

/// An account that every host has, without a login shell.
const NOBODY: &str = "nobody";
const ID: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the tests run as root: only root can become another user.
fn only_root() -> bool {
    if !is_root() {
        not_run("only root can become another user");
    }
    is_root() && walls_can_be_built()
}

#[test]
fn missing_or_root_account_is_refused_with_the_command_that_creates_one() {
    let run = stockade(&["--as-user", "stockade-nowhere", "--", "true"]);
    assert_eq!(run.code, 125);
    let create = "adduser --system --group --no-create-home --shell /usr/sbin/nologin \
                  stockade-nowhere`";
    assert!(run.stderr.contains("there is no such account"), "{}", run.stderr);
    assert!(run.stderr.contains(create), "{}", run.stderr);
    let run = stockade(&["--as-user", "root", "--", "true"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("rights of root"), "{}", run.stderr);
    assert!(run.stderr.contains("nologin stockade`"), "{}", run.stderr);
}

#[test]
fn only_root_can_become_another_account() {
    if is_root() {
        not_run("root can become any account");
        return;
    }
    let run = stockade(&["--as-user", "daemon", "--", "true"]);
    assert_eq!(run.code, 125);
    assert!(run.stderr.contains("only root can become another user"), "{}", run.stderr);
    if rustix::process::geteuid().as_raw() == ID && walls_can_be_built() {
        assert_eq!(
            stockade(&["--as-user", NOBODY, "--no-record", "--", "echo", "ran"]).text(),
            "ran\n"
        );
    }
}

/// The `/proc/PID/status` of a process and of all its descendants.
fn family(process: u32) -> Vec<String> {
    let directory = format!("/proc/{process}");
    let Ok(status) = std::fs::read_to_string(format!("{directory}/status")) else {
        return Vec::new();
    };
    let mut family = vec![status];
    for task in std::fs::read_dir(format!("{directory}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            family.extend(family_of(child));
        }
    }
    family
}

fn family_of(process: &str) -> Vec<String> {
    process.parse().map(family).unwrap_or_default()
}

#[test]
fn supervisor_launcher_and_program_have_the_account_ids_and_no_capabilities() {
    if !only_root() {
        return;
    }
    let words = ["--no-record", "--", "sh", "-c", "cat /proc/self/uid_map; read line"];
    let mut as_root = Conversation::start(command(&words));
    assert!(!as_root.hear().split_whitespace().any(|id| id == "65534"), "root has other ids");
    assert!(as_root.0.id() > 0 && family(as_root.0.id())[0].contains("Uid:\t0\t0\t0\t0"));
    assert_eq!(as_root.end(), 1);
    let mut as_account = command(&[&["--as-user", NOBODY], &words[..]].concat());
    as_account.env("SUDO_USER", "canary");
    let mut run = Conversation::start(as_account);
    let map = run.hear();
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["1000", "65534", "1"]);
    let environment =
        std::fs::read(format!("/proc/{}/environ", run.0.id())).expect("root reads it");
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let own = ["HOME=/var/lib/stockade/nobody", "USER=nobody"];
    assert!(own.iter().all(|own| environment.split('\0').any(|it| it == *own)), "{environment}");
    assert!(!environment.contains("SUDO_USER"), "{environment}");
    let family = family(run.0.id());
    assert!(family.len() >= 4, "supervisor, launcher, guest and shell: {}", family.len());
    for status in &family {
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("it is there");
            line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
        };
        let ids = format!("{ID} {ID} {ID} {ID}");
        assert_eq!((field("Uid:"), field("Gid:")), (ids.clone(), ids), "{status}");
        assert_eq!(field("Groups:"), "", "{status}");
        assert_eq!(field("CapEff:"), "0000000000000000", "{status}");
        assert_eq!(field("CapPrm:"), "0000000000000000", "{status}");
    }
    assert_eq!(run.end(), 1);
}

/// `stockade run` with something of root's: a variable, a capability and, as 7, an open file.
fn with_a_secret_of_root(file: &str, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.env("SECRET_TOKEN", "canary").env("LC_CANARY", "passed");
    command.args(["--inh-caps", "+net_raw", "sh", "-c", "exec \"$@\" 7<\"$0\"", file]);
    command.arg(binary()).args(["run", "--no-record"]).args(words);
    command
}

/// Which of them a process has.
fn secrets_of(process: u32, file: &str) -> Vec<&'static str> {
    let of = |name: &str| std::path::PathBuf::from(format!("/proc/{process}/{name}"));
    let environment = std::fs::read(of("environ")).expect("root reads it");
    let has_variable = String::from_utf8_lossy(&environment).contains("SECRET_TOKEN=canary");
    let mut descriptors = std::fs::read_dir(of("fd")).expect("root lists them");
    let has_file = descriptors.any(|it| {
        let path = it.expect("root lists them").path();
        std::fs::read_link(path).is_ok_and(|target| target == Path::new(file))
    });
    let status = std::fs::read_to_string(of("status")).expect("root reads it");
    let has_capability = !status.contains("CapInh:\t0000000000000000\n");
    [(has_variable, "variable"), (has_file, "descriptor"), (has_capability, "capability")]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
}

#[test]
fn variable_descriptor_and_capability_of_root_do_not_reach_the_account() {
    if !only_root() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("secret", "s\n");
    set_mode(Path::new(&file), 0o600);
    let program = ["--", "sh", "-c", "echo ready; read line"];
    let mut as_root = Conversation::start(with_a_secret_of_root(&file, &program));
    assert_eq!(as_root.hear(), "ready");
    assert_eq!(secrets_of(as_root.0.id(), &file), ["variable", "descriptor", "capability"]);
    assert_eq!(as_root.end(), 1);
    let words = [&["--as-user", NOBODY], &program[..]].concat();
    let mut run = Conversation::start(with_a_secret_of_root(&file, &words));
    assert_eq!(run.hear(), "ready");
    assert_eq!(secrets_of(run.0.id(), &file), [""; 0]);
    let environment = std::fs::read(format!("/proc/{}/environ", run.0.id())).expect("root may");
    assert!(String::from_utf8_lossy(&environment).contains("LC_CANARY=passed"));
    assert_eq!(run.end(), 1);
}

#[test]
fn variable_and_descriptor_that_arguments_name_reach_the_account() {
    if !only_root() {
        return;
    }
    let scratch = Scratch::new();
    let policy = scratch.file("policy.yaml", "{}\n");
    set_mode(Path::new(&policy), 0o644);
    let words = ["--as-user", NOBODY, "--policy", "/dev/fd/7", "--env", "CANARY", "--", "sh", "-c"];
    let mut command = with_a_secret_of_root(&policy, &words);
    command.env("CANARY", "passed").arg("echo $CANARY; read line");
    let mut run = Conversation::start(command);
    assert_eq!(run.hear(), "passed");
    assert_eq!(secrets_of(run.0.id(), &policy), ["descriptor"]);
    assert_eq!(run.end(), 1);
}

#[test]
fn other_processes_of_the_account_cannot_look_into_its_supervisor() {
    if !only_root() {
        return;
    }
    let by_account = |script: &str| {
        let ids = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
        outside(&[&ids[..], &["--inh-caps=-all", "sh", "-c", script]].concat())
    };
    let look = |process: &str| {
        by_account(&format!("cat /proc/{process}/environ && readlink /proc/{process}/cwd; exit $?"))
    };
    assert_eq!(look("$$").code, 0, "the account can look into its ordinary processes");
    let words = ["--as-user", NOBODY, "--no-record", "--", "sh", "-c", "echo ready; read line"];
    let mut run = Conversation::start(command(&words));
    assert_eq!(run.hear(), "ready");
    let looked = look(&run.0.id().to_string());
    assert!(looked.code != 0 && looked.stdout.is_empty(), "the account looked into it");
    assert!(looked.stderr.contains("Permission denied"), "{}", looked.stderr);
    assert_eq!(run.end(), 1);
}

#[test]
fn working_directory_that_the_account_cannot_enter_is_refused() {
    if !only_root() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o700);
    let here = |words: &[&str]| {
        let mut command = command(&[&["--no-record"], words, &["--", "echo", "ran"]].concat());
        command.current_dir(scratch.path());
        stockade_testing::finish(command)
    };
    assert_eq!(here(&[]).text(), "ran\n", "root can enter it");
    let refused = here(&["--as-user", NOBODY]);
    let why = format!("cannot enter the working directory {}", scratch.path().display());
    assert!(refused.code == 125 && refused.stderr.contains(&why), "{}", refused.stderr);
    assert!(refused.stderr.contains("change to a directory"), "{}", refused.stderr);
    set_mode(scratch.path(), 0o755);
    assert_eq!(here(&["--as-user", NOBODY]).text(), "ran\n");
}

#[test]
fn policy_and_mounts_are_opened_with_the_rights_of_the_account() {
    if !only_root() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o755);
    let policy = scratch.file("policy.yaml", "{}\n");
    let secret = scratch.file("secret", "s\n");
    set_mode(Path::new(&policy), 0o600);
    let as_root = stockade(&["--no-record", "--policy", &policy, "--", "echo", "ran"]);
    assert_eq!(as_root.text(), "ran\n");
    let words = ["--as-user", NOBODY, "--no-record"];
    let run = stockade(&[&words[..], &["--policy", &policy, "--", "true"]].concat());
    assert!(run.code == 125 && run.stderr.contains("ermission denied"), "{}", run.stderr);
    set_mode(Path::new(&secret), 0o600);
    let mount = format!("{secret}:/data/secret");
    let read = ["--mount", &mount, "--", "cat", "/data/secret"];
    assert_eq!(stockade(&[&["--no-record"], &read[..]].concat()).text(), "s\n");
    let run = stockade(&[&words[..], &read[..]].concat());
    assert!(run.code != 0 && !run.stdout.contains('s'), "{}", run.stdout);
}

#[test]
fn record_of_an_account_is_kept_in_its_own_directory() {
    if !only_root() {
        return;
    }
    let words = ["--as-user", NOBODY, "--", "true"];
    let (code, report) = report(&words);
    assert_eq!(code, 0, "{report}");
    let record = report["record"].as_str().expect("a record is kept");
    assert!(record.starts_with("/var/lib/stockade/nobody/"), "{record}");
    let file = std::fs::metadata(record).expect("the record is there");
    assert_eq!((file.uid(), file.gid()), (ID, ID));
    let directory = std::fs::metadata("/var/lib/stockade/nobody").expect("it was made");
    assert_eq!((directory.uid(), directory.mode() & 0o777), (ID, 0o700));
    std::fs::remove_file(record).expect("root may remove it");
}

/// Runs `stockade run` as the user nobody with an extra group, with or without sub-ids.
fn as_nobody(sub_ids: bool, words: &[&str]) -> Run {
    let scratch = Scratch::new();
    let users = scratch.file("subuid", "nobody:200000:65536\n");
    let groups = scratch.file("subgid", "nobody:300000:65536\n");
    let bind = match sub_ids {
        true => "mount --bind $1 /etc/subuid && mount --bind $2 /etc/subgid && ",
        false => "",
    };
    let script = format!(
        "{bind}shift 2 && exec setpriv --reuid 65534 --regid 65534 --groups 65534,100 \
         --inh-caps=-all -- \"$@\""
    );
    let stockade = binary();
    let stockade = stockade.to_str().expect("paths are text");
    let start = ["unshare", "--mount", "sh", "-c", &script, "sh", &users, &groups, stockade];
    outside(&[&start[..], &["run", "--no-record"], words].concat())
}

/// Whether newuidmap is installed and the tests run as root, which can act as a user with sub-ids.
fn can_give_sub_ids() -> bool {
    if !Path::new("/usr/bin/newuidmap").exists() {
        skipped("uidmap", "newuidmap is not installed (apt install uidmap)");
        return false;
    }
    only_root()
}

const IDS: &str =
    "cat /proc/self/uid_map /proc/self/gid_map; grep Groups: /proc/self/status; id -u";

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn code_of_a_user_with_sub_ids_runs_under_those_ids() {
    if !can_give_sub_ids() {
        return;
    }
    let run = as_nobody(false, &["--", "sh", "-c", IDS]);
    let own = ["1000", "65534", "1", "1000", "65534", "1", "Groups:", "65534", "1000", "1000"];
    assert_eq!(words(run.text()), own, "without them");
    let run = as_nobody(true, &["--", "sh", "-c", IDS]);
    let other = ["0", "200000", "65536", "0", "300000", "65536", "Groups:", "1000"];
    assert_eq!(words(run.text()), other);
    let report = as_nobody(true, &["--json", "--", "true"]).json();
    let controls = report["isolation"]["controls"].as_array().expect("controls are listed");
    assert!(
        controls.iter().any(|it| it["mechanism"].to_string().contains("/etc/subuid")),
        "{report}"
    );
}

#[test]
fn user_with_sub_ids_owns_files_written_to_its_workspace() {
    if !can_give_sub_ids() {
        return;
    }
    let scratch = Scratch::new();
    set_mode(scratch.path(), 0o755);
    let directory = scratch.path().join("out");
    std::fs::create_dir(&directory).expect("a directory can be made");
    std::os::unix::fs::chown(&directory, Some(ID), Some(ID)).expect("root may");
    let workspace = format!("{}:write", directory.display());
    let script = format!("{IDS}; echo x > written");
    let run = as_nobody(true, &["--workspace", &workspace, "--", "sh", "-c", &script]);
    assert_eq!(words(run.text())[..3], ["1000", "65534", "1"]);
    let written = std::fs::metadata(directory.join("written")).expect("it was written");
    assert_eq!((written.uid(), written.gid()), (ID, ID));
}

#[test]
fn timeout_ends_code_with_sub_ids() {
    if !can_give_sub_ids() {
        return;
    }
    let run = as_nobody(true, &["--timeout", "1s", "--", "sh", "-c", "sleep 3133 & sleep 3133"]);
    assert_eq!(run.code, 124, "{}", run.stderr);
    let is_there = || crate::support::processes().iter().any(|line| line.contains("sleep 3133"));
    assert!(crate::support::within(std::time::Duration::from_secs(5), || !is_there()));
    assert_eq!(as_nobody(true, &["--", "python3", "-c", "print(1)"]).text(), "1\n");
}
