//! The machine's properties as names and values. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stockade_backends::{HostLook, InterpreterLook, Knobs, Landlock};

use super::kvm::Kvm;
use crate::Problem;
use crate::run::account::Account;

/// One line for each property that affects walls.
pub(super) fn lines(
    host: &HostLook,
    kvm: &Kvm,
    account: &Result<Account, Problem>,
) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push((name.to_owned(), value));
    line("kernel", host.kernel.clone());
    line("user", host.user.to_string());
    for cgroup in &host.cgroups {
        let (version, parent) = (cgroup.version, cgroup.parent.display());
        line(
            &format!("cgroup v{version}, {}", cgroup.controllers.join(" ")),
            format!("below {parent}"),
        );
    }
    for (controller, obstacle) in &host.missing_controllers {
        line(&format!("no cgroup for {controller}"), obstacle.reason.clone());
    }
    let remedies: BTreeSet<&str> =
        host.missing_controllers.values().map(|obstacle| obstacle.remedy.as_str()).collect();
    for remedy in remedies {
        line("", format!("= {remedy}"));
    }
    line("Landlock", landlock(host.landlock));
    let knobs = &host.knobs;
    line("seccomp", seccomp(knobs));
    for (name, value) in &knobs.max_namespaces {
        line(name, value.to_string());
    }
    line("kernel.unprivileged_userns_clone", sysctl(knobs.unprivileged_userns_clone));
    line(
        "kernel.apparmor_restrict_unprivileged_userns",
        sysctl(knobs.apparmor_restrict_unprivileged_userns),
    );
    line("vm.memfd_noexec", sysctl(knobs.memfd_noexec));
    line(
        "container",
        match &knobs.container {
            Some(sign) => format!("yes: {sign}"),
            None => "no sign of one".to_owned(),
        },
    );
    match (&host.sub_ids, &host.no_sub_ids) {
        (_, Some(obstacle)) => {
            line("newuidmap", format!("sandboxes have this user's id: {}", obstacle.reason));
            line("", format!("= {}", obstacle.remedy));
        }
        (Some(ids), None) => {
            let first = ids.first_user;
            line("newuidmap", format!("sandboxes have ids of /etc/subuid, from {first} on"));
        }
        (None, None) => line("newuidmap", "not needed by root".to_owned()),
    }
    match account {
        Ok(Account { name, user, .. }) => {
            line("account for --as-user", format!("{name}, user {user}"));
        }
        Err(problem) => {
            line("account for --as-user", problem.message.clone());
            line("", format!("= {}", problem.remedy));
        }
    }
    line("/dev/kvm", device(kvm));
    for interpreter in &host.interpreters {
        line(&interpreter.language, program(interpreter));
    }
    lines
}

/// The account for `--as-user`, or why it is missing.
pub(super) fn account_view(account: &Result<Account, Problem>) -> Value {
    match account {
        Ok(Account { name, user, group }) => json!({ "name": name, "user": user, "group": group }),
        Err(Problem { message, remedy, .. }) => json!({ "missing": message, "remedy": remedy }),
    }
}

fn landlock(found: Landlock) -> String {
    match found {
        Landlock::Version(version) => format!("version {version}"),
        Landlock::Missing => "not in this kernel".to_owned(),
        Landlock::SwitchedOff => "switched off in this kernel".to_owned(),
        Landlock::Refused(errno) => format!("refused by a system-call filter, error {errno}"),
    }
}

fn seccomp(knobs: &Knobs) -> String {
    let mut text = match knobs.seccomp_filter {
        true => "a filter is over this process".to_owned(),
        false => "no filter is over this process".to_owned(),
    };
    let refused =
        [("clone into namespaces", knobs.clone_refused), ("clone3", knobs.clone3_refused)];
    for (call, errno) in refused {
        if let Some(errno) = errno {
            text.push_str(&format!("; {call} is refused with error {errno}"));
        }
    }
    text
}

fn sysctl(value: Option<u64>) -> String {
    value.map_or_else(|| "not on this kernel".to_owned(), |value| value.to_string())
}

fn device(kvm: &Kvm) -> String {
    match kvm {
        Kvm::Missing => "not there".to_owned(),
        Kvm::RunsGuests => "runs guests".to_owned(),
        Kvm::Failed { step, error } => format!("cannot run a guest; could not {step}: {error}"),
        Kvm::Silent => "cannot run a guest; nothing came back in time".to_owned(),
    }
}

fn program(interpreter: &InterpreterLook) -> String {
    match (&interpreter.program, &interpreter.missing) {
        (Some(program), _) => match &interpreter.version {
            Some(version) => format!("{} ({version})", program.display()),
            None => program.display().to_string(),
        },
        (None, Some(missing)) => format!("none: {}", missing.reason),
        (None, None) => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_failure_names_the_failed_step() {
        assert_eq!(device(&Kvm::Missing), "not there");
        assert_eq!(device(&Kvm::RunsGuests), "runs guests");
        let (step, error) = ("create a virtual machine".to_owned(), "No such device".to_owned());
        assert_eq!(
            device(&Kvm::Failed { step, error }),
            "cannot run a guest; could not create a virtual machine: No such device"
        );
        assert!(device(&Kvm::Silent).contains("nothing came back"));
    }

    #[test]
    fn seccomp_filter_is_shown_with_the_calls_it_refuses() {
        let none = seccomp(&Knobs::default());
        assert_eq!(none, "no filter is over this process");
        let knobs = Knobs { seccomp_filter: true, clone_refused: Some(1), ..Knobs::default() };
        assert_eq!(
            seccomp(&knobs),
            "a filter is over this process; clone into namespaces is refused with error 1"
        );
    }
}
