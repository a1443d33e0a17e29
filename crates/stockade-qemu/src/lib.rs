//! The virtual machine wall: QEMU inside another wall, with the guest as the machine's first process.
//!
//! ```text
//! QemuOptions ── image, accelerator ──▶ facts
//! policy, image, facts ── plan ──▶ machine plan, QEMU's command line, QEMU's own policy
//!   ── jail: a sandbox of another wall ──▶ QEMU ── boot, or a saved machine ──▶ guest
//!   ──▶ QemuSandbox
//! ```
//! QEMU is an ordinary program in a sandbox of the jail, which another wall builds: an unprivileged
//! user without network, with limits, that sees only the image. Its standard input and output are
//! the machine's serial port, so the stream to the guest needs no socket, and the jail's end is the
//! machine's end, whichever process dies.

mod abilities;
mod accelerator;
mod command;
mod console;
mod copies;
mod disk;
mod error;
mod filters;
mod initramfs;
mod jail;
mod kvm;
mod look;
mod options;
mod outputs;
mod plan;
mod provider;
mod sandbox;
mod save;
mod saved;
mod start;
mod stops;
mod usage;

pub use abilities::reference_abilities;
pub use accelerator::Accelerator;
pub use error::QemuError;
pub use kvm::KVM;
pub use look::MachineLook;
pub use options::{DEFAULT_IMAGE, QemuOptions};
pub use provider::{Jails, QemuProvider};
