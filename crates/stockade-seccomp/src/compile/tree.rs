//! The search tree over call numbers.

use super::assemble::{Assembler, Position, Test};
use super::{CompileError, condition};
use crate::profile::ENOSYS;
use crate::{Action, Architecture, Profile, Rule};

/// The behaviour from one number up to the next leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    from: u32,
    rules: Vec<Rule>,
    otherwise: Action,
}

/// All numbers, in ranges with the same behaviour.
pub(super) fn leaves(
    profile: &Profile,
    architecture: Architecture,
) -> Result<Vec<Leaf>, CompileError> {
    check_action(profile.default)?;
    let mut listed = Vec::new();
    for (syscall, rules) in &profile.rules {
        for rule in rules {
            check_action(rule.action)?;
            for one in &rule.conditions {
                condition::check(one, syscall.name())?;
            }
        }
        listed.extend(syscall.number(architecture).map(|number| (number, rules)));
    }
    listed.sort_by_key(|(number, _)| *number);

    let mut leaves = Vec::new();
    let mut from = 0;
    for (number, rules) in listed {
        if from < number {
            push(&mut leaves, Leaf { from, rules: Vec::new(), otherwise: profile.default });
        }
        push(&mut leaves, leaf(number, rules, profile.default));
        from = number + 1;
    }
    if from <= architecture.highest() {
        push(&mut leaves, Leaf { from, rules: Vec::new(), otherwise: profile.default });
    }
    let unknown = architecture.highest() + 1;
    push(&mut leaves, Leaf { from: unknown, rules: Vec::new(), otherwise: Action::Errno(ENOSYS) });
    Ok(leaves)
}

/// Writes the search over the leaves. The accumulator contains the call number at its start.
pub(super) fn emit(assembler: &mut Assembler, leaves: &[Leaf]) -> Position {
    match leaves {
        [] => assembler.answer(Action::KillProcess),
        [leaf] => emit_leaf(assembler, leaf),
        _ => {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            let first_right = right[0].from;
            let right = emit(assembler, right);
            let left = emit(assembler, left);
            assembler.branch(Test::AtLeast, first_right, right, left)
        }
    }
}

fn emit_leaf(assembler: &mut Assembler, leaf: &Leaf) -> Position {
    let mut next = assembler.answer(leaf.otherwise);
    for rule in leaf.rules.iter().rev() {
        let mut matched = assembler.answer(rule.action);
        for one in rule.conditions.iter().rev() {
            matched = condition::emit(assembler, one, matched, next);
        }
        next = matched;
    }
    next
}

/// A leaf without unreachable rules.
fn leaf(from: u32, rules: &[Rule], default: Action) -> Leaf {
    match rules.iter().position(|rule| rule.conditions.is_empty()) {
        Some(last) => Leaf { from, rules: rules[..last].to_vec(), otherwise: rules[last].action },
        None => Leaf { from, rules: rules.to_vec(), otherwise: default },
    }
}

/// Adds a leaf, unless the previous one has the same behaviour.
fn push(leaves: &mut Vec<Leaf>, leaf: Leaf) {
    match leaves.last() {
        Some(last) if last.rules == leaf.rules && last.otherwise == leaf.otherwise => {}
        _ => leaves.push(leaf),
    }
}

fn check_action(action: Action) -> Result<(), CompileError> {
    match action {
        Action::Errno(errno) if errno > Action::HIGHEST_ERRNO => {
            Err(CompileError::ErrnoTooHigh { errno })
        }
        _ => Ok(()),
    }
}
