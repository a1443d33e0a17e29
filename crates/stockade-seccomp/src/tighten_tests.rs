use proptest::prelude::*;

use super::super::compile::tests::{any_action, any_profile};
use super::*;
use crate::{
    Comparison, Condition, Options, Rule, Syscall, Width, built_in, forbids_start, needed_to_start,
};

fn allowing(names: impl Iterator<Item = Syscall>) -> Profile {
    let rules = names.map(|syscall| (syscall, vec![Rule::always(Action::Allow)])).collect();
    Profile { default: Action::Errno(1), rules }
}

#[test]
fn profile_that_prevents_every_start_names_the_call() {
    for native in Architecture::ALL {
        assert_eq!(forbids_start(&allowing(needed_to_start(native)), native), None);
        for missing in needed_to_start(native) {
            let custom = allowing(needed_to_start(native).filter(|syscall| *syscall != missing));
            assert_eq!(forbids_start(&custom, native), Some(missing));
        }
        assert_eq!(forbids_start(&built_in(Options::default()), native), None);
    }
}

#[test]
fn needed_call_denied_for_only_some_arguments_is_not_forbidden() {
    let condition = Condition {
        argument: 2,
        width: Width::Whole,
        comparison: Comparison::MaskedEqual { mask: 4, value: 4 },
    };
    let deny = Rule { conditions: vec![condition], action: Action::KillProcess };
    let mmap = Syscall::named("mmap").unwrap();
    let some = Profile { default: Action::Allow, rules: [(mmap, vec![deny.clone()])].into() };
    let native = Architecture::X86_64;
    assert_eq!(forbids_start(&some, native), None);
    let all = vec![deny, Rule::always(Action::Errno(1)), Rule::always(Action::Allow)];
    let all = Profile { default: Action::Allow, rules: [(mmap, all)].into() };
    assert_eq!(forbids_start(&all, native), Some(mmap));
}

#[test]
fn custom_program_is_installed_after_the_built_in_one() {
    let custom = Profile { default: Action::Allow, rules: Default::default() };
    let built_in = built_in(Options::default());
    let filters = tighten(built_in.clone(), custom.clone());
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
