use std::path::{Path, PathBuf};

use stockade_hostfiles::{Mode, Mounts, Shown};
use stockade_interpreters::Bind;
use stockade_launcher::{OutsideStep, Redirected, Resource, SocketUse, TreeKind};

use super::*;
use crate::commands::Commands;
use crate::host_files::Base;
use crate::machine::Landlock;
use crate::sub_ids::suit;

fn machine(user: u32) -> Machine {
    Machine {
        user,
        group: user,
        sub_ids: None,
        landlock: 6,
        landlock_found: Landlock::Version(6),
        kernel: (6, 1),
        system: Vec::new(),
        links: Vec::new(),
        settings: Vec::new(),
        mounts: Mounts::default(),
        open_files: 4096,
        queue_bytes: 819_200,
        pending_signals: 3845,
        locked_bytes: u64::MAX,
    }
}

fn files(shown: Vec<Shown>) -> HostFiles {
    let usr = Bind { host: PathBuf::from("/usr"), guest: PathBuf::from("/usr") };
    let binds = vec![(usr, TreeKind::Directory)];
    HostFiles {
        base: Base::System { binds, links: Vec::new() },
        shown,
        commands: None,
        pinned: Vec::new(),
    }
}

fn users(plan: &Plan) -> IdMap {
    match plan.birth.family {
        Family::Namespaces { users, .. } => users,
        Family::Descendants(_) => panic!("the native wall has namespaces"),
    }
}

fn show(guest: &str, mode: Mode) -> Shown {
    let host = Path::new("/srv").join(guest.trim_start_matches('/'));
    Shown { host, guest: PathBuf::from(guest), kind: TreeKind::Directory, mode }
}

fn planned(text: &str, machine: &Machine, files: &HostFiles, cgroup: bool) -> Plan {
    planned_with(Egress::None, text, machine, files, cgroup)
}

fn planned_with(
    egress: Egress,
    text: &str,
    machine: &Machine,
    files: &HostFiles,
    cgroup: bool,
) -> Plan {
    planned_for(egress, None, text, machine, files, cgroup)
}

fn planned_for(
    egress: Egress,
    tools: Option<Vec<ToolFile>>,
    text: &str,
    machine: &Machine,
    files: &HostFiles,
    cgroup: bool,
) -> Plan {
    planned_from(text, machine, files, |inputs| {
        let held = CgroupInputs { memory_held: cgroup, pids_held: cgroup, ..inputs.cgroup.clone() };
        plan(&Inputs { egress, tools, cgroup: held, ..inputs })
    })
}

/// Plans what a function makes of the usual inputs.
fn planned_from(
    text: &str,
    machine: &Machine,
    files: &HostFiles,
    plan: impl FnOnce(Inputs<'_>) -> Plan,
) -> Plan {
    let policy = Policy::parse_str("test", text, Path::new("/srv")).unwrap();
    let first_id = machine.is_root().then_some(0x7000_0000);
    plan(Inputs {
        policy: &policy,
        machine,
        files,
        devices: &[],
        ids: (USER, USER),
        first_id,
        sub_ids: machine.sub_ids,
        egress: Egress::None,
        cgroup: CgroupInputs {
            tasks: vec![PathBuf::from("/sys/fs/cgroup/pids/x/tasks")],
            ..CgroupInputs::default()
        },
        filters: vec![vec![(6, 0, 0, 0)]],
        program_watch: policy.commands.as_ref().map(|_| vec![(6, 0, 0, 0)]),
        tools: None,
        has_stubs: false,
        authorities: None,
        proc_files: vec![("/proc/meminfo", "MemTotal: 1 kB\n".to_owned())],
    })
}

fn index(plan: &Plan, name: &str) -> usize {
    plan.inside.iter().position(|step| step.name() == name).expect("the step is there")
}

fn last(plan: &Plan, name: &str) -> usize {
    plan.inside.iter().rposition(|step| step.name() == name).expect("the step is there")
}

#[test]
fn sub_ids_are_mapped_by_newuidmap_and_newgidmap() {
    let sub_ids = Some(SubIds { first_user: 200_000, first_group: 300_000 });
    let plan = planned("{}", &Machine { sub_ids, ..machine(1000) }, &files(Vec::new()), false);
    let range = |outside| IdMap { inside: 0, outside, count: 65_536 };
    let (users, groups) = (range(200_000), range(300_000));
    let expected = Family::Namespaces { users, groups, mapper: Mapper::Helpers };
    assert_eq!(plan.birth.family, expected);
    let own = IdMap { inside: USER, outside: 1000, count: 1 };
    let plan = planned("{}", &machine(1000), &files(Vec::new()), false);
    let expected = Family::Namespaces { users: own, groups: own, mapper: Mapper::Launcher };
    assert_eq!(plan.birth.family, expected);
}

#[test]
fn sub_ids_are_not_used_if_files_of_the_caller_are_shown() {
    assert!(suit(&files(Vec::new())));
    for mode in [Mode::Read, Mode::Write, Mode::Overlay] {
        assert!(!suit(&files(vec![show("/data", mode)])));
    }
    let image = HostFiles { base: Base::Directory("/usr".into()), ..files(Vec::new()) };
    assert!(!suit(&image));
}

#[test]
fn order_keeps_every_step_safe() {
    for user in [0, 1000] {
        let files = files(vec![show("/data", Mode::Write), show("/workspace", Mode::Overlay)]);
        let text = "filesystem: {workspace: {host: ., mode: overlay}, hide: [/data/x]}";
        let plan = planned(text, &machine(user), &files, true);
        let order = [
            index(&plan, "enter_cgroup"),
            index(&plan, "own_cgroups"),
            index(&plan, "private_mounts"),
            last(&plan, "take_tree"),
            index(&plan, "become_user"),
            index(&plan, "make_scratch"),
            index(&plan, "make_root"),
            index(&plan, "proc"),
            index(&plan, "forbid_user_namespaces"),
            index(&plan, "read_only"),
            last(&plan, "attach_overlay"),
            last(&plan, "mask"),
            index(&plan, "pivot"),
            index(&plan, "seal_root"),
            last(&plan, "limit"),
            index(&plan, "seal_privileges"),
            index(&plan, "die_with_parent"),
            index(&plan, "landlock"),
            index(&plan, "seccomp"),
            plan.inside.len() - 1,
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{user}: {order:?}");
        assert_eq!(plan.inside.last(), Some(&Step::Serve));
    }
}

#[test]
fn root_maps_its_own_range_and_idmaps_the_callers_files() {
    let plan = planned("{}", &machine(0), &files(vec![show("/data", Mode::Write)]), true);
    assert_eq!(users(&plan), IdMap { inside: 0, outside: 0x7000_0000, count: 65_536 });
    let [OutsideStep::TakeOwnedTree { users, groups, attributes, .. }] = &plan.outside[..] else {
        panic!("{:?}", plan.outside)
    };
    assert_eq!(*users, IdMap { inside: 0, outside: 0x7000_0000 + USER, count: 1 });
    assert_eq!(users, groups);
    assert!(attributes.writable && !attributes.devices);
}

#[test]
fn unprivileged_user_maps_only_its_own_id_and_takes_trees_inside() {
    let plan = planned("{}", &machine(501), &files(vec![show("/data", Mode::Read)]), true);
    assert_eq!(users(&plan), IdMap { inside: USER, outside: 501, count: 1 });
    assert!(plan.outside.is_empty());
}

#[test]
fn read_only_trees_are_overlaid_and_writable_ones_are_not() {
    let on = |kernel| Machine { mounts: Mounts::of(MOUNTINFO), kernel, ..machine(0) };
    let single = Shown { kind: TreeKind::File, ..show("/one", Mode::Read) };
    let files = files(vec![show("/data", Mode::Read), single, show("/out", Mode::Write)]);
    let apart = |kernel| -> Vec<(PathBuf, Option<PathBuf>)> {
        let plan = planned("{}", &on(kernel), &files, true);
        let apart = |step: &Step| match step {
            Step::AttachApart { path, part, .. } => Some((path.clone(), part.clone())),
            _ => None,
        };
        plan.inside.iter().filter_map(apart).collect()
    };
    let path = PathBuf::from;
    assert_eq!(
        apart((5, 19)),
        [(path("/usr"), None), (path("/data"), None), (path("/one"), Some(path("one")))]
    );
    assert_eq!(apart((5, 15)), [], "layers with mapped owners are too new for it");
    let plan = planned("{}", &on((6, 1)), &files, true);
    let taken = plan.outside.iter().map(|OutsideStep::TakeOwnedTree { path, .. }| path);
    assert_eq!(taken.collect::<Vec<_>>(), ["/srv/data", "/srv", "/srv/out"].map(Path::new));
}

const MOUNTINFO: &str = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";

#[test]
fn without_a_cgroup_rlimits_apply() {
    let limits = |cgroup| -> Vec<(Resource, u64)> {
        let plan = planned("limits: {max_pids: 7}", &machine(501), &files(Vec::new()), cgroup);
        let limit = |step: &Step| match step {
            Step::Limit { resource, amount } => Some((*resource, *amount)),
            _ => None,
        };
        plan.inside.iter().filter_map(limit).collect()
    };
    assert!(limits(false).contains(&(Resource::Processes, 8)));
    assert!(limits(false).iter().any(|(resource, _)| *resource == Resource::Data));
    assert!(!limits(true).iter().any(|(resource, _)| *resource == Resource::Processes));
    // Never above the machine's hard limit, which the kernel would refuse.
    assert!(limits(true).contains(&(Resource::PendingSignals, 3845)));
}

#[test]
fn allowlist_makes_writable_places_noexec() {
    let shown = [("/data", Mode::Write), ("/tools", Mode::Read), ("/workspace", Mode::Overlay)];
    let mut files = files(shown.map(|(guest, mode)| show(guest, mode)).to_vec());
    files.commands = Some(Commands::default());
    let plan = planned("command_allowlist: [ls]", &machine(501), &files, true);
    for step in &plan.inside {
        match step {
            Step::MakeScratch(memory) => assert!(!memory.executable),
            Step::AttachOverlay { executable, .. } => assert!(!executable),
            Step::TakeTree { attributes, path, .. } => {
                assert!(!(attributes.writable && attributes.executable), "{path:?}");
            }
            Step::Landlock { rules, .. } => {
                assert!(rules.iter().all(|rule| !rule.executable), "{rules:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn starts_are_watched_only_under_an_allowlist_and_before_other_filters() {
    let plan = |text| planned(text, &machine(501), &files(Vec::new()), true);
    let listed = plan("command_allowlist: [ls]");
    assert_eq!(index(&listed, "watch_programs") + 1, index(&listed, "seccomp"));
    assert!(!plan("{}").inside.iter().any(|step| step.name() == "watch_programs"));
}

#[test]
fn kernel_without_landlock_gets_no_landlock_step() {
    let old = Machine { landlock: 0, ..machine(501) };
    let plan = planned("{}", &old, &files(Vec::new()), true);
    assert!(!plan.inside.iter().any(|step| step.name() == "landlock"));
}

#[test]
fn egress_is_set_up_before_privileges_drop_and_sysctls_become_read_only() {
    for user in [0, 1000] {
        let without = planned("{}", &machine(user), &files(Vec::new()), true);
        let with = planned_with(Egress::Gateway, "{}", &machine(user), &files(Vec::new()), true);
        let order = [
            index(&with, "proc"),
            index(&with, "open_ports"),
            index(&with, "read_only"),
            index(&with, "pivot"),
            index(&with, "loopback"),
            index(&with, "egress"),
            index(&with, "seal_privileges"),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{user}: {order:?}");
        let own = |step: &&Step| !matches!(step.name(), "open_ports" | "egress");
        let resolver = |step: &&Step| match step {
            Step::File { path, .. } => path != Path::new("/etc/resolv.conf"),
            _ => true,
        };
        let rest: Vec<&Step> = with.inside.iter().filter(own).filter(resolver).collect();
        let plain: Vec<&Step> = without.inside.iter().filter(resolver).collect();
        assert_eq!(rest, plain, "without a gateway nothing else is done");
    }
}

#[test]
fn loopback_literal_for_any_bytes_is_redirected_and_no_other() {
    let redirected = |text: &str| {
        let machine = machine(501);
        let plan = planned_with(Egress::Gateway, text, &machine, &files(Vec::new()), true);
        let Step::Egress { redirected, .. } = &plan.inside[index(&plan, "egress")] else {
            panic!()
        };
        redirected.clone()
    };
    let usual = redirected("{}");
    assert_eq!(usual.len(), 4);
    assert_eq!(redirected("network_allowlist: ['127.0.0.1:5432']"), usual);
    let entry = "{ host: 127.0.0.1, ports: [5432], protocol: tcp }";
    let more = redirected(&format!("network_allowlist: [{entry}]"));
    assert_eq!(more[..4], usual);
    let network = std::net::Ipv4Addr::LOCALHOST;
    let transport = stockade_launcher::Transport::Tcp;
    let own = Redirected { transport, network, prefix: 32, port: Some(5432) };
    assert_eq!(more[4..], [own]);
}

fn with_tools(egress: Egress, text: &str, machine: &Machine, files: &HostFiles) -> Plan {
    let listing = ToolFile { path: PathBuf::from("tools.json"), content: "[]".to_owned() };
    planned_for(egress, Some(vec![listing]), text, machine, files, true)
}

#[test]
fn tool_socket_is_bound_in_the_finished_root_before_privileges_drop() {
    for user in [0, 1000] {
        let with = with_tools(Egress::None, "{}", &machine(user), &files(Vec::new()));
        let order = [
            last(&with, "attach_scratch"),
            last(&with, "mask"),
            index(&with, "pivot"),
            index(&with, "seal_root"),
            index(&with, "tool_socket"),
            index(&with, "seal_privileges"),
            index(&with, "landlock"),
        ];
        assert!(order.is_sorted_by(|a, b| a < b), "{user}: {order:?}");
        let Step::ToolSocket(socket) = &with.inside[index(&with, "tool_socket")] else { panic!() };
        assert_eq!(socket.directory, Path::new("/run/stockade"));
        assert_eq!(socket.commands, [Path::new("bin/stockade-tool")]);
        assert_eq!(socket.socket.as_deref(), Some(Path::new("tools.sock")));
        assert_eq!(socket.denials, None);
        let own = |step: &&Step| {
            let files = Resource::OpenFiles;
            !matches!(step.name(), "tool_socket" | "program_files")
                && !matches!(step, Step::Limit { resource, .. } if *resource == files)
        };
        let without = planned("{}", &machine(user), &files(Vec::new()), true);
        let rest = |plan: &Plan| plan.inside.iter().filter(own).cloned().collect::<Vec<_>>();
        assert_eq!(rest(&with), rest(&without), "without tools nothing else is done");
        assert!(!without.inside.iter().any(|step| step.name() == "program_files"));
    }
}

#[test]
fn stubs_get_their_socket_and_the_guest_with_and_without_tools() {
    let listing = ToolFile { path: PathBuf::from("tools.json"), content: "[]".to_owned() };
    for tools in [None, Some(vec![listing])] {
        let has_tools = tools.is_some();
        let plan = planned_from("{}", &machine(501), &files(Vec::new()), |inputs| {
            plan(&Inputs { tools, has_stubs: true, ..inputs })
        });
        let Step::ToolSocket(socket) = &plan.inside[index(&plan, "tool_socket")] else { panic!() };
        let commands: &[&Path] = match has_tools {
            true => &[Path::new("bin/stockade-tool"), Path::new("guest")],
            false => &[Path::new("guest")],
        };
        assert_eq!(socket.commands, commands);
        assert_eq!(socket.socket.is_some(), has_tools);
        let place = socket.directory.join(socket.denials.as_ref().unwrap());
        assert_eq!(place, Path::new(stockade_wire::LAUNCHED_DENIAL_SOCKET));
    }
}

#[test]
fn guest_gets_descriptors_per_connection_and_programs_get_the_policys() {
    let limits = |egress, text, open_files| {
        let machine = Machine { open_files, ..machine(501) };
        let plan = with_tools(egress, text, &machine, &files(Vec::new()));
        let limit = |step: &Step| match step {
            Step::Limit { resource: Resource::OpenFiles, amount } => Some(*amount),
            Step::ProgramFiles(amount) => Some(*amount),
            _ => None,
        };
        plan.inside.iter().filter_map(limit).collect::<Vec<u64>>()
    };
    assert_eq!(limits(Egress::None, "{}", 1 << 20), [1088, 1024]);
    assert_eq!(limits(Egress::Gateway, "{}", 1 << 20), [2112, 1024]);
    assert_eq!(limits(Egress::None, "limits: {max_open_files: 16}", 1 << 20), [1088, 16]);
    assert_eq!(limits(Egress::None, "limits: {max_open_files: 4096}", 1 << 20), [4096]);
    // Never above the machine's hard limit, which the kernel would refuse.
    assert_eq!(limits(Egress::Gateway, "{}", 1500), [1500, 1024]);
    assert_eq!(limits(Egress::None, "{}", 1024), [1024]);
}

#[test]
fn allowlist_plan_includes_the_tool_command_if_there_are_tools() {
    let mut files = files(Vec::new());
    files.commands = Some(Commands::default());
    let executable = |plan: &Plan| -> Vec<PathBuf> {
        let Step::Landlock { rules, .. } = &plan.inside[index(plan, "landlock")] else { panic!() };
        rules.iter().filter(|rule| rule.executable).map(|rule| rule.path.clone()).collect()
    };
    let text = "command_allowlist: [ls]";
    let with = with_tools(Egress::None, text, &machine(501), &files);
    assert_eq!(executable(&with), [Path::new("/run/stockade/bin/stockade-tool")]);
    assert!(executable(&planned(text, &machine(501), &files, true)).is_empty());
}

/// Which socket rights each Landlock rule grants.
fn socket_rules(plan: &Plan) -> Vec<(&Path, SocketUse)> {
    let rules = plan.inside.iter().find_map(|step| match step {
        Step::Landlock { rules, .. } => Some(rules),
        _ => None,
    });
    rules.unwrap().iter().map(|rule| (rule.path.as_path(), rule.sockets)).collect()
}

#[test]
fn no_socket_can_be_created_where_writes_reach_the_host() {
    let shown = vec![
        show("/data", Mode::Write),
        show("/var/tmp/x", Mode::Write),
        show("/workspace", Mode::Overlay),
    ];
    let plan = planned("{}", &machine(0), &files(shown), true);
    let rules = socket_rules(&plan);
    let sockets = |path: &str| rules.iter().find(|rule| rule.0 == Path::new(path)).unwrap().1;
    for path in ["/", "/data", "/var/tmp", "/var/tmp/x"] {
        assert_eq!(sockets(path), SocketUse::Refused, "{path}");
    }
    for path in ["/tmp", "/run", "/dev", "/workspace"] {
        assert_eq!(sockets(path), SocketUse::Made, "{path}");
    }
}

#[test]
fn landlock_9_allows_only_the_walls_tool_socket() {
    let newest = Machine { landlock: 9, landlock_found: Landlock::Version(9), ..machine(1000) };
    let files = files(vec![show("/data", Mode::Write)]);
    for tools in [None, Some(Vec::new())] {
        let expected: &[&Path] = match tools {
            Some(_) => &[Path::new("/run/stockade")],
            None => &[],
        };
        let plan = planned_for(Egress::None, tools, "{}", &newest, &files, true);
        let is_newest = |step: &Step| matches!(step, Step::Landlock { version: 9, .. });
        assert!(plan.inside.iter().any(is_newest));
        let reached = socket_rules(&plan).into_iter().filter(|it| it.1 == SocketUse::Reached);
        assert_eq!(reached.map(|it| it.0).collect::<Vec<_>>(), expected);
    }
}
