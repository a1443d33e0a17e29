//! Ids that the host delegates to an unprivileged user, and the programs that map them.
//!
//! `/etc/subuid` and `/etc/subgid` list them, and the privileged programs `newuidmap` and
//! `newgidmap` write the id maps: subuid(5), newuidmap(1).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;
use stockade_launcher::{NEWGIDMAP, NEWUIDMAP};
use stockade_provider::Obstacle;
use stockade_sys::kernel_text;

use crate::host_files::{Base, HostFiles};
use crate::id_range::IdRange;

/// The caller's subordinate ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SubIds {
    /// The first user id of a range of [`IdRange::COUNT`].
    pub first_user: u32,
    /// The first group id of a range of the same size.
    pub first_group: u32,
}

impl SubIds {
    /// The ids that this host delegates to a user, or why none can be used.
    pub fn look(user: u32) -> Result<SubIds, Obstacle> {
        let read = |path: &str| match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => {
                Err(obstacle(format!("cannot read {path}: {error}"), "make it readable".to_owned()))
            }
            Ok(text) => Ok(text),
        };
        for program in [NEWUIDMAP, NEWGIDMAP] {
            check_helper(Path::new(program))?;
        }
        let status = kernel_text("/proc/self/status").unwrap_or_default();
        if !status.lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "0"])) {
            return Err(obstacle(
                format!("{NEWUIDMAP} gets no rights here: no_new_privs is set"),
                "start it without no_new_privs, such as NoNewPrivileges= of a service".to_owned(),
            ));
        }
        let accounts = read("/etc/passwd")?;
        SubIds::find(user, &accounts, &read("/etc/subuid")?, &read("/etc/subgid")?)
    }

    /// The first range in each file that is large enough. Pure.
    fn find(user: u32, accounts: &str, users: &str, groups: &str) -> Result<SubIds, Obstacle> {
        let number = user.to_string();
        let account = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
        // newuidmap refuses a user without a name.
        let Some(name) = account.clone().find(|it| it.get(2) == Some(&number.as_str())) else {
            let reason = format!("user {user} has no name in /etc/passwd");
            return Err(obstacle(reason, "use an account that has one".to_owned()));
        };
        let name = name[0];
        let first = |file: &str, text: &str, flag: &str| {
            let ranges = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
            let own = ranges.filter_map(|line| match line[..] {
                [owner, first, count] if owner == name || owner == number => {
                    Some((first.parse::<u32>().ok()?, count.parse::<u32>().ok()?))
                }
                _ => None,
            });
            let fits = |(first, count): &(u32, u32)| {
                *first > 0 && *count >= IdRange::COUNT && first.checked_add(*count).is_some()
            };
            own.filter(fits).map(|(first, _)| first).next().ok_or_else(|| {
                obstacle(
                    format!("{file} gives {name} no {} ids", IdRange::COUNT),
                    format!("`usermod --add-{flag} 100000-165535 {name}`, with a range that nothing else has"),
                )
            })
        };
        Ok(SubIds {
            first_user: first("/etc/subuid", users, "subuids")?,
            first_group: first("/etc/subgid", groups, "subgids")?,
        })
    }
}

/// Whether a sandbox with these files can use subordinate ids. Files of the caller would belong to
/// another user inside, and new files there would not belong to the caller on the host.
pub(crate) fn suit(files: &HostFiles) -> bool {
    let is_roots = |host: &Path| fs::metadata(host).is_ok_and(|file| file.uid() == 0);
    match &files.base {
        Base::System { binds, .. } => {
            files.shown.is_empty() && binds.iter().all(|(bind, _)| is_roots(&bind.host))
        }
        Base::Directory(_) | Base::Image { .. } => false,
    }
}

fn check_helper(program: &Path) -> Result<(), Obstacle> {
    const SET_USER_ID: u32 = 0o4000;
    let shown = program.display();
    let install = "install it with `apt-get install uidmap`, or the package of shadow-utils";
    let file = fs::metadata(program)
        .map_err(|error| obstacle(format!("{shown}: {error}"), install.to_owned()))?;
    let has_rights = file.mode() & SET_USER_ID != 0
        || rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64]).is_ok();
    match file.is_file() && file.uid() == 0 && has_rights {
        true => Ok(()),
        false => Err(obstacle(
            format!("{shown} has no rights of its own"),
            format!("`chmod u+s {shown}` as root, or install it anew"),
        )),
    }
}

fn obstacle(reason: String, remedy: String) -> Obstacle {
    Obstacle { reason, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n";

    fn find(users: &str, groups: &str) -> Result<SubIds, Obstacle> {
        SubIds::find(1000, ACCOUNTS, users, groups)
    }

    #[test]
    fn ranges_are_found_by_name_and_by_number() {
        let expected = Ok(SubIds { first_user: 100_000, first_group: 300_000 });
        assert_eq!(find("me:100000:65536\n", "1000:300000:65536\n"), expected);
        let noise = "you:5:65536\nme:7:10\nme:x:65536\nme:1\nme:0:65536\nme:4294967295:65536\n";
        assert_eq!(find(&format!("{noise}me:100000:70000\n"), "me:300000:65536"), expected);
    }

    #[test]
    fn user_without_a_range_or_a_name_gets_a_remedy() {
        let none = find("you:100000:65536\n", "me:300000:65536\n").unwrap_err();
        assert_eq!(none.reason, "/etc/subuid gives me no 65536 ids");
        assert!(none.remedy.starts_with("`usermod --add-subuids 100000-165535 me`"), "{none:?}");
        let none = find("me:100000:65536\n", "").unwrap_err();
        assert!(none.remedy.contains("--add-subgids"), "{none:?}");
        let unnamed = SubIds::find(7, ACCOUNTS, "7:100000:65536", "7:100000:65536").unwrap_err();
        assert!(unnamed.reason.contains("no name"), "{unnamed:?}");
    }
}
