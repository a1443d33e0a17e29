//! Loads the kernel's modules from the initramfs.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::io::Errno;
use stockade_wire::MACHINE_MODULES;

use super::cannot;

/// Loads every module of a list of the initramfs, in its order.
pub(super) fn load(list: &str) -> io::Result<()> {
    let folder = Path::new(MACHINE_MODULES);
    let order = fs::read_to_string(folder.join(list)).map_err(cannot(format_args!(
        "read the list {list} of modules, which an older image lacks"
    )))?;
    for name in order.lines() {
        let loaded = || match rustix::system::finit_module(File::open(folder.join(name))?, c"", 0) {
            // The kernel has it built in.
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        };
        loaded().map_err(cannot(format_args!("load the module {name}")))?;
    }
    Ok(())
}
