//! Compiles a profile to the BPF program that the kernel runs on every call.
//!
//! ```text
//! calling convention ──other──> kill
//! x32 number ──────────yes────> kill
//! tree of number ranges: about log2(ranges) comparisons
//!   └── leaf: an answer, or the argument conditions of one call and then an answer
//! ```
//! The compiler writes the program from its end to its start, see [`assemble`].

mod assemble;
mod condition;
mod tree;
mod verify;

#[cfg(test)]
mod interpret;

use stockade_sys::Instruction;

use super::profile::ENOSYS;
use super::{Action, Architecture, Profile};
use assemble::{Assembler, Test};

/// The offset of the call number in `struct seccomp_data`.
const NUMBER: u32 = 0;
/// The offset of the calling convention.
const AUDIT: u32 = 4;
/// The offset of the arguments, eight bytes each.
const ARGUMENTS: u32 = 16;
/// The size of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;
/// The kernel's limit, `BPF_MAXINSNS`.
const MOST_INSTRUCTIONS: usize = 4096;

/// Why a profile cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A rule compares an argument after the sixth.
    #[error("the rule for {syscall} compares argument {argument}, and a call has only 0 to 5")]
    NoSuchArgument {
        /// The call.
        syscall: &'static str,
        /// The argument.
        argument: u8,
    },
    /// A value that does not fit into half an argument.
    #[error("the rule for {syscall} compares the low 32 bits of an argument with {value:#x}")]
    TooWide {
        /// The call.
        syscall: &'static str,
        /// The value.
        value: u64,
    },
    /// An error number that the kernel would truncate.
    #[error("the error number {errno} is above {}", Action::HIGHEST_ERRNO)]
    ErrnoTooHigh {
        /// The number.
        errno: u16,
    },
    /// More instructions than the kernel accepts.
    #[error("the filter has {instructions} instructions, and the kernel takes {MOST_INSTRUCTIONS}")]
    TooLong {
        /// The number of instructions.
        instructions: usize,
    },
    /// The compiled program violates a rule of the kernel; this is a bug in the compiler.
    #[error("instruction {index} of the compiled filter is malformed")]
    Malformed {
        /// The index of the instruction.
        index: usize,
    },
}

/// A filter that the kernel accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// Wraps a program that was compiled before.
    pub(super) fn of(instructions: Vec<Instruction>) -> Program {
        Program(instructions)
    }

    /// The instructions, for [`stockade_sys::install_filter`].
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// Compiles a profile. The program returns the same action as [`Profile::evaluate`] for every call.
pub fn compile(profile: &Profile, architecture: Architecture) -> Result<Program, CompileError> {
    let mut assembler = Assembler::default();
    let leaves = tree::leaves(profile, architecture)?;
    let tree = tree::emit(&mut assembler, &leaves);
    let after_number = match architecture.x32_from() {
        None => tree,
        Some(bit) => {
            // The number -1 also has this bit, and is not a call.
            let kill = assembler.answer(Action::KillProcess);
            let no_call = assembler.answer(Action::Errno(ENOSYS));
            let x32 = assembler.branch(Test::Equal, u32::MAX, no_call, kill);
            assembler.branch(Test::AnyBit, bit, x32, tree)
        }
    };
    let number = assembler.load(NUMBER, after_number);
    let kill = assembler.answer(Action::KillProcess);
    let convention = assembler.branch(Test::Equal, architecture.audit(), number, kill);
    assembler.load(AUDIT, convention);
    let instructions = assembler.finish();
    verify::verify(&instructions)?;
    Ok(Program(instructions))
}

#[cfg(test)]
#[path = "compile_tests.rs"]
pub(crate) mod tests;
