//! One virtual machine: boots, passes its command's output on, and ends with this process at the
//! latest. It leaves nothing in the file system.
//!
//! ```text
//! started ── marks of both streams and the code ──▶ killed, code
//!    ├────── reports that it cannot run the job ────▶ killed, error
//!    ├────── gone: kernel panic, QEMU's own end ──▶ error with the console's last lines
//!    └────── deadline ────────────────────────────▶ killed, error with the console's last lines
//! ```

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::{FdFlags, fcntl_setfd};

use super::image::Image;
use super::stream::{End, relay};

/// How many lines of the console an error shows.
const CONSOLE_LINES: usize = 25;

/// The kernel's command line. A panic ends the machine; the other options speed up the boot.
const KERNEL: &str = "console=ttyS0 quiet panic=-1 mitigations=off nokaslr";

/// What executes the machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// KVM: the processor itself.
    Kvm,
    /// QEMU's translator, about ten times slower, which works everywhere.
    Tcg,
}

/// A machine's size, its time limit and its processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) memory_mib: u32,
    pub(crate) cpus: u32,
    pub(crate) timeout: Duration,
    /// Whether the machine has `/dev/kvm` and runs machines of its own.
    pub(crate) nested: bool,
}

/// Where the command's output goes while it runs.
pub(crate) struct Output<'a> {
    pub(crate) stdout: &'a mut (dyn Write + Send),
    pub(crate) stderr: &'a mut (dyn Write + Send),
}

/// Boots a machine with a job disk, and returns the exit code of its command.
pub(crate) fn boot(
    image: &Image,
    accelerator: Accelerator,
    size: Size,
    parcel: &File,
    mark: &str,
    output: Output<'_>,
) -> Result<u8> {
    let deadline = Instant::now() + size.timeout;
    let mut ports = Ports::new()?;
    let mut qemu = start(image, accelerator, size, parcel, &mut ports)?;
    let (sender, events) = mpsc::channel();
    let (ended, console) = thread::scope(|scope| {
        let report = sender.clone();
        let Output { stdout, stderr } = output;
        for (port, to) in [(ports.stdout.near, stdout), (ports.stderr.near, stderr)] {
            let sender = sender.clone();
            // Ignored: the receiver is gone once the machine has ended.
            scope.spawn(move || _ = sender.send(Event::Stream(relay(port, to, mark.as_bytes()))));
        }
        scope.spawn(move || _ = report.send(Event::Report(first_line(ports.report.near))));
        let console = scope.spawn(move || tail(ports.console.near));
        let ended = wait_for_end(&events, deadline, size.timeout);
        qemu.end();
        (ended, console.join().unwrap_or_default())
    });
    ended.or_else(|why| match why {
        Why::Failed(why) => bail!("the lab could not do its work: {why}"),
        Why::Broken(error) => Err(error).context("cannot pass on what the lab printed"),
        Why::Over(why) => bail!("{why}; the console's last lines:\n{console}"),
    })
}

/// An event on one of the machine's ports.
enum Event {
    Stream(io::Result<End>),
    Report(String),
}

/// Why there is no exit code.
enum Why {
    Failed(String),
    Broken(io::Error),
    Over(String),
}

fn wait_for_end(events: &Receiver<Event>, deadline: Instant, timeout: Duration) -> Result<u8, Why> {
    let gone = || Why::Over("the lab's machine went away before the command ended".to_owned());
    let (mut streams, mut code) = (0, None);
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Stream(Ok(End::Marked))) => streams += 1,
            Ok(Event::Stream(Ok(End::Lost))) => return Err(gone()),
            Ok(Event::Stream(Err(error))) => return Err(Why::Broken(error)),
            Ok(Event::Report(line)) => match line.trim().split_once(' ') {
                Some(("exit", number)) => code = number.parse().ok(),
                Some(("failed:", why)) => return Err(Why::Failed(why.to_owned())),
                _ => return Err(gone()),
            },
            Err(RecvTimeoutError::Timeout) => {
                return Err(Why::Over(format!("no end within {} s", timeout.as_secs_f32())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(gone()),
        }
        if let (2, Some(code)) = (streams, code) {
            return Ok(code);
        }
    }
}

/// One connection: our end, and QEMU's end until QEMU has started.
struct Port {
    near: UnixStream,
    far: OwnedFd,
}

struct Ports {
    stdout: Port,
    stderr: Port,
    report: Port,
    console: Port,
}

impl Ports {
    fn new() -> Result<Ports> {
        let port = || -> Result<Port> {
            let (near, far) = UnixStream::pair().context("cannot make a socket")?;
            Ok(Port { near, far: far.into() })
        };
        Ok(Ports { stdout: port()?, stderr: port()?, report: port()?, console: port()? })
    }
}

/// The QEMU process; dropping it kills it.
struct Qemu(Child);

impl Qemu {
    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(
    image: &Image,
    accelerator: Accelerator,
    size: Size,
    parcel: &File,
    ports: &mut Ports,
) -> Result<Qemu> {
    // The kernel kills QEMU when this process ends, for any reason.
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-nodefaults", "-no-user-config"]);
    qemu.args(["-no-reboot", "-display", "none", "-machine", "pc"]);
    match accelerator {
        Accelerator::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
        Accelerator::Tcg => qemu.args(["-accel", "tcg,thread=multi", "-cpu", processor(size)]),
    };
    qemu.args(["-smp", &size.cpus.to_string(), "-m", &size.memory_mib.to_string()]);
    qemu.arg("-kernel").arg(image.kernel()).arg("-initrd").arg(image.initramfs());
    qemu.args(["-append", &kernel(size)]);
    qemu.args(["-drive", &drive(&image.root(), "snapshot=on")]);
    let parcel = inherited(parcel)?;
    qemu.args(["-drive", &drive(format!("/dev/fd/{parcel}").as_ref(), "readonly=on")]);
    let console = inherited(&ports.console.far)?;
    qemu.args(["-chardev", &format!("socket,id=console,fd={console}")]);
    qemu.args(["-serial", "chardev:console", "-device", "virtio-serial-pci"]);
    let numbered = [&ports.stdout, &ports.stderr, &ports.report];
    for (number, port) in (1..).zip(numbered) {
        let socket = inherited(&port.far)?;
        qemu.args(["-chardev", &format!("socket,id=port{number},fd={socket}")]);
        qemu.args(["-device", &format!("virtserialport,chardev=port{number},nr={number}")]);
    }
    qemu.stdin(Stdio::null());
    qemu.stdout(ports.console.far.try_clone()?).stderr(ports.console.far.try_clone()?);
    let child = qemu.spawn().context("cannot start QEMU")?;
    drop(qemu);
    // If this process kept QEMU's ends open, the readers would not see QEMU's end.
    for port in [&mut ports.stdout, &mut ports.stderr, &mut ports.report, &mut ports.console] {
        port.far = port.near.try_clone()?.into();
    }
    Ok(Qemu(child))
}

/// The processor that TCG translates for. QEMU 7.2 corrupts the flags of a 16-byte
/// compare-and-exchange; without that instruction kernels use another way.
fn processor(size: Size) -> &'static str {
    match size.nested {
        // What KVM needs of a processor, with nested paging.
        true => "EPYC,+svm,+npt,-cx16",
        false => "max,-cx16",
    }
}

/// The kernel's command line. The first process gets `nested` as an environment variable.
fn kernel(size: Size) -> String {
    match size.nested {
        true => format!("{KERNEL} nested=yes"),
        false => KERNEL.to_owned(),
    }
}

/// A `-drive` option; a comma in a file name is doubled.
fn drive(file: &Path, how: &str) -> String {
    let file = file.display().to_string().replace(',', ",,");
    format!("file={file},format=raw,if=virtio,{how}")
}

/// The number of a descriptor that the next program inherits.
fn inherited(descriptor: impl AsFd) -> Result<i32> {
    let descriptor = descriptor.as_fd();
    fcntl_setfd(descriptor, FdFlags::empty()).context("cannot hand a descriptor to QEMU")?;
    Ok(descriptor.as_raw_fd())
}

/// The first line, or what there is of it.
fn first_line(from: impl Read) -> String {
    let mut line = String::new();
    // An unreadable line counts as empty.
    let _ = BufReader::new(from).read_line(&mut line);
    line
}

/// The last lines of a console.
fn tail(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // QEMU's death may reset the connection; what came before is kept.
    let _ = from.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_machine_has_a_processor_with_virtualisation() {
        let plain =
            Size { memory_mib: 512, cpus: 1, timeout: Duration::from_secs(1), nested: false };
        let nested = Size { nested: true, ..plain };
        assert!(processor(nested).contains("+svm") && !processor(plain).contains("svm"));
        assert_eq!(
            (kernel(nested), kernel(plain).as_str()),
            (format!("{KERNEL} nested=yes"), KERNEL)
        );
    }
}
