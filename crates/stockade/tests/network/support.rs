//! Programs on the machine and in sandboxes, and their packets on the wire.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;
use stockade_internet::{EnterError, Internet, LogEntry, Mark};
use stockade_testing::{Conversation, under_test};
pub(crate) use stockade_testing::{Run, finish, not_run, skipped};

/// The search path for programs, the same on the machine and in a sandbox.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static INTERNET: OnceLock<Internet> = OnceLock::new();
static PACKAGES: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// A list of tests, each named after its function and its module.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            let module = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$(libtest_mimic::Trial::test(format!("{module}::{}", stringify!($name)), || {
                $name();
                Ok(())
            })),*]
        }
    };
}
pub(crate) use tests;

/// Stores what `main` prepared, and checks that walls can be built; fails with the missing part of
/// the host and the reason.
pub(crate) fn begin(
    entered: Result<Internet, EnterError>,
    packages: Result<PathBuf, String>,
) -> Result<(), (&'static str, String)> {
    let internet = entered.map_err(|error| ("internet", error.in_one_line()))?;
    // The suite docker runs these tests in containers, whose image has authorities of its own.
    if std::env::var_os("STOCKADE_TEST_RUNTIME").is_some() {
        stockade_testing::engine::trust(&internet.ca_file())
            .map_err(|reason| ("docker", reason))?;
    }
    INTERNET.get_or_init(|| internet);
    PACKAGES.get_or_init(|| packages);
    let run = finish(command(&[], &["true"]));
    match run.code {
        0 => Ok(()),
        _ => Err(("namespaces", run.stderr.trim().replace('\n', " "))),
    }
}

/// The fake internet.
pub(crate) fn internet() -> &'static Internet {
    INTERNET.get().expect("the tests run after main has entered it")
}

/// The directory with the packages of Python clients, or why it is missing.
pub(crate) fn packages() -> Result<&'static Path, &'static str> {
    let packages = PACKAGES.get().expect("the tests run after main has installed them");
    packages.as_ref().map(PathBuf::as_path).map_err(String::as_str)
}

/// Whether a program is installed. If not, reports the missing part of the host with [`skipped`].
pub(crate) fn has(program: &str, part: &str) -> bool {
    let found = PATH.split(':').any(|folder| Path::new(folder).join(program).exists());
    if !found {
        skipped(part, &format!("{program} is not installed"));
    }
    found
}

/// The token that only the servers of the fake internet know.
pub(crate) trait Token {
    /// Whether a program printed the token.
    fn has_token(&self) -> bool;
}

impl Token for Run {
    fn has_token(&self) -> bool {
        let token = internet().token();
        self.stdout.contains(token) || self.stderr.contains(token)
    }
}

/// A command with a minimal environment. Its home and temporary directory are removed with the fake
/// internet.
fn clean<W: AsRef<OsStr>>(program: W) -> Command {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    let home = HOME.get_or_init(|| {
        let home = internet().log_file().with_file_name("home");
        std::fs::create_dir(&home).expect("there is room beside the log");
        home
    });
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
    command.env("HOME", home).env("TMPDIR", home);
    command
}

/// Runs a program on the machine, without a wall.
pub(crate) fn direct(words: &[&str]) -> Run {
    let (program, arguments) = words.split_first().expect("a program is named");
    let mut command = clean(program);
    command.args(arguments);
    finish(command)
}

/// A `stockade` command with these arguments.
pub(crate) fn stockade(words: &[&str]) -> Command {
    let mut command = clean(under_test(env!("CARGO_BIN_EXE_stockade")));
    command.args(words);
    command
}

/// A `stockade run` command with these flags and this program.
pub(crate) fn command(flags: &[&str], words: &[&str]) -> Command {
    let mut command = stockade(&["run"]);
    command.args(flags).arg("--").args(words);
    command
}

/// Runs a program in a sandbox. Panics if Stockade refuses to start it: that would prove nothing.
#[track_caller]
pub(crate) fn inside(flags: &[&str], words: &[&str]) -> Run {
    let run = finish(command(flags, words));
    assert_ne!(run.code, 125, "{flags:?}: {run:?}");
    run
}

/// Runs a program in a sandbox with a policy. Panics if Stockade refuses the policy.
#[track_caller]
pub(crate) fn with_policy(policy: &str, words: &[&str]) -> Run {
    let run = try_policy(policy, words);
    assert_ne!(run.code, 125, "{policy}: {}", run.stderr);
    run
}

/// Runs a program in a sandbox with a policy that Stockade may refuse.
pub(crate) fn try_policy(policy: &str, words: &[&str]) -> Run {
    let folder = tempfile::tempdir().expect("there is room for a policy");
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy).expect("the policy can be written");
    finish(command(&["--policy", file.to_str().expect("the path is text")], words))
}

/// Runs a program in a sandbox and returns the report of `--json`.
pub(crate) fn report(flags: &[&str], words: &[&str]) -> Value {
    inside(&[&["--json"], flags].concat(), words).json()
}

/// Starts a program in the background of a test.
pub(crate) fn start(mut command: Command) -> Conversation {
    command.stderr(Stdio::null());
    Conversation::start(command)
}

/// A public address that only one test uses, and the name that resolves to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: Ipv4Addr,
    pub(crate) name: String,
}

impl Place {
    /// The next unused address.
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Place::at(Ipv4Addr::new(93, 184, 128 + high, low))
    }

    /// The place with a given address.
    pub(crate) fn at(address: Ipv4Addr) -> Place {
        let [a, b, c, d] = address.octets();
        Place { address, name: format!("{a}-{b}-{c}-{d}.ip.test") }
    }

    /// Whether this packet was sent to the address, or is a DNS query for the name.
    fn is_meant_by(&self, entry: &LogEntry) -> bool {
        let there = target(entry) == Some(IpAddr::V4(self.address));
        entry.server == "packet" && (there || entry.name.ends_with(&self.name))
    }
}

/// The destination address of a log entry.
fn target(entry: &LogEntry) -> Option<IpAddr> {
    let with_port = entry.to.parse::<SocketAddr>().map(|address| address.ip());
    with_port.or_else(|_| entry.to.parse()).ok()
}

/// The log from a point in time on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Mark);

impl Watch {
    /// Starts now: every earlier packet is in the log already.
    pub(crate) fn start() -> Watch {
        internet().settle().expect("the wire works");
        Watch(internet().mark().expect("the log is there"))
    }

    /// Waits for a matching entry.
    #[track_caller]
    pub(crate) fn wait(self, what: &str, asked: impl Fn(&LogEntry) -> bool) -> LogEntry {
        let found = internet().wait_for(self.0, asked);
        found.unwrap_or_else(|error| panic!("{what} was not seen: {error}"))
    }

    /// All matching entries. Packets are complete up to now; server entries may arrive later, so
    /// tests that something did not happen look for packets.
    pub(crate) fn seen(self, asked: impl Fn(&LogEntry) -> bool) -> Vec<LogEntry> {
        internet().settle().expect("the wire works");
        let seen = internet().since(self.0).expect("the log can be read");
        seen.into_iter().filter(asked).collect()
    }

    /// All packets to a place, DNS queries for its name included.
    pub(crate) fn to(self, place: &Place) -> Vec<LogEntry> {
        self.seen(|entry| place.is_meant_by(entry))
    }

    /// Every packet to an address.
    pub(crate) fn to_address(self, address: IpAddr) -> Vec<LogEntry> {
        self.seen(|entry| entry.server == "packet" && target(entry) == Some(address))
    }
}

/// Runs a program on the machine, where its packets must reach the place's address or name, and
/// then in a sandbox, where they must not.
#[track_caller]
pub(crate) fn reaches_only_without_wall(place: &Place, flags: &[&str], words: &[&str]) -> Run {
    let watch = Watch::start();
    let run = direct(words);
    assert_ne!(watch.to(place), [], "{words:?} on the machine: {run:?}");
    let watch = Watch::start();
    let run = inside(flags, words);
    assert_eq!(watch.to(place), [], "{words:?} got out: {run:?}");
    assert!(!run.has_token(), "{run:?}");
    run
}
