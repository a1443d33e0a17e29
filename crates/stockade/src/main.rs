//! The executable `stockade`.

use std::process::ExitCode;

use stockade::Invocation;

/// How much freed memory the allocator keeps for the gate's buffers: getting each page from the
/// kernel again slows a download. Set here because it applies to the whole process.
const KEPT_BYTES: usize = 2 << 20;

fn main() -> ExitCode {
    stockade_sys::keep_freed_memory(KEPT_BYTES);
    ExitCode::from(Invocation::of_this_process().run())
}
