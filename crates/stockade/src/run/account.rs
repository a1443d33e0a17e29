//! `--as-user`: runs as another account.
//!
//! ```text
//! root ── account is suitable ──▶ exec of this program as the account ── checked ──▶ the run
//!   └──── it is not ──▶ refused          any other user ──▶ refused
//! ```
//! Becoming another user by executing this program anew leaves nothing of root: no id, no group, no
//! capability, and only the descriptors and variables that the arguments name. The second process
//! checks its ids and capabilities before it goes on.

mod inherited;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{DumpableBehavior, Gid, Uid};

use crate::{Problem, load};

pub(crate) use inherited::Named;

/// The account name that the packages create for runs.
pub(crate) const ORDINARY: &str = "stockade";

/// The parent of each account's directory for records.
const STATE: &str = "/var/lib/stockade";

/// Shells that prevent a login.
const NO_SHELL: [&str; 2] = ["nologin", "false"];

/// An account that runs can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Goes on as the account, or refuses. As root it comes back only with a refusal: this program is
/// executed anew, with the same arguments, by the account.
pub(super) fn become_account(name: &str, named: &Named<'_>) -> anyhow::Result<()> {
    let account = Account::look(name)?;
    let user = rustix::process::geteuid();
    if user.is_root() {
        return Err(execute_as(&account, named, &load::here()?).into());
    }
    if user.as_raw() != account.user {
        let message = format!(
            "--as-user {name}: only root can become another user, and this is user {}",
            user.as_raw()
        );
        let remedy = "run it as root, with sudo, or leave --as-user out";
        return Err(Problem::new(message, remedy).into());
    }
    Ok(check_only(&account)?)
}

impl Account {
    /// Looks up an account and checks that it can execute runs.
    pub(crate) fn look(name: &str) -> Result<Account, Problem> {
        let accounts = std::fs::read_to_string("/etc/passwd").map_err(|error| {
            let message = format!("--as-user {name}: cannot read /etc/passwd: {error}");
            Problem::new(message, "see that it is there and readable")
        })?;
        Account::find(name, &accounts)
    }

    /// The account of a name in the text of `/etc/passwd`, passwd(5). Pure.
    fn find(name: &str, accounts: &str) -> Result<Account, Problem> {
        let refused = |why: &str, remedy: String| {
            Err(Problem::new(format!("--as-user {name}: {why}"), remedy))
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = name.bytes().all(is_plain) && !name.starts_with('-') && !name.is_empty();
        if !is_name || name.len() > 32 {
            let remedy = "name an account by letters, digits, `_`, `-` and `.`".to_owned();
            return refused("not the name of an account", remedy);
        }
        let fields: Vec<Vec<&str>> =
            accounts.lines().map(|line| line.split(':').collect()).collect();
        let named: Vec<&Vec<&str>> = fields.iter().filter(|line| line[0] == name).collect();
        let [[_, _, user, group, _, _, shell]] =
            named.iter().map(|line| line.as_slice()).collect::<Vec<_>>()[..]
        else {
            return match named.is_empty() {
                true => refused("there is no such account", creating(name)),
                false => {
                    refused("/etc/passwd has no one clear line for it", "correct it".to_owned())
                }
            };
        };
        let (Ok(user), Ok(group)) = (user.parse::<u32>(), group.parse::<u32>()) else {
            return refused("its ids in /etc/passwd are not numbers", "correct them".to_owned());
        };
        if user == 0 || group == 0 {
            let remedy = format!("name one of its own: {}", creating(ORDINARY));
            return refused("it has the rights of root", remedy);
        }
        let is_closed = NO_SHELL.iter().any(|closed| shell.rsplit('/').next() == Some(closed));
        if !is_closed {
            let remedy = format!(
                "use an account of its own, or close this one with `usermod --shell \
                 /usr/sbin/nologin {name}`"
            );
            return refused("a person can log in to it, so it has more to lose than a run", remedy);
        }
        Ok(Account { name: name.to_owned(), user, group })
    }

    /// Creates the directory for its records, which only the account may enter. The account cannot
    /// change any parent of it.
    fn make_state(&self) -> io::Result<PathBuf> {
        let above = Path::new(STATE);
        let make = |path: &Path, mode: u32| match std::fs::DirBuilder::new().mode(mode).create(path)
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        };
        make(above, 0o755)?;
        let found = above.symlink_metadata()?;
        if !found.is_dir() || found.uid() != 0 || found.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!("{STATE} can be changed by others than root")));
        }
        let own = above.join(&self.name);
        make(&own, 0o700)?;
        let found = own.symlink_metadata()?;
        match found.uid() {
            _ if !found.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
            0 => lchown(&own, Some(self.user), Some(self.group)).map(|()| own),
            user if user == self.user => Ok(own),
            _ => Err(io::Error::other(format!("{} is another user's", own.display()))),
        }
    }
}

/// The command that creates a suitable account.
fn creating(name: &str) -> String {
    format!(
        "create it with `adduser --system --group --no-create-home --shell /usr/sbin/nologin {name}`"
    )
}

/// Executes this program as the account; comes back only if that failed.
fn execute_as(account: &Account, named: &Named<'_>, here: &Path) -> Problem {
    let name = &account.name;
    let state = match account.make_state() {
        Ok(state) => state,
        Err(error) => {
            let message =
                format!("--as-user {name}: cannot make {STATE}/{name} for its records: {error}");
            return Problem::new(message, "see that /var/lib is writable and the path is free");
        }
    };
    if let Err(error) =
        named.close_other_descriptors().and_then(|()| inherited::clear_inheritable())
    {
        let message = format!(
            "--as-user {name}: cannot keep root's descriptors and capabilities from it: {error}"
        );
        return Problem::new(message, "see that no seccomp filter forbids close_range and capset");
    }
    let own: [(&str, &OsStr); 4] = [
        ("HOME", state.as_os_str()),
        ("XDG_STATE_HOME", state.as_os_str()),
        ("USER", name.as_ref()),
        ("LOGNAME", name.as_ref()),
    ];
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(words.next().unwrap_or_else(|| OsString::from("stockade")))
        .args(words)
        .env_clear()
        .envs(named.environment(std::env::vars_os()))
        .envs(own);
    // The directory is entered after the ids are changed. Changing the user as root empties the
    // list of further groups too, std::os::unix::process.
    let error = command.gid(account.group).uid(account.user).current_dir(here).exec();
    if let Err(error) = std::env::set_current_dir(here) {
        let message = format!(
            "--as-user {name}: the account cannot enter the working directory {}: {error}",
            here.display()
        );
        return Problem::new(message, "change to a directory that it can enter, as with `cd /`");
    }
    let message = format!("--as-user {name}: cannot execute this program as that account: {error}");
    Problem::new(message, "see that others may execute it, as in /usr/bin")
}

/// Refuses to go on with anything but the account's own ids: no root to go back to, no groups, no
/// capabilities. Other processes of the account can then take nothing from this one.
fn check_only(account: &Account) -> Result<(), Problem> {
    let has_more = |what: String| {
        let message = format!("--as-user {}: this process {what}", account.name);
        Problem::new(message, "start it as root, which becomes the account by itself")
    };
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| has_more(format!("cannot be closed to others: {error}")))?;
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| has_more(format!("cannot be looked at: {error}")))?;
    if let Some(more) = beyond(account, &status) {
        return Err(has_more(format!("has more than the account: {more}")));
    }
    // A user namespace or a kernel module could give the ids another meaning: tries to regain root.
    let regained = rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok()
        || rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).is_ok();
    if regained {
        return Err(has_more("could become root again".to_owned()));
    }
    Ok(())
}

/// The first line of `/proc/self/status` that shows more rights than the account's, proc(5). Pure.
fn beyond(account: &Account, status: &str) -> Option<String> {
    let ids = |id: u32| format!("{id} {id} {id} {id}");
    let none = "0000000000000000".to_owned();
    let expected = [
        ("Uid:", ids(account.user)),
        ("Gid:", ids(account.group)),
        ("Groups:", String::new()),
        ("CapInh:", none.clone()),
        ("CapPrm:", none.clone()),
        ("CapEff:", none.clone()),
        ("CapAmb:", none),
    ];
    expected.iter().find_map(|(name, value)| {
        let Some(line) = status.lines().find(|line| line.starts_with(name)) else {
            return Some(format!("there is no line {name}"));
        };
        let found: Vec<&str> = line.split_whitespace().skip(1).collect();
        // The kernel lists the account's own group if setgroups(2) was called with it.
        let is_own_group =
            *name == "Groups:" && found.iter().all(|it| *it == account.group.to_string());
        (found.join(" ") != *value && !is_own_group).then(|| line.replace('\t', " "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\n\
                            stockade:x:998:997::/nonexistent:/usr/sbin/nologin\n\
                            old:x:12:13::/:/bin/false\n\
                            toor:x:0:5::/:/usr/sbin/nologin\n\
                            wheel:x:7:0::/:/usr/sbin/nologin\n\
                            me:x:1000:1000:Me:/home/me:/bin/bash\n\
                            empty:x:1001:1001::/home/empty:\n\
                            twice:x:5:5::/:/bin/false\n\
                            twice:x:0:0::/:/bin/false\n\
                            short:x:5:5\n\
                            words:x:five:5::/:/bin/false\n";

    #[test]
    fn system_account_without_a_shell_is_found() {
        let account = |name: &str, user, group| Account { name: name.to_owned(), user, group };
        assert_eq!(Account::find("stockade", ACCOUNTS).unwrap(), account("stockade", 998, 997));
        assert_eq!(Account::find("old", ACCOUNTS).unwrap(), account("old", 12, 13));
    }

    #[test]
    fn missing_account_error_has_the_command_that_creates_it() {
        let problem = Account::find("agents", ACCOUNTS).unwrap_err();
        assert_eq!(problem.message, "--as-user agents: there is no such account");
        let expected = "create it with `adduser --system --group --no-create-home --shell \
                        /usr/sbin/nologin agents`";
        assert_eq!(problem.remedy, expected);
    }

    #[test]
    fn account_with_the_rights_of_root_or_a_login_is_refused() {
        for (name, why) in [
            ("root", "rights of root"),
            ("toor", "rights of root"),
            ("wheel", "rights of root"),
            ("me", "log in"),
            ("empty", "log in"),
            ("twice", "no one clear line"),
            ("short", "no one clear line"),
            ("words", "not numbers"),
            ("", "not the name"),
            ("-x", "not the name"),
            ("a:b", "not the name"),
            ("a b; rm", "not the name"),
            ("998", "no such account"),
        ] {
            let problem = Account::find(name, ACCOUNTS).unwrap_err();
            assert!(problem.message.contains(why), "{name}: {}", problem.message);
            assert!(!problem.remedy.is_empty());
        }
    }

    #[test]
    fn process_with_more_rights_than_the_account_is_detected() {
        let account = Account { name: "stockade".to_owned(), user: 998, group: 997 };
        let status = "Name:\tstockade\nUid:\t998\t998\t998\t998\nGid:\t997\t997\t997\t997\n\
                      Groups:\t \nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
                      CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n\
                      CapAmb:\t0000000000000000\n";
        assert_eq!(beyond(&account, status), None);
        assert_eq!(beyond(&account, &status.replace("Groups:\t", "Groups:\t997")), None);
        for (from, to) in [
            ("Uid:\t998\t998\t998", "Uid:\t998\t998\t0"),
            ("Gid:\t997", "Gid:\t0"),
            ("Groups:\t", "Groups:\t27 "),
            ("CapInh:\t0000000000000000", "CapInh:\t0000000000002002"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000080"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001"),
            ("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000001"),
            ("Groups", "Others"),
            ("CapEff", "Others"),
        ] {
            let changed = status.replace(from, to);
            assert_ne!(changed, status);
            assert!(beyond(&account, &changed).is_some(), "{from}");
        }
    }
}
