use proptest::prelude::*;

use super::super::compile::tests::{any_action, any_profile};
use super::*;
use crate::{
    Comparison, Condition, Options, Rule, Syscall, Width, built_in, needed_by_guest,
    needed_to_start,
};

fn allowing(names: impl Iterator<Item = Syscall>) -> Profile {
    let rules = names.map(|syscall| (syscall, vec![Rule::always(Action::Allow)])).collect();
    Profile { default: Action::Errno(1), rules }
}

#[test]
fn profile_under_which_nothing_starts_is_refused_with_the_call() {
    assert!(tighten(built_in(Options::default()), allowing(needed_to_start())).is_ok());
    for missing in needed_to_start() {
        let custom = allowing(needed_to_start().filter(|syscall| *syscall != missing));
        let refused = TightenError::ForbidsStart { syscall: missing.name() };
        assert_eq!(tighten(built_in(Options::default()), custom), Err(refused));
    }
}

#[test]
fn built_in_profile_lets_programs_start_and_the_guest_work() {
    assert_eq!(forbids_start(&built_in(Options::default())), None);
    let carries = Carries { network: true, tools: true };
    assert_eq!(forbids_guest(&built_in(Options::default()), carries), None);
    assert_eq!(forbids_guest(&built_in(Options::default()), Carries::default()), None);
}

#[test]
fn profile_under_which_the_guest_cannot_work_is_refused_with_the_call() {
    for (network, tools) in [(false, false), (true, false), (false, true), (true, true)] {
        let carries = Carries { network, tools };
        assert_eq!(leaves_guest(&allowing(needed_by_guest(carries)), carries), Ok(()));
        for missing in needed_by_guest(carries) {
            let custom = allowing(needed_by_guest(carries).filter(|call| *call != missing));
            let refused = TightenError::ForbidsGuest { syscall: missing.name() };
            assert_eq!(leaves_guest(&custom, carries), Err(refused));
        }
    }
}

#[test]
fn needed_call_denied_for_some_arguments_only_is_not_called_forbidden() {
    let condition = Condition {
        argument: 2,
        width: Width::Whole,
        comparison: Comparison::MaskedEqual { mask: 4, value: 4 },
    };
    let deny = Rule { conditions: vec![condition], action: Action::KillProcess };
    let mmap = Syscall::named("mmap").unwrap();
    let some = Profile { default: Action::Allow, rules: [(mmap, vec![deny.clone()])].into() };
    assert_eq!(forbids_start(&some), None);
    let all = vec![deny, Rule::always(Action::Errno(1)), Rule::always(Action::Allow)];
    let all = Profile { default: Action::Allow, rules: [(mmap, all)].into() };
    assert_eq!(forbids_start(&all), Some(mmap));
}

#[test]
fn custom_program_is_installed_after_the_built_in_one() {
    let custom = Profile { default: Action::Allow, rules: Default::default() };
    let built_in = built_in(Options::default());
    let filters = tighten(built_in.clone(), custom.clone()).unwrap();
    let architecture = Architecture::X86_64;
    let expected =
        [compile(&built_in, architecture).unwrap(), compile(&custom, architecture).unwrap()];
    assert_eq!(filters.compile(architecture).unwrap(), expected);
    assert_eq!(Filters::built_in(built_in).compile(architecture).unwrap(), expected[..1]);
}

proptest! {
    #[test]
    fn combined_filters_never_allow_what_either_denies(
        built_in in any_profile(),
        custom in any_profile(),
        calls in prop::collection::vec((0..600_u32, any::<[u64; 6]>()), 50),
    ) {
        let filters = Filters { built_in, custom: Some(custom) };
        let architecture = Architecture::X86_64;
        for (number, arguments) in calls {
            let call = Call { audit: architecture.audit(), number, arguments };
            let one = filters.built_in.evaluate(architecture, &call);
            let other = filters.custom.as_ref().unwrap().evaluate(architecture, &call);
            let both = filters.evaluate(architecture, &call);
            prop_assert_eq!(both.rank(), one.rank().min(other.rank()));
            prop_assert_eq!(both.allows(), one.allows() && other.allows());
        }
    }

    #[test]
    fn stricter_of_two_actions_never_allows_what_one_denies(
        one in any_action(),
        other in any_action(),
    ) {
        let strictest = if one.rank() <= other.rank() { one } else { other };
        prop_assert_eq!(strictest.allows(), one.allows() && other.allows());
    }
}
