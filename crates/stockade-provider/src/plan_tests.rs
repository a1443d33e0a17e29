use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::{Language, Program, ProgramKinds};
use stockade_policy::Limit;

fn policy(text: &str) -> Policy {
    Policy::parse_str("test", text, Path::new("/srv")).unwrap()
}

fn all_of(precision: Precision) -> BTreeMap<Control, Ability> {
    let enforced = Ability::Enforced { mechanism: "a test".to_owned(), precision };
    Control::all().into_iter().map(|control| (control, enforced.clone())).collect()
}

fn wall(name: &'static str, isolation: Isolation) -> WallFacts {
    let (abilities, programs) = (all_of(Precision::Exact), ProgramKinds::ALL);
    WallFacts { provider: ProviderName::new(name), isolation, unusable: None, programs, abilities }
}

fn refused(report: &WallReport) -> Vec<(&'static str, String)> {
    let refusals = report.controls.iter().filter_map(|finding| match finding {
        Finding::Refused(refusal) => {
            Some((refusal.requirement.control.as_str(), refusal.obstacle.reason.clone()))
        }
        Finding::Enforced(_) => None,
    });
    refusals.collect()
}

#[test]
fn wall_that_enforces_everything_gets_a_plan_with_a_mechanism_for_each_control() {
    let policy = policy("network_allowlist: [example.org]\ntool_allowlist: [search]");
    let plan = plan(&policy, &wall("full", Isolation::Process)).unwrap();
    assert_eq!(plan.controls.len(), policy.requirements().len());
    assert!(plan.controls.iter().all(|held| held.mechanism == "a test"));
}

#[test]
fn unknown_control_is_refused() {
    for forgotten in Control::all() {
        let mut wall = wall("old", Isolation::Vm);
        wall.abilities.remove(&forgotten);
        let asked = policy(
            "{limits: {max_cpu_seconds: 1, max_io_bytes_per_second: 4096, max_egress_bytes_per_second: 1024, max_tool_calls_per_second: 9},
              filesystem: {read: [/data], write: [{host: ./o, guest: /o}], hide: [/data/x],
               workspace: {host: ./w, mode: overlay}},
              defaults: {action: allow, network_default: allow},
              network_allowlist: [{host: example.org, methods: [GET]}], network_blocklist: [example.com],
              secrets: [{name: X, from: 'env:X', hosts: [example.org]}], tool_allowlist: [t],
              command_allowlist: [ls], seccomp: ./p.json}",
        );
        let report = plan(&asked, &wall).unwrap_err();
        let expected = format!("the old wall does not know the control {}", forgotten.as_str());
        assert!(refused(&report).contains(&(forgotten.as_str(), expected)), "{forgotten:?}");
        assert!(refused(&report).iter().all(|(control, _)| *control == forgotten.as_str()));
    }
}

#[test]
fn wall_below_the_floor_is_refused_by_name() {
    let strict = policy("isolation: vm");
    let report = plan(&strict, &wall("thin", Isolation::Container)).unwrap_err();
    let reason = "the thin wall gives container isolation and the policy wants vm".to_owned();
    assert_eq!(refused(&report), [("isolation", reason)]);
    assert!(plan(&strict, &wall("thick", Isolation::Vm)).is_ok());
}

#[test]
fn translated_machine_is_a_vm_only_for_a_policy_that_accepts_translation() {
    let translated = wall("machine", Isolation::TranslatedVm);
    let report = plan(&policy("isolation: vm"), &translated).unwrap_err();
    let Finding::Refused(refused) = &report.controls[0] else {
        panic!("the isolation comes first: {report:?}");
    };
    assert!(refused.obstacle.remedy.contains("`isolation: translated-vm`"), "{refused:?}");
    for floor in ["isolation: translated-vm", "isolation: user-kernel"] {
        assert!(plan(&policy(floor), &translated).is_ok(), "{floor}");
    }
    let gvisor = wall("gvisor", Isolation::UserKernel);
    assert!(plan(&policy("isolation: translated-vm"), &gvisor).is_err());
}

#[test]
fn approximate_limits_are_refused_when_the_policy_wants_them_exact() {
    let mut rough = wall("rough", Isolation::Process);
    let memory = Control::Limit(Limit::Memory);
    let approximate = all_of(Precision::Approximate).remove(&memory).unwrap();
    rough.abilities.insert(memory, approximate);
    assert!(plan(&policy("{}"), &rough).is_ok());
    let report = plan(&policy("limits: { exact: true }"), &rough).unwrap_err();
    assert_eq!(refused(&report).len(), 1);
    assert_eq!(refused(&report)[0].0, "max_memory_mb");
}

#[test]
fn approximate_sockets_are_refused_when_files_must_be_exact() {
    let mut rough = wall("rough", Isolation::Process);
    let approximate = all_of(Precision::Approximate).remove(&Control::HostSockets).unwrap();
    rough.abilities.insert(Control::HostSockets, approximate);
    let write = "write: [{host: /srv/d, guest: /d}]";
    let mode = "workspace: {host: /srv/d, mode: write}";
    for writable in [write, mode] {
        let loose = policy(&format!("filesystem: {{{writable}}}"));
        assert!(plan(&loose, &rough).is_ok());
        let exact = policy(&format!("filesystem: {{{writable}, exact: true}}"));
        let report = plan(&exact, &rough).unwrap_err();
        let names: Vec<&str> = refused(&report).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["host_sockets"]);
        assert!(plan(&loose.combine(&exact), &rough).is_err());
    }
    assert!(plan(&policy("filesystem: {read: [/srv/d], exact: true}"), &rough).is_ok());
}

#[test]
fn approximate_permissions_are_refused_under_every_policy() {
    let mut rough = wall("rough", Isolation::Process);
    rough.abilities = all_of(Precision::Approximate);
    let report = plan(&policy("{}"), &rough).unwrap_err();
    let names: Vec<&str> = refused(&report).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"hidden_host") && names.contains(&"network_deny"));
    assert!(!names.contains(&"max_memory_mb"));
}

#[test]
fn unusable_wall_refuses_every_control_with_its_own_reason() {
    let mut broken = wall("broken", Isolation::Process);
    let obstacle = Obstacle { reason: "no kernel".to_owned(), remedy: "get one".to_owned() };
    broken.unusable = Some(obstacle);
    let policy = policy("{}");
    let report = plan(&policy, &broken).unwrap_err();
    assert_eq!(refused(&report).len(), policy.requirements().len());
    assert!(refused(&report).iter().all(|(_, reason)| reason == "no kernel"));
}

#[test]
fn first_wall_that_enforces_everything_is_chosen_and_never_a_weaker_one() {
    let walls = vec![
        wall("fast", Isolation::Process),
        wall("slow", Isolation::Vm),
        wall("slower", Isolation::Vm),
    ];
    let host = HostFacts { walls };
    let chosen = |text| report(&policy(text), &host).provider.map(|name| name.as_str());
    assert_eq!(chosen("{}"), Some("fast"));
    assert_eq!(chosen("isolation: vm"), Some("slow"));
    let none = HostFacts { walls: vec![wall("fast", Isolation::Process)] };
    assert_eq!(report(&policy("isolation: vm"), &none).provider, None);
}

#[test]
fn unsupported_kind_of_program_is_refused_by_name() {
    let command = Program::Command { argv: vec!["ls".to_owned()] };
    let code = |language| {
        let (name, code, arguments) = ("x".to_owned(), Vec::new(), Vec::new());
        Program::Code { language, name, code, arguments }
    };
    let mut wasm = wall("wasm", Isolation::Process);
    wasm.programs = ProgramKinds { languages: &[Language::Python], ..ProgramKinds::NONE };
    let reason = |program: &Program| wasm.refuses(program).map(|obstacle| obstacle.reason);
    assert_eq!(reason(&code(Language::Python)), None);
    let says = "the wasm wall does not run commands; it runs python code";
    assert_eq!(reason(&command).as_deref(), Some(says));
    let says = "the wasm wall does not run bash code; it runs python code";
    assert_eq!(reason(&code(Language::Bash)).as_deref(), Some(says));
    assert_eq!(wall("native", Isolation::Process).refuses(&command), None);
}
