//! From a profile to the program the kernel runs on every call.
//!
//! ```text
//! calling convention ──other──> kill
//! x32 number ──────────yes────> kill
//! tree of number ranges: about log2(ranges) comparisons
//!   └── leaf: an answer, or the argument conditions of one call and then an answer
//! ```
//! The program is written from its end to its beginning, see [`assemble`].

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

/// Where the kernel puts the number of the call, `struct seccomp_data`.
const NUMBER: u32 = 0;
/// Where it puts the calling convention.
const AUDIT: u32 = 4;
/// Where it puts the arguments, eight bytes each.
const ARGUMENTS: u32 = 16;
/// How many bytes there are.
const DATA_BYTES: u32 = 64;
/// The kernel's limit, `BPF_MAXINSNS`.
const MOST_INSTRUCTIONS: usize = 4096;

/// Why a profile cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A call has six arguments.
    #[error("the rule for {syscall} compares argument {argument}, and a call has only 0 to 5")]
    NoSuchArgument {
        /// The call.
        syscall: &'static str,
        /// The argument.
        argument: u8,
    },
    /// A number that half an argument cannot be.
    #[error("the rule for {syscall} compares the low 32 bits of an argument with {value:#x}")]
    TooWide {
        /// The call.
        syscall: &'static str,
        /// The number.
        value: u64,
    },
    /// An error number the kernel would cut.
    #[error("the error number {errno} is above {}", Action::HIGHEST_ERRNO)]
    ErrnoTooHigh {
        /// The number.
        errno: u16,
    },
    /// More than the kernel takes.
    #[error("the filter has {instructions} instructions, and the kernel takes {MOST_INSTRUCTIONS}")]
    TooLong {
        /// How many there are.
        instructions: usize,
    },
    /// The finished program broke a rule of the kernel; this is a mistake of the compiler.
    #[error("instruction {index} of the compiled filter is malformed")]
    Malformed {
        /// Which instruction.
        index: usize,
    },
}

/// A filter the kernel accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

impl Program {
    /// A program that was compiled before.
    pub(super) fn of(instructions: Vec<Instruction>) -> Program {
        Program(instructions)
    }

    /// The instructions, to be handed to [`stockade_sys::install_filter`].
    pub fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// Compiles a profile. The program answers every call as [`Profile::evaluate`] does.
pub fn compile(profile: &Profile, architecture: Architecture) -> Result<Program, CompileError> {
    let mut assembler = Assembler::default();
    let leaves = tree::leaves(profile, architecture)?;
    let tree = tree::emit(&mut assembler, &leaves);
    let after_number = match architecture.x32_from() {
        None => tree,
        Some(bit) => {
            // -1 has the bit too, and is no call at all.
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
