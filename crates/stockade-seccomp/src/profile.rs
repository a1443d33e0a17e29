//! A filter as plain data, and what it means.

use std::collections::BTreeMap;

use super::{Architecture, Syscall};

/// `ENOSYS`: what a call answers that the kernel does not have.
pub(super) const ENOSYS: u16 = 38;

/// What the kernel does with a call, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the whole process with SIGSYS.
    KillProcess,
    /// Ends the calling thread with SIGSYS.
    KillThread,
    /// Does not make the call and sends SIGSYS with this value.
    Trap(u16),
    /// Does not make the call and answers with this error number.
    Errno(u16),
    /// Makes the call and writes a line to the kernel's log.
    Log,
    /// Makes the call.
    Allow,
}

impl Action {
    /// The largest error number the kernel passes on.
    pub const HIGHEST_ERRNO: u16 = 4095;

    /// Its place among the others, the strictest first. The order is the kernel's: of several
    /// filters, the answer that comes first counts.
    pub fn rank(self) -> u8 {
        match self {
            Action::KillProcess => 0,
            Action::KillThread => 1,
            Action::Trap(_) => 2,
            Action::Errno(_) => 3,
            Action::Log => 4,
            Action::Allow => 5,
        }
    }

    /// Whether the call is made.
    pub fn allows(self) -> bool {
        match self {
            Action::Log | Action::Allow => true,
            Action::KillProcess | Action::KillThread | Action::Trap(_) | Action::Errno(_) => false,
        }
    }
}

/// How much of an argument is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The low half: for arguments the kernel itself takes as 32 bits, where the rest is noise that
    /// a caller may fill to slip past a comparison.
    Low32,
    /// All 64 bits.
    Whole,
}

/// A comparison of an argument with fixed numbers, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It is this number.
    Equal(u64),
    /// It is any other number.
    NotEqual(u64),
    /// The bits of the mask are these.
    MaskedEqual {
        /// The bits that are looked at.
        mask: u64,
        /// What they are.
        value: u64,
    },
    /// It is this number or more.
    AtLeast(u64),
    /// It is this number or less.
    AtMost(u64),
    /// It is more than this number.
    Greater(u64),
    /// It is less than this number.
    Less(u64),
}

/// A comparison of one argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// How much of it.
    pub width: Width,
    /// Compared how.
    pub comparison: Comparison,
}

impl Condition {
    /// Whether a call with these arguments meets it. An argument that does not exist is not met.
    pub fn holds(&self, arguments: &[u64; 6]) -> bool {
        let Some(&argument) = arguments.get(usize::from(self.argument)) else { return false };
        let argument = match self.width {
            Width::Low32 => argument & 0xffff_ffff,
            Width::Whole => argument,
        };
        match self.comparison {
            Comparison::Equal(value) => argument == value,
            Comparison::NotEqual(value) => argument != value,
            Comparison::MaskedEqual { mask, value } => argument & mask == value,
            Comparison::AtLeast(value) => argument >= value,
            Comparison::AtMost(value) => argument <= value,
            Comparison::Greater(value) => argument > value,
            Comparison::Less(value) => argument < value,
        }
    }
}

/// What happens to a call when all conditions hold. None at all always hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The answer.
    pub action: Action,
}

impl Rule {
    /// A rule for every call, whatever its arguments.
    pub fn always(action: Action) -> Rule {
        Rule { conditions: Vec::new(), action }
    }
}

/// A call as the kernel shows it to a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The calling convention, `AUDIT_ARCH_*`.
    pub audit: u32,
    /// The number of the call.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// A filter: for each call its rules, of which the first that matches answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The answer where no rule matches.
    pub default: Action,
    /// The rules.
    pub rules: BTreeMap<Syscall, Vec<Rule>>,
}

impl Profile {
    /// The answer to a call on this architecture.
    ///
    /// This is the meaning of a profile, written to be read; [`compile`](super::compile) makes a
    /// program of it that answers the same. Beyond the rules:
    /// - another calling convention, x32 among them, kills: numbers mean something else there;
    /// - a number above all known ones is `ENOSYS`, so that programs fall back to what they know;
    /// - so is -1 on x86-64, the mark of a tracer for "no call", though its bits look like x32.
    pub fn evaluate(&self, architecture: Architecture, call: &Call) -> Action {
        if call.audit != architecture.audit() {
            return Action::KillProcess;
        }
        if architecture.x32_from().is_some_and(|from| call.number & from != 0) {
            return match call.number {
                u32::MAX => Action::Errno(ENOSYS),
                _ => Action::KillProcess,
            };
        }
        if call.number > architecture.highest() {
            return Action::Errno(ENOSYS);
        }
        let named = |syscall: &&Syscall| syscall.number(architecture) == Some(call.number);
        let rules = self.rules.keys().find(named).and_then(|syscall| self.rules.get(syscall));
        let holds = |rule: &&Rule| rule.conditions.iter().all(|one| one.holds(&call.arguments));
        rules.into_iter().flatten().find(holds).map_or(self.default, |rule| rule.action)
    }
}
