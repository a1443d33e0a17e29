//! Whether `/dev/kvm` can run a guest, tested with a guest of two instructions.
#![expect(unsafe_code, reason = "KVM is used through ioctl(2) and shared memory")]
// UNSAFETY: the ioctls of Linux' Documentation/virt/kvm/api.rst, each with its own structure, on
// our own descriptors, and mappings that only this module touches.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// The first step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct KvmError {
    /// What the step does, such as `create a virtual machine`.
    pub step: &'static str,
    /// The kernel's error.
    #[source]
    pub source: io::Error,
}

/// Opens the device at `device`, creates a virtual machine with one processor, and runs two
/// instructions on it: a floating-point one, which a kernel that only emulates the processor does
/// not support, and `hlt`. Frees everything before it returns.
///
/// On a broken host the guest may never stop: call this in a process that the caller can kill.
pub fn run_tiny_guest(device: &Path) -> Result<(), KvmError> {
    let failed = |step| move |source| KvmError { step, source };
    let device = OpenOptions::new().read(true).write(true).open(device);
    let device = device.map_err(failed("open the device"))?;
    match request(&device, GET_API_VERSION, 0).map_err(failed("ask for its version"))? {
        12 => {}
        other => {
            let source = io::Error::other(format!("it reports version {other} and not 12"));
            return Err(KvmError { step: "ask for its version", source });
        }
    }
    let machine = request_file(&device, CREATE_VM).map_err(failed("create a virtual machine"))?;
    let processor =
        request_file(&machine, CREATE_VCPU).map_err(failed("create a virtual processor"))?;
    run(&device, &machine, &processor)
}

const GET_API_VERSION: u64 = 0xae00;
const CREATE_VM: u64 = 0xae01;
const CREATE_VCPU: u64 = 0xae41;

/// An ioctl that takes one number.
fn request(file: &File, request: u64, argument: u64) -> io::Result<libc::c_int> {
    // SAFETY: the requests passed here take a number by value and write none of our memory.
    match unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// An ioctl that returns a new descriptor.
fn request_file(file: &File, request_number: u64) -> io::Result<File> {
    let descriptor = request(file, request_number, 0)?;
    // SAFETY: the kernel has just opened this descriptor for us, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// The guest's code exists only for x86-64.
#[cfg(not(target_arch = "x86_64"))]
fn run(_: &File, _: &File, _: &File) -> Result<(), KvmError> {
    let source = io::Error::other("this test has no guest for this processor architecture");
    Err(KvmError { step: "run a guest", source })
}

#[cfg(target_arch = "x86_64")]
use x86_64::run;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::ptr;

    use super::*;

    const GET_VCPU_MMAP_SIZE: u64 = 0xae04;
    const RUN: u64 = 0xae80;
    const SET_USER_MEMORY_REGION: u64 = 0x4020_ae46;
    const SET_REGS: u64 = 0x4090_ae82;
    const GET_SREGS: u64 = 0x8138_ae83;
    const SET_SREGS: u64 = 0x4138_ae84;

    /// An ioctl that reads or fills a structure.
    fn exchange<T>(file: &File, request: u64, value: &mut T) -> io::Result<()> {
        // Bits 16 to 29 of a request number are the size of its structure.
        assert_eq!((request >> 16 & 0x3fff) as usize, size_of::<T>());
        // SAFETY: the kernel reads or fills exactly the structure behind the pointer, which is ours
        // and made of plain numbers, and keeps no address of it.
        match unsafe { libc::ioctl(file.as_raw_fd(), request as _, ptr::from_mut(value)) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// The address of the guest's only page, where it starts.
    const START: u64 = 0x1000;
    const PAGE: usize = 0x1000;
    /// `fld1`, then `hlt`.
    const CODE: [u8; 3] = [0xd9, 0xe8, 0xf4];
    const EXIT_HLT: u32 = 5;
    const EXIT_INTERNAL_ERROR: u32 = 17;

    /// `struct kvm_userspace_memory_region`.
    #[repr(C)]
    struct Region {
        slot: u32,
        flags: u32,
        guest_address: u64,
        size: u64,
        host_address: u64,
    }

    /// `struct kvm_regs`: sixteen registers, then these two.
    #[repr(C)]
    struct Registers {
        general: [u64; 16],
        instruction_pointer: u64,
        flags: u64,
    }

    /// `struct kvm_sregs`, of which only the first member, the code segment, changes.
    #[repr(C)]
    struct SpecialRegisters {
        code_base: u64,
        code_limit: u32,
        code_selector: u16,
        rest: [u8; 298],
    }

    pub(super) fn run(device: &File, machine: &File, processor: &File) -> Result<(), KvmError> {
        let failed = |step| move |source| KvmError { step, source };
        let size = request(device, GET_VCPU_MMAP_SIZE, 0);
        let size = size.map_err(failed("ask for the size of its state"))?;
        let memory = Mapping::new(None, PAGE).map_err(failed("give the guest memory"))?;
        // SAFETY: the mapping has one writable page and no other code uses it yet.
        unsafe { memory.address.cast::<[u8; 3]>().write(CODE) };
        let mut region = Region {
            slot: 0,
            flags: 0,
            guest_address: START,
            size: PAGE as u64,
            host_address: memory.address as u64,
        };
        // The kernel keeps the address, and reads and writes there only while the guest runs.
        exchange(machine, SET_USER_MEMORY_REGION, &mut region)
            .map_err(failed("give the guest memory"))?;
        let state = Mapping::new(Some(processor), size.unsigned_abs() as usize)
            .map_err(failed("map the processor's state"))?;
        set_registers(processor).map_err(failed("set the processor's registers"))?;
        request(processor, RUN, 0).map_err(failed("run the guest"))?;
        // SAFETY: `struct kvm_run` begins with eight bytes for requests, then the exit reason; the
        // mapping is at least a page, and the kernel writes it only during the request above.
        let reason = unsafe { state.address.cast::<u32>().add(2).read_volatile() };
        let reason = match reason {
            EXIT_HLT => return Ok(()),
            EXIT_INTERNAL_ERROR => {
                "the kernel emulates the processor instead of using it, and does not support an \
                 ordinary instruction"
                    .to_owned()
            }
            other => format!("it stopped for reason {other} instead of its own `hlt`"),
        };
        Err(KvmError { step: "run the guest", source: io::Error::other(reason) })
    }

    /// Real mode, starting at the start of the page.
    fn set_registers(processor: &File) -> io::Result<()> {
        let mut special =
            SpecialRegisters { code_base: 0, code_limit: 0, code_selector: 0, rest: [0; 298] };
        exchange(processor, GET_SREGS, &mut special)?;
        special.code_base = 0;
        special.code_selector = 0;
        exchange(processor, SET_SREGS, &mut special)?;
        // Bit 1 of the flags is always set.
        let mut registers = Registers { general: [0; 16], instruction_pointer: START, flags: 2 };
        exchange(processor, SET_REGS, &mut registers)
    }

    /// Memory shared with the kernel, unmapped when dropped.
    struct Mapping {
        address: *mut libc::c_void,
        size: usize,
    }

    impl Mapping {
        fn new(file: Option<&File>, size: usize) -> io::Result<Mapping> {
            let (anonymous, descriptor) = match file {
                Some(file) => (0, file.as_raw_fd()),
                None => (libc::MAP_ANONYMOUS, -1),
            };
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_SHARED | anonymous;
            // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
            let address = unsafe { libc::mmap(ptr::null_mut(), size, rights, kind, descriptor, 0) };
            match address {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                address => Ok(Mapping { address, size }),
            }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours and nothing points into it any more; a guest that still
            // has it as memory does not run again.
            unsafe { libc::munmap(self.address, self.size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_not_kvm_fails_at_the_first_step_that_detects_it() {
        let error = run_tiny_guest(Path::new("/nowhere")).unwrap_err();
        assert_eq!((error.step, error.source.kind()), ("open the device", io::ErrorKind::NotFound));
        let error = run_tiny_guest(Path::new("/dev/null")).unwrap_err();
        let errno = error.source.raw_os_error();
        assert_eq!((error.step, errno), ("ask for its version", Some(libc::ENOTTY)));
    }
}
