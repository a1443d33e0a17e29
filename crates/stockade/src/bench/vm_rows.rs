//! The rows about the virtual machine wall, next to a plain boot of the same kernel.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::ensure;

use super::peers::on_path;
use super::programs::{Timed, output};
use super::report::{Bound, Missing, Row};
use super::rows::{Ours, passes};
use super::samples::Side;
use super::session_rows::once_more;
use super::sessions::Sessions;
use crate::args::BenchArgs;

const QEMU: &str = "qemu-system-x86_64";
const OPTIONS: [&str; 2] = ["--provider", "qemu"];
/// The plain boot's name in a report, and that of a machine of Stockade that boots.
const PEER: &str = "qemu boot";
const BOOTED: &str = "stockade booted";
/// The variable that makes every machine boot.
const ALWAYS_BOOT: &str = "STOCKADE_VM_BOOT";

/// A boot of the image's kernel as far as its first process, which is missing, so that the kernel
/// panics and QEMU ends. It has the processors and the memory of a machine with the default policy.
fn plain_boot() -> Result<Side<'static>, Missing> {
    let program = on_path(QEMU).ok_or_else(|| Missing {
        reason: format!("{QEMU} is not installed"),
        remedy: "install the package qemu-system-x86",
    })?;
    let found = stockade_backends::machine_images().map(|images| images.find("default"));
    let image = found.and_then(Result::ok).ok_or_else(|| Missing {
        reason: "there is no machine image default".to_owned(),
        remedy: "build it with `stockade image build --vm default`",
    })?;
    let words = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-nic",
        "none",
        "-machine",
        "pc",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max,-cx16",
        "-smp",
        "1",
        "-m",
        "640",
        "-append",
        "quiet panic=-1 mitigations=off rdinit=/none",
    ];
    let file = |option: &str, path: PathBuf| [OsString::from(option), path.into_os_string()];
    let argv = std::iter::once(program.into_os_string())
        .chain(words.map(OsString::from))
        .chain(file("-kernel", image.kernel()))
        .chain(file("-initrd", image.modules()));
    Ok(Timed::new(PEER, argv, "").side())
}

/// `/bin/true` in a new machine, which boots or continues a saved one.
fn new_machine(ours: &Ours, name: &str, boots: &str) -> Timed {
    let argv = ours.argv(&[&OPTIONS[..], &["--", "/bin/true"]].concat());
    let setting = OsString::from(format!("{ALWAYS_BOOT}={boots}"));
    Timed::new(name, ["env".into(), setting].into_iter().chain(argv), "")
}

pub(super) fn boot(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let mut sides = vec![new_machine(ours, "stockade", "1").side(), plain_boot()?];
    let what = "a virtual machine that boots, to the end of /bin/true in it";
    let bound = Bound::Ratio { against: PEER, most: 2.0 };
    Ok(Row::new(("vm-boot", what), "ms", bound, passes("vm-boot", &mut sides, args)?))
}

pub(super) fn run(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let peer = plain_boot()?;
    // The first start of a size saves its machine.
    let first = output(&new_machine(ours, "stockade", "").argv)?;
    ensure!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr).trim());
    let resumed = new_machine(ours, "stockade", "").side();
    let mut sides = vec![resumed, new_machine(ours, BOOTED, "1").side(), peer];
    let what = "a virtual machine that continues a saved one, to the end of /bin/true in it";
    let bound = Bound::Ratio { against: BOOTED, most: 0.3 };
    Ok(Row::new(("vm-run", what), "ms", bound, passes("vm-run", &mut sides, args)?))
}

pub(super) fn exec(args: &BenchArgs, ours: &Ours) -> anyhow::Result<Row> {
    let peer = plain_boot()?;
    let sessions = Sessions::new(ours.stockade(), "vm-exec")?;
    let session = sessions.create(&OPTIONS)?;
    let mut sides = vec![once_more(&sessions, &session), peer];
    let what = "one more execution of /bin/true in a virtual machine";
    let bound = Bound::Ratio { against: PEER, most: 0.1 };
    let passes = passes("vm-exec", &mut sides, args)?;
    drop(sides);
    Ok(Row::new(("vm-exec", what), "ms", bound, passes))
}
