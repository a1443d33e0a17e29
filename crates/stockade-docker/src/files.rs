//! Host files that a policy shows, and the user that owns what programs write.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use stockade_hostfiles::{
    HostFileError, Mode, Mounts, Shown, SocketSearch, pinned_directories, refuse_changeable,
    refuse_uncoverable, shown,
};
use stockade_provider::{SandboxRequest, ToolAccess};

use crate::{DockerError, EngineFacts};

/// The user and group ids of a container without host files.
pub(crate) const NOBODY: (u32, u32) = (65534, 65534);

/// The host files that a container mounts, and the user as which it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) shown: Vec<Shown>,
    pub(crate) user: (u32, u32),
}

/// Resolves and checks the host paths of a request. Reads directories, so it may block.
pub(crate) fn files(
    request: &SandboxRequest,
    facts: &EngineFacts,
    caller: (u32, u32),
) -> Result<Files, DockerError> {
    let policy = &*request.policy;
    let own = Path::new(ToolAccess::DIRECTORY);
    let hides = |path: &Path| own.starts_with(path) || path.starts_with(own);
    let guests = policy.mounts.iter().map(|mount| mount.guest.as_str());
    let hidden = policy.hide.iter().map(|hide| hide.value.as_str());
    if guests.chain(hidden).any(|path| hides(Path::new(path))) {
        return Err(DockerError::Unsupported {
            what: "the policy's mounts",
            reason: format!("the guest of every container is in {}", own.display()),
            remedy: "choose another path inside, such as /data",
        });
    }
    let shown = shown(policy)?;
    may_show(&shown, facts)?;
    refuse_changeable(&request.protected, &shown)?;
    let mounts = Mounts::look();
    for place in &shown {
        if let Some(below) = mounts.below(&place.host).next() {
            let reason = format!(
                "another file system is mounted at {}, and an engine cannot show that read-only",
                below.display()
            );
            let remedy = "name the directories without it one by one, or use the native wall";
            return Err(HostFileError::path(&place.host, reason, remedy).into());
        }
    }
    let is_separable = |_: &Path| false;
    if !pinned_directories(policy, &shown, &is_separable)?.is_empty() {
        return Err(DockerError::Unsupported {
            what: "a mount or hidden path below a writable directory",
            reason: "a program could move the directories above it away".to_owned(),
            remedy: "show it at another path inside, or use the native wall",
        });
    }
    refuse_uncoverable(policy, &shown, SocketSearch::Reported, &mounts, &is_separable)?;
    let user = match request.root.user() {
        None => user(&shown, facts, caller),
        Some(chosen) => {
            refuse_foreign_ids(chosen, &shown, caller)?;
            chosen
        }
    };
    Ok(Files { shown, user })
}

/// Refuses what an engine cannot show as the policy means it.
fn may_show(shown: &[Shown], facts: &EngineFacts) -> Result<(), DockerError> {
    let refused = |what, reason: &str, remedy| {
        Err(DockerError::Unsupported { what, reason: reason.to_owned(), remedy })
    };
    if !shown.is_empty() && !facts.is_local {
        return refused(
            "files of this host",
            "the engine is on another machine, which has its own files at these paths",
            "remove the mounts, or use an engine of this machine",
        );
    }
    if shown.iter().any(|place| place.mode == Mode::Overlay) {
        return refused(
            "a workspace with the mode overlay",
            "an engine has no private layer over a host directory",
            "use the mode read or write, or the native wall",
        );
    }
    if shown.iter().any(|place| place.mode == Mode::Write) && facts.remaps_ids {
        return refused(
            "a writable mount",
            "this engine gives containers other user ids, so the files would not be yours",
            "show it read-only, or use the native wall",
        );
    }
    Ok(())
}

/// Whether a host path belongs to the user that programs of root's containers have, so that what
/// they write there belongs to its owner.
pub(crate) fn is_nobodys(host: &Path) -> bool {
    std::fs::symlink_metadata(host).is_ok_and(|found| found.uid() == NOBODY.0)
}

/// Refuses a user of the image who would access files of the host as another user than the caller:
/// the image, which is not trusted, chooses the numbers.
fn refuse_foreign_ids(
    user: (u32, u32),
    shown: &[Shown],
    caller: (u32, u32),
) -> Result<(), DockerError> {
    match user.0 == 0 || user.1 == 0 || (!shown.is_empty() && user != caller) {
        true => Err(DockerError::Unsupported {
            what: "--user with files of the host",
            reason: "on this host they would be read and written as that user and group".to_owned(),
            remedy: "leave --user out, show no files of the host, or use the native wall",
        }),
        false => Ok(()),
    }
}

/// The ids of the container's processes. With host files they are the caller's, so that programs
/// can read what the caller can, and what they write belongs to the caller. Root's files are lent.
fn user(shown: &[Shown], facts: &EngineFacts, caller: (u32, u32)) -> (u32, u32) {
    match shown.is_empty() || caller.0 == 0 || facts.remaps_ids {
        true => NOBODY,
        false => caller,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stockade_policy::Policy;
    use stockade_provider::{EntryProgram, Root};

    use super::*;

    const CALLER: (u32, u32) = (1000, 1000);

    fn asked(policy: &str, facts: &EngineFacts, caller: (u32, u32)) -> Result<Files, String> {
        let policy = Policy::parse_str("p", policy, Path::new("/")).unwrap();
        let request = SandboxRequest {
            policy: Arc::new(policy),
            root: Root::Standard,
            entry: EntryProgram::Program("ls".to_owned()),
            protected: Vec::new(),
            gateway: None,
            tools: None,
            authorities: None,
        };
        files(&request, facts, caller).map_err(|error| error.to_string())
    }

    #[test]
    fn container_runs_as_nobody_unless_it_shows_files_of_an_ordinary_caller() {
        let facts = crate::host::example();
        let directory = tempfile::tempdir().unwrap();
        let host = directory.path().canonicalize().unwrap();
        let read =
            format!("filesystem: {{ read: [{{ host: {}, guest: /data }}] }}", host.display());
        let write = read.replace("read:", "write:");
        let user = |policy: &str, caller| asked(policy, &facts, caller).map(|files| files.user);
        assert_eq!(user("{}", CALLER), Ok(NOBODY));
        assert_eq!(user(&read, CALLER), Ok(CALLER));
        assert_eq!(user(&write, CALLER), Ok(CALLER));
        assert_eq!(user(&read, (0, 0)), Ok(NOBODY));
        assert_eq!(user(&write, (0, 0)), Ok(NOBODY));
        let remapping = EngineFacts { remaps_ids: true, ..facts.clone() };
        assert_eq!(asked(&read, &remapping, CALLER).unwrap().user, NOBODY);
        let refused = asked(&write, &remapping, CALLER).unwrap_err();
        assert!(refused.contains("other user ids"), "{refused}");
        let remote = EngineFacts { is_local: false, ..facts };
        let refused = asked(&read, &remote, CALLER).unwrap_err();
        assert!(refused.contains("another machine"), "{refused}");
        assert_eq!(asked("{}", &remote, CALLER).unwrap().shown, []);
    }

    #[test]
    fn user_of_an_image_writes_no_files_of_the_host_as_another_user() {
        let place = |mode| Shown {
            host: "/srv".into(),
            guest: "/srv".into(),
            kind: stockade_hostfiles::TreeKind::Directory,
            mode,
        };
        let other = (1005, 1005);
        assert!(refuse_foreign_ids(other, &[], CALLER).is_ok());
        assert!(refuse_foreign_ids(CALLER, &[place(Mode::Write)], CALLER).is_ok());
        for (user, shown) in [
            (other, vec![place(Mode::Read)]),
            (other, vec![place(Mode::Write)]),
            ((CALLER.0, 42), vec![place(Mode::Read)]),
            ((0, 0), Vec::new()),
            ((1005, 0), Vec::new()),
        ] {
            let refused = refuse_foreign_ids(user, &shown, CALLER).unwrap_err().to_string();
            assert!(refused.contains("as that user and group"), "{refused}");
        }
    }

    #[test]
    fn overlay_and_mounts_over_the_guest_are_refused() {
        let facts = crate::host::example();
        let directory = tempfile::tempdir().unwrap();
        let host = directory.path().canonicalize().unwrap();
        let host = host.display();
        for (policy, part) in [
            (format!("filesystem: {{ workspace: {{ host: {host}, mode: overlay }} }}"), "layer"),
            (
                format!("filesystem: {{ read: [{{ host: {host}, guest: /run/stockade/x }}] }}"),
                "the guest of every container",
            ),
        ] {
            let refused = asked(&policy, &facts, CALLER).unwrap_err();
            assert!(refused.contains(part), "{policy}: {refused}");
        }
    }
}
