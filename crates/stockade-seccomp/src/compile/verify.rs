//! Checks the kernel's rules for a program before it is installed.

use stockade_sys::Instruction;

use super::assemble::{
    AND, JUMP, JUMP_ANY_BIT, JUMP_AT_LEAST, JUMP_EQUAL, JUMP_GREATER, LOAD, RETURN,
};
use super::{CompileError, DATA_BYTES, MOST_INSTRUCTIONS};

/// Refuses a program that is too long, jumps or reads out of bounds, or does not end with a return.
pub(super) fn verify(program: &[Instruction]) -> Result<(), CompileError> {
    if program.len() > MOST_INSTRUCTIONS {
        return Err(CompileError::TooLong { instructions: program.len() });
    }
    match program.iter().enumerate().position(|(index, one)| !is_sound(program, index, one)) {
        Some(index) => Err(CompileError::Malformed { index }),
        None if program.is_empty() => Err(CompileError::Malformed { index: 0 }),
        None => Ok(()),
    }
}

fn is_sound(program: &[Instruction], index: usize, one: &Instruction) -> bool {
    let reaches = |skipped: usize| skipped < program.len() - index - 1;
    match one.code {
        LOAD => one.k.is_multiple_of(4) && one.k < DATA_BYTES && reaches(0),
        AND => reaches(0),
        JUMP => reaches(one.k as usize),
        JUMP_EQUAL | JUMP_GREATER | JUMP_AT_LEAST | JUMP_ANY_BIT => {
            reaches(usize::from(one.jt)) && reaches(usize::from(one.jf))
        }
        RETURN => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Instruction = Instruction { code: RETURN, jt: 0, jf: 0, k: 0 };

    fn with(code: u16, jt: u8, jf: u8, k: u32) -> Result<(), CompileError> {
        verify(&[END, Instruction { code, jt, jf, k }, END])
    }

    #[test]
    fn program_within_the_rules_is_accepted() {
        assert_eq!(with(LOAD, 0, 0, 60), Ok(()));
        assert_eq!(with(JUMP, 0, 0, 0), Ok(()));
        assert_eq!(with(JUMP_EQUAL, 0, 0, 7), Ok(()));
        assert_eq!(verify(&vec![END; 4096]), Ok(()));
    }

    #[test]
    fn each_violated_rule_is_reported_with_its_position() {
        let malformed = Err(CompileError::Malformed { index: 1 });
        for (what, answer) in [
            ("a load past the data", with(LOAD, 0, 0, 64)),
            ("a load across words", with(LOAD, 0, 0, 2)),
            ("a jump past the end", with(JUMP, 0, 0, 1)),
            ("a far jump past the end", with(JUMP, 0, 0, u32::MAX)),
            ("a branch past the end", with(JUMP_EQUAL, 1, 0, 0)),
            ("the other branch past the end", with(JUMP_AT_LEAST, 0, 1, 0)),
            ("an operation we never write", with(0x07, 0, 0, 0)),
            ("no answer at the end", verify(&[END, Instruction { code: AND, ..END }])),
        ] {
            assert_eq!(answer, malformed, "{what}");
        }
        assert_eq!(verify(&[]), Err(CompileError::Malformed { index: 0 }));
        assert_eq!(verify(&vec![END; 4097]), Err(CompileError::TooLong { instructions: 4097 }));
    }
}
