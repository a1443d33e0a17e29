//! An interpreter for the BPF subset of our programs, for tests.

use stockade_sys::Instruction;

use super::assemble::{
    AND, JUMP, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, JUMP_GREATER, LOAD, RETURN, encode,
};
use crate::{Action, Call};

/// The kernel value that a program returns for a call, and the number of executed instructions.
pub(crate) fn run(program: &[Instruction], call: &Call) -> (u32, usize) {
    let data = data(call);
    let mut accumulator = 0;
    let mut at = 0;
    for steps in 1.. {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match code {
            LOAD => {
                let start = k as usize;
                accumulator = u32::from_le_bytes(data[start..start + 4].try_into().unwrap());
            }
            AND => accumulator &= k,
            JUMP => at += k as usize,
            JUMP_EQUAL => branch(accumulator == k),
            JUMP_GREATER => branch(accumulator > k),
            JUMP_AT_LEAST => branch(accumulator >= k),
            JUMP_ANY_BIT => branch(accumulator & k != 0),
            RETURN => return (k, steps),
            other => panic!("operation {other:#x} is not one we write"),
        }
    }
    unreachable!("jumps only go forward")
}

/// The kernel value of an action.
pub(crate) fn answer_of(action: Action) -> u32 {
    encode(action)
}

/// `struct seccomp_data`: number, convention, instruction pointer, six arguments.
fn data(call: &Call) -> [u8; 64] {
    let mut data = [0; 64];
    data[0..4].copy_from_slice(&call.number.to_le_bytes());
    data[4..8].copy_from_slice(&call.audit.to_le_bytes());
    for (index, argument) in call.arguments.iter().enumerate() {
        let start = 16 + 8 * index;
        data[start..start + 8].copy_from_slice(&argument.to_le_bytes());
    }
    data
}
