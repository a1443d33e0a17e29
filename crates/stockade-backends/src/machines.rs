//! The virtual machine wall, and the images of its machines.

use std::sync::Arc;

use serde_json::{Value, json};
use stockade_native::{HostProcess, NativeProvider, Surroundings};
use stockade_provider::Provider;
use stockade_qemu::{Jails, KVM, MachineLook, QemuOptions, QemuProvider};

pub use stockade_bootimage::{
    BootImageError, BootStore, BuildRequest, Kept, Manifest, Source, build as build_machine_image,
};

/// The variable that makes every machine boot, instead of continuing a saved one.
const ALWAYS_BOOT: &str = "STOCKADE_VM_BOOT";

/// The images of this user's machines; `None` without a home.
pub fn machine_images() -> Option<BootStore> {
    options().machines.map(BootStore::new)
}

/// Virtual machines of QEMU, each in a sandbox of the native wall.
pub(crate) fn provider(user: HostProcess) -> Arc<dyn Provider> {
    let jail = || NativeProvider::new(user, Surroundings::default());
    let jails = Jails { plain: Arc::new(jail()), with_kvm: Arc::new(jail().with_device(KVM)) };
    Arc::new(QemuProvider::new(options(), jails))
}

/// The parts of the virtual machine wall on this host, for display: names and values, and the same
/// as data.
pub fn machine_look() -> (Vec<(String, String)>, Value) {
    let look = MachineLook::look(&options());
    (look.lines(), json!(look))
}

fn options() -> QemuOptions {
    QemuOptions {
        machines: stockade_bootimage::machines_directory(|name| std::env::var_os(name)),
        always_boots: std::env::var_os(ALWAYS_BOOT).is_some_and(|value| !value.is_empty()),
    }
}
