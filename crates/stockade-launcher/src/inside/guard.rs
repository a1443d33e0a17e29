//! Landlock and seccomp.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use stockade_sys::Instruction;

use crate::plan::{LandlockRule, SocketUse};

/// Allows only what the rules list, and denies every other use of the file system.
///
/// The guest reads the upper layers of overlays through descriptors, which no program gets.
pub(super) fn landlock<'u>(
    version: u32,
    rules: &[LandlockRule],
    uppers: impl Iterator<Item = BorrowedFd<'u>>,
) -> io::Result<()> {
    let version = ABI::from(i32::try_from(version).map_err(io::Error::other)?);
    let all = AccessFs::from_all(version);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .map_err(io::Error::other)?;
    // Since version 6 Landlock also keeps signals and abstract sockets inside the sandbox.
    let scopes = Scope::from_all(version);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes).map_err(io::Error::other)?;
    }
    let mut ruleset = ruleset.create().map_err(io::Error::other)?;
    for rule in rules {
        let mut access = AccessFs::from_read(version) & !AccessFs::Execute;
        if rule.writable {
            access |= AccessFs::from_write(version) & !(AccessFs::MakeSock | AccessFs::ResolveUnix);
        }
        access |= match rule.sockets {
            SocketUse::Refused => BitFlags::EMPTY,
            SocketUse::Made => AccessFs::MakeSock.into(),
            // Kernels without this right do not restrict connecting.
            SocketUse::Reached => all & AccessFs::ResolveUnix,
        };
        if rule.executable {
            access |= AccessFs::Execute;
        }
        // Refuses links: a link could replace the path that the plan was made for.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS;
        let path = openat2(CWD, &rule.path, flags, Mode::empty(), resolve)
            .map_err(|error| unusable(&rule.path, error.into()))?;
        // A file accepts only the rights that apply to files.
        if FileType::from_raw_mode(fstat(&path)?.st_mode) != FileType::Directory {
            access &= AccessFs::from_file(version);
        }
        ruleset = ruleset.add_rule(PathBeneath::new(path, access)).map_err(io::Error::other)?;
    }
    for upper in uppers {
        let access = AccessFs::ReadFile | AccessFs::ReadDir;
        ruleset = ruleset.add_rule(PathBeneath::new(upper, access)).map_err(io::Error::other)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(super::wrong("Landlock does not enforce all of it")),
    }
}

fn unusable(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot open {} for a rule: {error}", path.display()))
}

/// Denies every bind and every connection that Landlock covers.
pub(super) fn landlock_network(version: u32) -> io::Result<()> {
    let version = ABI::from(i32::try_from(version).map_err(io::Error::other)?);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessNet::from_all(version))
        .and_then(|ruleset| ruleset.create())
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(super::wrong("Landlock does not hold the network")),
    }
}

/// Installs a seccomp filter that notifies a supervisor, and returns the listener.
pub(super) fn watch(program: &[(u16, u8, u8, u32)]) -> io::Result<OwnedFd> {
    stockade_sys::install_notifying_filter(&instructions(program))
}

/// Installs filters; the kernel applies the strictest result of all.
pub(super) fn seccomp(programs: &[Vec<(u16, u8, u8, u32)>]) -> io::Result<()> {
    for program in programs {
        stockade_sys::install_filter(&instructions(program))?;
    }
    Ok(())
}

fn instructions(program: &[(u16, u8, u8, u32)]) -> Vec<Instruction> {
    program
        .iter()
        .map(|(code, jt, jf, k)| Instruction { code: *code, jt: *jt, jf: *jf, k: *k })
        .collect()
}
