//! Compares a 64-bit argument with a 32-bit accumulator.

use super::assemble::{Assembler, Position, Test};
use super::{ARGUMENTS, CompileError};
use crate::{Comparison, Condition, Width};

/// Refuses a meaningless condition.
pub(super) fn check(condition: &Condition, syscall: &'static str) -> Result<(), CompileError> {
    let Condition { argument, width, comparison } = *condition;
    if argument > 5 {
        return Err(CompileError::NoSuchArgument { syscall, argument });
    }
    let value = match comparison {
        Comparison::MaskedEqual { mask, value } => mask | value,
        Comparison::Equal(value)
        | Comparison::NotEqual(value)
        | Comparison::AtLeast(value)
        | Comparison::AtMost(value)
        | Comparison::Greater(value)
        | Comparison::Less(value) => value,
    };
    match width {
        Width::Low32 if value > u64::from(u32::MAX) => {
            Err(CompileError::TooWide { syscall, value })
        }
        Width::Low32 | Width::Whole => Ok(()),
    }
}

/// Continues at `yes` if the condition holds, otherwise at `no`.
pub(super) fn emit(
    assembler: &mut Assembler,
    condition: &Condition,
    yes: Position,
    no: Position,
) -> Position {
    let argument = Argument { index: condition.argument, width: condition.width };
    match condition.comparison {
        Comparison::Equal(value) => argument.masked(assembler, u64::MAX, value, yes, no),
        Comparison::NotEqual(value) => argument.masked(assembler, u64::MAX, value, no, yes),
        Comparison::MaskedEqual { mask, value } => argument.masked(assembler, mask, value, yes, no),
        Comparison::AtLeast(value) => argument.ordered(assembler, Test::AtLeast, value, yes, no),
        Comparison::Less(value) => argument.ordered(assembler, Test::AtLeast, value, no, yes),
        Comparison::Greater(value) => argument.ordered(assembler, Test::Greater, value, yes, no),
        Comparison::AtMost(value) => argument.ordered(assembler, Test::Greater, value, no, yes),
    }
}

#[derive(Clone, Copy)]
struct Argument {
    index: u8,
    width: Width,
}

impl Argument {
    /// Both architectures are little endian: the low half comes first.
    fn low_half(self) -> u32 {
        ARGUMENTS + 8 * u32::from(self.index)
    }

    fn high_half(self) -> u32 {
        self.low_half() + 4
    }

    fn masked(
        self,
        assembler: &mut Assembler,
        mask: u64,
        value: u64,
        yes: Position,
        no: Position,
    ) -> Position {
        let half = |assembler: &mut Assembler, offset, mask: u32, value, yes| {
            let compare = assembler.branch(Test::Equal, value, yes, no);
            let masked = if mask == u32::MAX { compare } else { assembler.and(mask, compare) };
            assembler.load(offset, masked)
        };
        let low = half(assembler, self.low_half(), low(mask), low(value), yes);
        match self.width {
            Width::Low32 => low,
            Width::Whole => half(assembler, self.high_half(), high(mask), high(value), low),
        }
    }

    fn ordered(
        self,
        assembler: &mut Assembler,
        test: Test,
        value: u64,
        yes: Position,
        no: Position,
    ) -> Position {
        let compare = assembler.branch(test, low(value), yes, no);
        let low_half = assembler.load(self.low_half(), compare);
        match self.width {
            Width::Low32 => low_half,
            Width::Whole => {
                // The low halves decide only if the high halves are equal.
                let equal = assembler.branch(Test::Equal, high(value), low_half, no);
                let greater = assembler.branch(Test::Greater, high(value), yes, equal);
                assembler.load(self.high_half(), greater)
            }
        }
    }
}

fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}
