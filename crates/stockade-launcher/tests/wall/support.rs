//! A plan for tests, and code to carry it out.

use std::io::Read;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use stockade_launcher::{
    Attributes, Birth, Family, FileMode, IdMap, LandlockRule, Mapper, Memory, Plan, Refusal,
    Report, Resource, SocketUse, Step, TreeKind,
};
use stockade_testing::skipped;

const READ_ONLY: Attributes = Attributes { writable: false, executable: true, devices: false };
const DEVICE: Attributes = Attributes { writable: true, executable: false, devices: true };

/// The user id inside.
pub(crate) const USER: u32 = 1000;

/// The minimum Landlock version; with an older kernel the wall has no Landlock.
pub(crate) const LANDLOCK: u32 = 3;

pub(crate) fn landlock_can_be_used() -> bool {
    stockade_sys::landlock_version().is_ok_and(|version| version >= LANDLOCK)
}

/// The result of a plan.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The program ran, with this exit code and output.
    Ran(i32, String),
    /// A step failed and nothing ran.
    Refused(Refusal),
}

/// Whether this host allows a wall to be built. If not, prints why the tests are skipped, or fails
/// where `STOCKADE_REQUIRE` requires them.
pub(crate) fn walls_can_be_built() -> bool {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let reason = REASON.get_or_init(|| match carry_out(&plan("true")) {
        Ended::Ran(..) => None,
        Ended::Refused(refusal) => Some(refusal.to_string()),
    });
    let Some(reason) = reason else { return true };
    skipped("namespaces", reason);
    false
}

/// A complete wall around a shell command.
pub(crate) fn plan(script: &str) -> Plan {
    let root = rustix::process::geteuid().is_root();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let map = |own: u32| match root {
        true => IdMap { inside: 0, outside: 1 << 20, count: 65_536 },
        false => IdMap { inside: USER, outside: own, count: 1 },
    };
    let family =
        Family::Namespaces { users: map(user), groups: map(group), mapper: Mapper::Launcher };
    let birth = Birth { family, cgroup: None };
    let mut inside = vec![Step::OwnCgroups, Step::PrivateMounts];
    inside.extend(system().into_iter().map(|(name, path, attributes, kind)| Step::TakeTree {
        name,
        path,
        attributes,
        kind,
    }));
    inside.push(Step::BecomeUser { user: USER, group: USER });
    inside.push(Step::MakeScratch(Memory { bytes: 8 << 20, inodes: 200, executable: true }));
    inside.push(Step::MakeRoot(Memory { bytes: 1 << 20, inodes: 512, executable: true }));
    inside.extend(layout());
    inside.extend([
        Step::Pivot,
        Step::SealRoot,
        Step::Loopback,
        Step::HostName("sandbox".to_owned()),
        Step::Limit { resource: Resource::Core, amount: 0 },
        Step::Limit { resource: Resource::OpenFiles, amount: 256 },
        Step::NewSession,
        Step::WorkingDirectory(PathBuf::from("/workspace")),
        Step::SealPrivileges,
        Step::DieWithParent,
    ]);
    if landlock_can_be_used() {
        inside.push(Step::Landlock { version: LANDLOCK, rules: landlock() });
    }
    inside.extend([
        Step::Seccomp { programs: Vec::new() },
        Step::Execute {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        },
    ]);
    Plan { outside: Vec::new(), birth, inside, after: Vec::new(), has_timer: false }
}

type Tree = (String, PathBuf, Attributes, TreeKind);

/// The host's programs, and the standard devices.
fn system() -> Vec<Tree> {
    let mut trees =
        vec![("/usr".to_owned(), PathBuf::from("/usr"), READ_ONLY, TreeKind::Directory)];
    for name in ["/bin", "/lib", "/lib64", "/sbin"] {
        if Path::new(name).is_dir() && !Path::new(name).is_symlink() {
            trees.push((name.to_owned(), PathBuf::from(name), READ_ONLY, TreeKind::Directory));
        }
    }
    for name in ["null", "zero", "full", "random", "urandom"] {
        let path = PathBuf::from(format!("/dev/{name}"));
        trees.push((path.display().to_string(), path, DEVICE, TreeKind::File));
    }
    trees
}

fn layout() -> Vec<Step> {
    let mut steps: Vec<Step> =
        system().into_iter().map(|(name, path, ..)| Step::AttachTree { name, path }).collect();
    for name in ["/bin", "/lib", "/lib64", "/sbin"] {
        if let Ok(target) = std::fs::read_link(name) {
            steps.push(Step::Link { path: PathBuf::from(name), target });
        }
    }
    let scratch =
        |path: &str, mode| Step::AttachScratch { path: PathBuf::from(path), mode: FileMode(mode) };
    steps.extend([
        scratch("/tmp", 0o1777),
        scratch("/workspace", 0o755),
        scratch("/dev/shm", 0o1777),
        Step::File { path: PathBuf::from("/etc/hostname"), content: b"sandbox\n".to_vec() },
        Step::Proc { pids_only: false },
        Step::Terminals,
        Step::ForbidUserNamespaces,
        Step::Mask { path: PathBuf::from("/proc/cmdline") },
        Step::Mask { path: PathBuf::from("/proc/acpi") },
        Step::ReadOnly { path: PathBuf::from("/proc/sys") },
    ]);
    steps
}

fn landlock() -> Vec<LandlockRule> {
    let rule = |path: &str, writable, executable| LandlockRule {
        path: PathBuf::from(path),
        writable,
        executable,
        sockets: if writable { SocketUse::Made } else { SocketUse::Refused },
    };
    vec![
        rule("/", false, false),
        rule("/usr", false, true),
        rule("/tmp", true, true),
        rule("/workspace", true, true),
        rule("/dev", true, false),
        rule("/proc", true, false),
    ]
}

/// Carries out a plan and waits until it is cleaned up.
pub(crate) fn carry_out(plan: &Plan) -> Ended {
    carry_out_with(plan, &[])
}

/// Like [`carry_out`], with descriptors.
pub(crate) fn carry_out_with(plan: &Plan, descriptors: &[BorrowedFd<'_>]) -> Ended {
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair can be made");
    let (mut output, write_end) = std::io::pipe().expect("a pipe can be made");
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_stockade-launch"))
        .env_clear()
        .env("STOCKADE_CANARY", "canary-in-the-environment")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(write_end.try_clone().expect("a pipe can be shared")))
        .stderr(Stdio::from(write_end))
        .spawn()
        .expect("the launcher starts");
    // A launcher that refused early has closed the stream; its report is still readable.
    let _ = stockade_launcher::send(&mut ours, plan, descriptors);
    let mut ending = None;
    let mut refusal = None;
    while let Ok(Some((report, _))) = stockade_launcher::receive(&mut ours) {
        match report {
            Report::Born { .. } | Report::Ready { .. } => {}
            Report::Refused(first) => refusal = Some(first),
            Report::Ended(how) => {
                ending = Some(how);
                ours.shutdown(Shutdown::Write).expect("the launcher is still there");
            }
        }
    }
    drop(ours);
    launcher.wait().expect("the launcher can be waited for");
    let mut text = String::new();
    output.read_to_string(&mut text).expect("output is text");
    match (refusal, ending) {
        (Some(refusal), _) => Ended::Refused(refusal),
        (None, ending) => Ended::Ran(ending.and_then(|how| how.code).unwrap_or(-1), text),
    }
}

/// Runs a script behind the complete wall; panics if the wall cannot be built.
pub(crate) fn inside(script: &str) -> String {
    match carry_out(&plan(script)) {
        Ended::Ran(_, text) => text,
        Ended::Refused(refusal) => panic!("{refusal}"),
    }
}

/// Runs a script without any wall.
pub(crate) fn outside(script: &str) -> String {
    let output = Command::new("/bin/sh").args(["-c", script]).output().expect("a shell starts");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).expect("output is text")
}
