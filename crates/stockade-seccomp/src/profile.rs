//! A filter as plain data, and its semantics.

use std::collections::BTreeMap;

use super::{Architecture, Syscall};

/// `ENOSYS`: the error of a call that the kernel lacks.
pub(super) const ENOSYS: u16 = 38;

/// What the kernel does with a call, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Kills the whole process with SIGSYS.
    KillProcess,
    /// Kills the calling thread with SIGSYS.
    KillThread,
    /// Skips the call and sends SIGSYS with this value.
    Trap(u16),
    /// Skips the call and returns this error number.
    Errno(u16),
    /// Executes the call and writes a line to the kernel's log.
    Log,
    /// Executes the call.
    Allow,
}

impl Action {
    /// The largest error number that the kernel returns.
    pub const HIGHEST_ERRNO: u16 = 4095;

    /// The rank of the action, strictest first. This is the kernel's order: of several filters, the
    /// result with the lowest rank applies.
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

    /// Whether the kernel executes the call.
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
    /// The low half: for arguments that the kernel itself reads as 32 bits. A caller could
    /// otherwise set the ignored half to bypass a comparison.
    Low32,
    /// All 64 bits.
    Whole,
}

/// An unsigned comparison of an argument with constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It equals this value.
    Equal(u64),
    /// It differs from this value.
    NotEqual(u64),
    /// The masked bits equal this value.
    MaskedEqual {
        /// The compared bits.
        mask: u64,
        /// Their value.
        value: u64,
    },
    /// It is at least this value.
    AtLeast(u64),
    /// It is at most this value.
    AtMost(u64),
    /// It is greater than this value.
    Greater(u64),
    /// It is less than this value.
    Less(u64),
}

/// A comparison of one argument of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, from 0 to 5.
    pub argument: u8,
    /// How much of it.
    pub width: Width,
    /// The comparison.
    pub comparison: Comparison,
}

impl Condition {
    /// Whether the condition holds for these arguments. It never holds for an argument that does
    /// not exist.
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

/// The action for a call if all conditions hold. An empty list always holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The action.
    pub action: Action,
}

impl Rule {
    /// A rule for a call with any arguments.
    pub fn always(action: Action) -> Rule {
        Rule { conditions: Vec::new(), action }
    }
}

/// A call as a filter sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The calling convention, `AUDIT_ARCH_*`.
    pub audit: u32,
    /// The number of the call.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// A filter: the rules for each call, of which the first that matches applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The action if no rule matches.
    pub default: Action,
    /// The rules.
    pub rules: BTreeMap<Syscall, Vec<Rule>>,
}

impl Profile {
    /// The action for a call on this architecture.
    ///
    /// This defines the semantics of a profile; [`compile`](super::compile) creates a program with
    /// the same results. In addition to the rules:
    /// - another calling convention, including x32, kills: its numbers have other meanings;
    /// - a number above all known ones is `ENOSYS`, so that programs fall back to calls they know;
    /// - so is -1 on x86-64, a tracer's mark for "no call", although its bits look like x32.
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
