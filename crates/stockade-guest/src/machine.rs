//! The first process of a virtual machine: builds the root that programs see, and becomes the guest.
//!
//! ```text
//! kernel ─▶ modules, port, image ─▶ ready ─▶ the host's start ─▶ identity ─▶ root and places
//!   ─▶ copies of host files ─▶ cgroup, limits, user ─▶ serving
//!              └── any failure: a line on the console, and the machine ends with this process
//! ```
//! A machine may be saved when it is ready, and continue any number of times, at any time: what
//! precedes depends on no policy, and what must differ comes from the host's start. The end of the
//! first process is a kernel panic, which ends the machine.

mod copies;
mod disk;
mod identity;
mod limits;
mod modules;
mod mounts;
mod port;
mod root;
mod start;

use std::fs::File;
use std::io;

use stockade_wire::GuestExit;

use crate::listeners::Own;
use crate::serve::serve_on_pair;

/// Where the files of a machine come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRoot {
    /// An image of Stockade.
    Image,
    /// A disk of the caller, with a Linux system in a file system of the kernel.
    Disk,
}

/// Arranges everything inside the machine, and serves until the host is gone.
///
/// The process must be the first of the machine and have one thread. The error says what could not
/// be arranged.
pub fn serve_machine(root: MachineRoot) -> io::Result<GuestExit> {
    mounts::kernel_files()?;
    modules::load("order")?;
    if root == MachineRoot::Disk {
        modules::load("order-disk")?;
    }
    let mut port = File::from(port::open()?);
    match root {
        MachineRoot::Image => root::mount_image()?,
        MachineRoot::Disk => disk::mount()?,
    }
    start::report_ready(&mut port)?;
    let (start, tools) = start::read(&mut port)?;
    identity::renew(&start)?;
    let plan = start.plan;
    let own = Own::parse(plan.own.iter().cloned());
    let own = own.ok_or_else(|| io::Error::other("the plan has unknown words"))?;
    root::build(&plan, &tools)?;
    let uppers = copies::unpack_all(&plan, &port)?;
    root::finish(&plan)?;
    limits::apply(&plan)?;
    serve_on_pair(port.try_clone()?.into(), port.into(), own, uppers)
}

/// Adds what was being done to an error.
fn cannot(doing: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {doing}: {error}"))
}
