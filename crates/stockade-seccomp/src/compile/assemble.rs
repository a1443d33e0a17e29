//! Writes a program from its end to its start.
//!
//! Classic BPF jumps only forward. Written backwards, every target exists before the jump to it, so
//! each distance is known at once and no labels need resolving.

use std::collections::BTreeMap;

use stockade_sys::Instruction;

use super::Action;

pub(super) const LOAD: u16 = 0x20;
pub(super) const AND: u16 = 0x54;
pub(super) const JUMP: u16 = 0x05;
pub(super) const JUMP_EQUAL: u16 = 0x15;
pub(super) const JUMP_GREATER: u16 = 0x25;
pub(super) const JUMP_AT_LEAST: u16 = 0x35;
pub(super) const JUMP_ANY_BIT: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

/// The largest distance of a conditional jump.
const FAR: usize = u8::MAX as usize;

/// How the accumulator is compared with a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Test {
    Equal,
    Greater,
    AtLeast,
    AnyBit,
}

/// A position in the program, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(usize);

/// A program under construction; `written[0]` is its last instruction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    written: Vec<Instruction>,
    /// The last position of each return instruction.
    answers: BTreeMap<u32, Position>,
}

impl Assembler {
    /// Returns the action. Reuses a return instruction that is near enough.
    pub(super) fn answer(&mut self, action: Action) -> Position {
        let value = encode(action);
        match self.answers.get(&value) {
            // Leaves space for two long jumps, which `branch` may insert.
            Some(&place) if self.distance(place) + 2 <= FAR => place,
            _ => {
                let place = self.write(RETURN, 0, 0, value);
                self.answers.insert(value, place);
                place
            }
        }
    }

    /// Loads four bytes of `struct seccomp_data`, then continues at `next`.
    pub(super) fn load(&mut self, offset: u32, next: Position) -> Position {
        self.before(next);
        self.write(LOAD, 0, 0, offset)
    }

    /// Masks the accumulator, then continues at `next`.
    pub(super) fn and(&mut self, mask: u32, next: Position) -> Position {
        self.before(next);
        self.write(AND, 0, 0, mask)
    }

    /// Continues at `yes` if the test holds, otherwise at `no`.
    pub(super) fn branch(
        &mut self,
        test: Test,
        value: u32,
        yes: Position,
        no: Position,
    ) -> Position {
        if yes == no {
            return yes;
        }
        let code = match test {
            Test::Equal => JUMP_EQUAL,
            Test::Greater => JUMP_GREATER,
            Test::AtLeast => JUMP_AT_LEAST,
            Test::AnyBit => JUMP_ANY_BIT,
        };
        // One more than the current distance: a bridge jump for one target moves the other further
        // away.
        let yes = if self.distance(yes) + 1 > FAR { self.jump(yes) } else { yes };
        let no = if self.distance(no) > FAR { self.jump(no) } else { no };
        let (jt, jf) = (self.distance(yes) as u8, self.distance(no) as u8);
        self.write(code, jt, jf, value)
    }

    /// The program in the order of execution.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        self.written.reverse();
        self.written
    }

    /// Ensures that the next written instruction falls through to `next`.
    fn before(&mut self, next: Position) {
        if self.distance(next) > 0 {
            self.jump(next);
        }
    }

    /// Continues at `target`, at any distance.
    fn jump(&mut self, target: Position) -> Position {
        let distance = self.distance(target) as u32;
        self.write(JUMP, 0, 0, distance)
    }

    /// How many instructions the next written one would skip to reach `target`.
    fn distance(&self, target: Position) -> usize {
        self.written.len() - target.0 - 1
    }

    fn write(&mut self, code: u16, jt: u8, jf: u8, k: u32) -> Position {
        self.written.push(Instruction { code, jt, jf, k });
        Position(self.written.len() - 1)
    }
}

/// The value a filter returns for an action, `SECCOMP_RET_*`.
pub(super) fn encode(action: Action) -> u32 {
    match action {
        Action::KillProcess => 0x8000_0000,
        Action::KillThread => 0x0000_0000,
        Action::Trap(value) => 0x0003_0000 | u32::from(value),
        Action::Errno(errno) => 0x0005_0000 | u32::from(errno),
        Action::Log => 0x7ffc_0000,
        Action::Allow => 0x7fff_0000,
    }
}
