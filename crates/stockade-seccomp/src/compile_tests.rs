use proptest::prelude::*;

use super::interpret::{answer_of, run};
use super::*;
use crate::{
    Call, Comparison, Condition, ExecutableMemfd, Options, Rule, Syscall, Tracing, Width, built_in,
};

const X32: u32 = 0x4000_0000;
const I386: u32 = 0x4000_0003;

/// Checks that the program and the profile return the same action.
fn assert_same(profile: &Profile, program: &Program, architecture: Architecture, call: &Call) {
    let (answer, _) = run(program.instructions(), call);
    let expected = profile.evaluate(architecture, call);
    assert_eq!(answer, answer_of(expected), "{architecture:?} {call:?} wants {expected:?}");
}

/// Checks every number up to `highest + 600`, with and without the x32 bit, the extreme numbers,
/// and another calling convention; each with every boundary value in every argument.
fn assert_same_everywhere(profile: &Profile, architecture: Architecture) -> Program {
    let program = compile(profile, architecture).unwrap();
    let native = architecture.audit();
    for number in 0..=architecture.highest() + 600 {
        for arguments in interesting(profile, architecture, number) {
            assert_same(
                profile,
                &program,
                architecture,
                &Call { audit: native, number, arguments },
            );
        }
        for (audit, number) in [(native, number | X32), (I386, number), (I386, number | X32)] {
            let call = Call { audit, number, arguments: [0; 6] };
            assert_same(profile, &program, architecture, &call);
        }
    }
    for number in [X32 - 1, X32, 0x7fff_ffff, 0x8000_0000, 0xbfff_ffff, u32::MAX - 1, u32::MAX] {
        for audit in [native, 0, I386, u32::MAX] {
            let call = Call { audit, number, arguments: [0; 6] };
            assert_same(profile, &program, architecture, &call);
        }
    }
    program
}

/// Arguments around every value that the rules of a call compare with.
fn interesting(profile: &Profile, architecture: Architecture, number: u32) -> Vec<[u64; 6]> {
    let own = |(syscall, _): &(&Syscall, &Vec<Rule>)| syscall.number(architecture) == Some(number);
    let rules = profile.rules.iter().find(own).map(|(_, rules)| rules.as_slice()).unwrap_or(&[]);
    let mut per_argument = [const { Vec::new() }; 6];
    for condition in rules.iter().flat_map(|rule| &rule.conditions) {
        per_argument[usize::from(condition.argument)].extend(boundaries(condition.comparison));
    }
    let mut all = vec![[0; 6], [u64::MAX; 6]];
    for (argument, values) in per_argument.iter_mut().enumerate() {
        values.sort_unstable();
        values.dedup();
        // In addition to the earlier combinations: two conditions of one rule must hold together.
        let before = all.clone();
        for earlier in before.iter().take(100) {
            all.extend(values.iter().map(|&value| {
                let mut arguments = *earlier;
                arguments[argument] = value;
                arguments
            }));
        }
    }
    all
}

fn boundaries(comparison: Comparison) -> Vec<u64> {
    let around = |value: u64| {
        let high = 0xdead_beef_0000_0000;
        let halves = [value ^ 1 << 32, value | high, value & 0xffff_ffff, value.rotate_left(32)];
        let near = [value, value.wrapping_add(1), value.wrapping_sub(1), !value];
        [near, halves].concat()
    };
    match comparison {
        Comparison::MaskedEqual { mask, value } => {
            let bits = (0..64).map(|bit| value ^ (1 << bit));
            let mut all = around(value);
            all.extend(around(mask));
            all.extend(bits);
            all.push(value | !mask);
            all
        }
        Comparison::Equal(value)
        | Comparison::NotEqual(value)
        | Comparison::AtLeast(value)
        | Comparison::AtMost(value)
        | Comparison::Greater(value)
        | Comparison::Less(value) => around(value),
    }
}

#[test]
fn compiled_built_in_profile_equals_its_evaluation_for_every_number() {
    for architecture in Architecture::ALL {
        for executable_memfd in [ExecutableMemfd::Allowed, ExecutableMemfd::Refused] {
            for tracing in [Tracing::Refused, Tracing::Allowed] {
                let profile = built_in(Options { executable_memfd, tracing });
                assert_same_everywhere(&profile, architecture);
            }
        }
    }
}

#[test]
fn search_takes_logarithmically_many_comparisons() {
    let profile = built_in(Options::default());
    for architecture in Architecture::ALL {
        let program = compile(&profile, architecture).unwrap();
        let steps = |number| {
            let call = Call { audit: architecture.audit(), number, arguments: [0; 6] };
            run(program.instructions(), &call).1
        };
        let numbers = 0..=architecture.highest();
        let socket = Syscall::named("socket").unwrap().number(architecture).unwrap();
        let longest = numbers.filter(|number| *number != socket).map(steps).max().unwrap();
        assert!(program.instructions().len() < 350, "{}", program.instructions().len());
        assert!(longest <= 24, "{longest} instructions");
        assert!(steps(socket) <= 48, "{} instructions", steps(socket));
    }
}

#[test]
fn profile_without_rules_returns_its_default() {
    for default in [Action::Allow, Action::KillThread, Action::Errno(38), Action::Log] {
        let profile = Profile { default, rules: Default::default() };
        for architecture in Architecture::ALL {
            assert_same_everywhere(&profile, architecture);
        }
    }
}

#[test]
fn jumps_longer_than_a_byte_are_bridged() {
    // Each call has its own conditions, so that leaves are long and the tree is wide.
    let rule = |value: u64| {
        let comparison = Comparison::AtLeast(value << 31);
        let condition = |argument| Condition { argument, width: Width::Whole, comparison };
        let conditions = vec![condition(0), condition(3), condition(5)];
        Rule { conditions, action: Action::Trap(value as u16) }
    };
    let calls = Syscall::all().take(150);
    let rules = calls.zip(0..).map(|(syscall, value)| (syscall, vec![rule(value)])).collect();
    let profile = Profile { default: Action::Allow, rules };
    for architecture in Architecture::ALL {
        let program = assert_same_everywhere(&profile, architecture);
        let long = |one: &&Instruction| one.code == assemble::JUMP && one.k > 255;
        assert!(program.instructions().iter().any(|one| long(&one)), "nothing was bridged");
    }
}

#[test]
fn meaningless_rules_are_refused_and_name_the_call() {
    let syscall = Syscall::named("ioctl").unwrap();
    let with = |argument, width, value, action| {
        let condition = Condition { argument, width, comparison: Comparison::Equal(value) };
        let rule = Rule { conditions: vec![condition], action };
        let rules = [(syscall, vec![rule])].into();
        compile(&Profile { default: Action::Allow, rules }, Architecture::X86_64)
    };
    assert!(with(5, Width::Low32, 0xffff_ffff, Action::Errno(4095)).is_ok());
    assert_eq!(
        with(6, Width::Low32, 0, Action::Allow),
        Err(CompileError::NoSuchArgument { syscall: "ioctl", argument: 6 })
    );
    assert_eq!(
        with(0, Width::Low32, 1 << 32, Action::Allow),
        Err(CompileError::TooWide { syscall: "ioctl", value: 1 << 32 })
    );
    assert_eq!(
        with(0, Width::Whole, 0, Action::Errno(4096)),
        Err(CompileError::ErrnoTooHigh { errno: 4096 })
    );
}

#[test]
fn profile_too_large_for_the_kernel_is_refused() {
    let syscall = Syscall::named("ioctl").unwrap();
    let rule = |value| {
        let comparison = Comparison::Equal(value);
        let condition = Condition { argument: 1, width: Width::Whole, comparison };
        Rule { conditions: vec![condition], action: Action::Allow }
    };
    let rules = [(syscall, (0..1100).map(rule).collect())].into();
    let refused = compile(&Profile { default: Action::Log, rules }, Architecture::X86_64);
    assert!(matches!(refused, Err(CompileError::TooLong { instructions }) if instructions > 4096));
}

pub(crate) fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Allow),
        1 => Just(Action::Log),
        1 => Just(Action::KillProcess),
        1 => Just(Action::KillThread),
        1 => any::<u16>().prop_map(Action::Trap),
        3 => (0..=4095_u16).prop_map(Action::Errno),
    ]
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let value = prop_oneof![
        0..4_u64,
        any::<u32>().prop_map(u64::from),
        any::<u32>().prop_map(|high| u64::from(high) << 32),
        any::<u64>(),
        Just(u64::MAX),
    ];
    (0..6_u8, any::<bool>(), value.clone(), value, 0..7).prop_map(
        |(argument, whole, value, mask, kind)| {
            let cut = if whole { u64::MAX } else { 0xffff_ffff };
            let (value, mask) = (value & cut, mask & cut);
            let comparison = match kind {
                0 => Comparison::Equal(value),
                1 => Comparison::NotEqual(value),
                2 => Comparison::MaskedEqual { mask, value },
                3 => Comparison::AtLeast(value),
                4 => Comparison::AtMost(value),
                5 => Comparison::Greater(value),
                _ => Comparison::Less(value),
            };
            let width = if whole { Width::Whole } else { Width::Low32 };
            Condition { argument, width, comparison }
        },
    )
}

pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    let rule = (prop::collection::vec(any_condition(), 0..3), any_action())
        .prop_map(|(conditions, action)| Rule { conditions, action });
    let calls: Vec<Syscall> = Syscall::all().collect();
    let entry = (prop::sample::select(calls), prop::collection::vec(rule, 0..4));
    (any_action(), prop::collection::vec(entry, 0..60))
        .prop_map(|(default, rules)| Profile { default, rules: rules.into_iter().collect() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn any_compiled_profile_equals_its_evaluation(profile in any_profile()) {
        for architecture in Architecture::ALL {
            assert_same_everywhere(&profile, architecture);
        }
    }
}
