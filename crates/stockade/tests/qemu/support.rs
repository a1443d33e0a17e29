//! Programs in machines, and the image that they start from.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use stockade_internet::{EnterError, Internet};
pub(crate) use stockade_testing::{
    Run, Scratch, ended, examples, finish, processes, start, wait_for,
};
use stockade_testing::{skipped, under_test};

static INTERNET: OnceLock<Option<Internet>> = OnceLock::new();

/// Stores what `main` prepared.
pub(crate) fn begin(entered: Option<Result<Internet, EnterError>>) {
    INTERNET.get_or_init(|| entered.and_then(Result::ok));
}

/// The fake internet, if it could be entered.
pub(crate) fn internet() -> Option<&'static Internet> {
    let internet = INTERNET.get().and_then(Option::as_ref);
    if internet.is_none() {
        skipped("internet", "the fake internet could not be entered");
    }
    internet
}

/// Tests, each named after its function.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        /// The tests of this module.
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$(libtest_mimic::Trial::test(stringify!($name), || {
                $name();
                Ok(())
            })),*]
        }
    };
}
pub(crate) use tests;

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    under_test(env!("CARGO_BIN_EXE_stockade"))
}

/// The directory of images, which outlives the tests: building one downloads packages.
pub(crate) fn data() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).expect("HOME is set").join("stockade/machine-tests")
}

/// The directory of the image `default`.
pub(crate) fn image() -> PathBuf {
    data().join("stockade/machines/default")
}

/// Builds the image `default` unless it is there. The error says what is missing.
pub(crate) fn build_image() -> Result<(), String> {
    if !Path::new("/usr/bin/qemu-system-x86_64").exists() {
        return Err("qemu-system-x86 is not installed".to_owned());
    }
    // An image of an older version lacks the modules for disks.
    let modules = std::fs::read(image().join("modules.cpio")).unwrap_or_default();
    let list = b"modules/order-disk";
    if modules.windows(list.len()).any(|window| window == list) {
        return Ok(());
    }
    let run = finish(stockade(&["image", "build", "--vm", "default"]));
    match run.code {
        0 => Ok(()),
        _ => Err(run.stderr),
    }
}

/// A `stockade` command with the images of these tests.
pub(crate) fn stockade(words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(words).env("XDG_DATA_HOME", data());
    command
}

/// A `stockade run` command with flags and a program, in a machine.
pub(crate) fn command(flags: &[&str], words: &[&str]) -> Command {
    stockade(&[&["run", "--provider", "qemu", "--no-record"], flags, words].concat())
}

/// Runs a program in a machine.
pub(crate) fn run(flags: &[&str], words: &[&str]) -> Run {
    finish(command(flags, words))
}

/// Runs a program in a machine and returns the report of `--json`.
#[track_caller]
pub(crate) fn report(flags: &[&str], words: &[&str]) -> Value {
    run(&[&["--json"], flags].concat(), words).json()
}

/// The accelerator that `doctor` names, and why KVM cannot be used.
pub(crate) fn accelerator() -> (String, Value) {
    let doctor = finish(stockade(&["doctor", "--json"])).json();
    let machines = &doctor["machine"]["machines"];
    let name = machines["accelerator"].as_str().unwrap_or_default().to_owned();
    (name, machines["kvm_obstacle"].clone())
}

/// The SHA-256 of the root that every machine starts from.
pub(crate) fn root_hash() -> String {
    let run = finish(Command::new("sha256sum").arg(image().join("root.squashfs")));
    run.text().split(' ').next().unwrap_or_default().to_owned()
}

/// Copies the image `default`, without its saved machines, to another place for images.
pub(crate) fn image_copy(place: &Scratch) {
    let to = place.path().join("stockade/machines/default");
    std::fs::create_dir_all(&to).expect("files of the test can be used");
    for name in ["kernel", "modules.cpio", "root.squashfs", "passwd", "manifest.json"] {
        std::fs::copy(image().join(name), to.join(name)).expect("files of the test can be used");
    }
}

/// Whether a command line is that of a machine of this wall.
fn is_machine(line: &str) -> bool {
    line.starts_with("qemu-system-x86_64 ") && line.contains("chardev=link,name=stockade")
}

/// How many machines of this wall run on the host.
pub(crate) fn machines() -> usize {
    processes().iter().filter(|line| is_machine(line)).count()
}

/// The process of the only machine of this wall that runs on the host.
pub(crate) fn machine() -> Option<PathBuf> {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    let mut found = entries.filter_map(|entry| {
        let process = entry.ok()?.path();
        let words = std::fs::read(process.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&words).replace('\0', " ");
        is_machine(&line).then_some(process)
    });
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// The sessions of one test; dropping it ends them.
pub(crate) struct Sessions(pub(crate) Scratch);

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions(Scratch::new())
    }

    /// Runs a command with these sessions.
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        let mut command = stockade(words);
        command.env("STOCKADE_STATE", self.0.path().join("state"));
        command.env("STOCKADE_STORE", self.0.path().join("store"));
        finish(command.env("XDG_STATE_HOME", self.0.path().join("records")))
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let listed: Value =
            serde_json::from_str(&self.run(&["ls", "--json"]).stdout).unwrap_or_default();
        for session in listed.as_array().into_iter().flatten() {
            self.run(&["rm", "--force", session["name"].as_str().unwrap_or_default()]);
        }
    }
}
