//! A failing step is reported by name; nothing is executed and nothing remains.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use stockade_launcher::{
    Family, IdMap, LandlockRule, Mapper, Phase, Plan, Redirected, Refusal, Report, Resource,
    SocketUse, Step, ToolSocket, Transport, TreeKind,
};

use crate::support::{
    Ended, LANDLOCK, carry_out, carry_out_with, landlock_can_be_used, plan, walls_can_be_built,
};

fn refusal_of(plan: &Plan) -> Refusal {
    match carry_out(plan) {
        Ended::Refused(refusal) => refusal,
        Ended::Ran(code, text) => panic!("it ran: {code} {text}"),
    }
}

/// Replaces the first step of a name and returns its index.
fn replace(plan: &mut Plan, name: &str, with: Step) -> usize {
    let index = plan.inside.iter().position(|step| step.name() == name).expect("the step is there");
    plan.inside[index] = with;
    index
}

/// Redirects one address.
fn egress(listen: &str, prefix: u8) -> Step {
    let network = [127, 64, 0, 1].into();
    let redirected = vec![Redirected { transport: Transport::Tcp, network, prefix, port: None }];
    Step::Egress { listen: listen.parse().expect("an address"), redirected }
}

/// A tool directory without files.
fn tools(directory: &str, command: &str) -> Step {
    Step::ToolSocket(ToolSocket {
        directory: directory.into(),
        files: Vec::new(),
        commands: vec![command.into()],
        socket: Some("socket".into()),
        denials: None,
    })
}

#[test]
fn failing_step_is_reported_by_name_and_nothing_runs() {
    if !walls_can_be_built() {
        return;
    }
    let nowhere = || PathBuf::from("/nonexistent/path");
    let breaks: Vec<(&str, Step)> = vec![
        (
            "take_tree",
            Step::TakeTree {
                name: "/usr".to_owned(),
                path: nowhere(),
                attributes: stockade_launcher::Attributes {
                    writable: false,
                    executable: true,
                    devices: false,
                },
                kind: TreeKind::Directory,
            },
        ),
        ("become_user", Step::BecomeUser { user: 4_000_000, group: 4_000_000 }),
        ("attach_tree", Step::AttachTree { name: "unknown".to_owned(), path: PathBuf::from("/x") }),
        (
            "attach_tree",
            Step::AttachApart {
                name: "/usr".to_owned(),
                part: Some(PathBuf::from("no-such-file")),
                path: PathBuf::from("/x"),
                executable: false,
            },
        ),
        ("file", Step::CopyFile { path: nowhere() }),
        // Not a regular file.
        ("file", Step::CopyFile { path: PathBuf::from("/dev/null") }),
        ("link", Step::Link { path: PathBuf::from("/"), target: nowhere() }),
        ("file", Step::File { path: PathBuf::from("/usr/x"), content: Vec::new() }),
        ("limit", Step::Limit { resource: Resource::OpenFiles, amount: u64::MAX - 1 }),
        ("working_directory", Step::WorkingDirectory(nowhere())),
        // `/proc` does not exist yet.
        ("proc", Step::OpenPorts),
        // The loopback interface has this address already, and a prefix has at most 32 bits.
        ("host_name", egress("127.0.0.1:1", 32)),
        ("host_name", egress("127.0.0.53:1", 33)),
        // Below a read-only directory, and outside the tool directory.
        ("host_name", tools("/usr/tools", "bin/tool")),
        ("host_name", tools("/tmp/tools", "../tool")),
        ("host_name", Step::HostName("x".repeat(100))),
        (
            "landlock",
            Step::Landlock {
                version: LANDLOCK,
                rules: vec![LandlockRule {
                    path: nowhere(),
                    writable: false,
                    executable: false,
                    sockets: SocketUse::Refused,
                }],
            },
        ),
        ("seccomp", Step::WatchPrograms { program: vec![(0x05, 0, 0, 7)] }),
        ("seccomp", Step::Seccomp { programs: vec![vec![(0x05, 0, 0, 7)]] }),
        (
            "execute",
            Step::Execute { program: nowhere(), arguments: Vec::new(), environment: Vec::new() },
        ),
    ];
    for (name, broken) in breaks {
        let expected = broken.name();
        if expected == "landlock" && !landlock_can_be_used() {
            continue;
        }
        let mut plan = plan("echo ran");
        let index = replace(&mut plan, name, broken);
        let refusal = refusal_of(&plan);
        let got = (refusal.phase, refusal.step.as_str(), refusal.index);
        assert_eq!(got, (Phase::Inside, expected, index), "{refusal}");
    }
}

#[test]
fn a_plan_without_a_program_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let mut plan = plan("echo ran");
    plan.inside.pop();
    assert_eq!(refusal_of(&plan).step, "execute");
}

#[test]
fn program_does_not_start_when_the_seccomp_listener_is_closed() {
    if !walls_can_be_built() {
        return;
    }
    let execve = if cfg!(target_arch = "x86_64") { 59 } else { 221 };
    let (ask, allow) = (0x7fc0_0000, 0x7fff_0000);
    let program =
        vec![(0x20, 0, 0, 0), (0x15, 0, 1, execve), (0x06, 0, 0, ask), (0x06, 0, 0, allow)];
    let mut plan = plan("echo ran");
    let before = plan.inside.len() - 1;
    plan.inside.insert(before, Step::WatchPrograms { program });
    // The tests close the listener as soon as they receive it.
    let refusal = refusal_of(&plan);
    assert_eq!((refusal.step.as_str(), refusal.errno), ("execute", Some(38)), "ENOSYS");
}

#[test]
fn a_cgroup_that_cannot_be_entered_is_refused() {
    if !walls_can_be_built() {
        return;
    }
    let mut plan = plan("echo ran");
    plan.inside.insert(0, Step::EnterCgroup { file: PathBuf::from("/sys/fs/cgroup/x/tasks") });
    let refusal = refusal_of(&plan);
    assert_eq!((refusal.phase, refusal.step.as_str()), (Phase::Inside, "enter_cgroup"));
    assert!(refusal.to_string().contains("/sys/fs/cgroup/x/tasks"), "{refusal}");
    // For a writable file, the process writes 0, which means itself.
    let file = tempfile::tempfile().unwrap();
    let entered = |file: &File| carry_out_with(&plan, &[file.as_fd()]);
    assert!(matches!(entered(&file), Ended::Ran(0, _)));
    let mut text = String::new();
    (&file).seek(SeekFrom::Start(0)).unwrap();
    (&file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "0");
    let Ended::Refused(refusal) = entered(&File::open("/dev/null").unwrap()) else {
        panic!("a file that only reads was written")
    };
    assert_eq!((refusal.step.as_str(), refusal.errno), ("enter_cgroup", Some(9)), "EBADF");
}

#[test]
fn refusal_arrives_when_the_plan_exceeds_the_socket_buffer() {
    if !walls_can_be_built() {
        return;
    }
    let mut plan = plan("echo ran");
    plan.inside.insert(0, Step::WorkingDirectory(PathBuf::from("/nonexistent")));
    let content = vec![b'x'; 4 << 20];
    plan.inside.insert(1, Step::File { path: PathBuf::from("/etc/much"), content });
    let refusal = refusal_of(&plan);
    assert_eq!((refusal.index, refusal.step.as_str()), (0, "working_directory"));
}

#[test]
fn ids_that_cannot_be_mapped_are_refused() {
    if !walls_can_be_built() {
        return;
    }
    let mut plan = plan("echo ran");
    let none = IdMap { inside: 0, outside: 0, count: 0 };
    plan.birth.family = Family::Namespaces { users: none, groups: none, mapper: Mapper::Launcher };
    let refusal = refusal_of(&plan);
    assert_eq!((refusal.phase, refusal.step.as_str()), (Phase::Birth, "maps"));
}

#[test]
fn links_in_host_paths_are_not_followed() {
    if !walls_can_be_built() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("stockade-links-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("real")).unwrap();
    std::os::unix::fs::symlink(directory.join("real"), directory.join("link")).unwrap();
    let take = |path: &str| {
        let mut plan = plan("echo ran");
        let step = Step::TakeTree {
            name: "data".to_owned(),
            path: directory.join(path),
            attributes: stockade_launcher::Attributes {
                writable: false,
                executable: false,
                devices: false,
            },
            kind: TreeKind::Directory,
        };
        plan.inside.insert(1, step);
        carry_out(&plan)
    };
    assert!(matches!(take("real"), Ended::Ran(0, _)));
    let refused = take("link");
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(matches!(refused, Ended::Refused(refusal) if refusal.errno == Some(40)), "ELOOP");
}

/// The launcher's answer to these bytes in place of a plan.
fn answer_to(bytes: &[u8]) -> Option<Report> {
    let (mut ours, theirs) = UnixStream::pair().expect("a socket pair can be made");
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_stockade-launch"))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("the launcher starts");
    ours.write_all(bytes).expect("the socket takes a few bytes");
    ours.shutdown(Shutdown::Write).expect("the socket is open");
    let answer = stockade_launcher::receive(&mut ours).expect("an answer can be read");
    drop(ours);
    assert!(!launcher.wait().expect("the launcher can be waited for").success());
    answer.map(|(report, _)| report)
}

#[test]
fn anything_but_a_plan_is_refused_and_nothing_is_started() {
    let framed = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let unknown = framed(r#"{"outside":[],"birth":{},"inside":[],"after":[],"more":1}"#);
    for bytes in [b"\xff\xff\xff\xffx".to_vec(), framed("no plan"), unknown, vec![9, 0, 0, 0, b'{']]
    {
        match answer_to(&bytes) {
            Some(Report::Refused(refusal)) => assert_eq!(refusal.step, "plan", "{refusal}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
    assert_eq!(answer_to(b""), None);
}

#[test]
fn first_process_is_reported_born_and_ready() {
    if !walls_can_be_built() {
        return;
    }
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_stockade-launch"))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let plan = plan("true");
    stockade_launcher::send(&mut ours, &plan, &[]).unwrap();
    let mut reports = Vec::new();
    while let Ok(Some((report, _))) = stockade_launcher::receive::<Report>(&mut ours) {
        let is_end = matches!(report, Report::Ended(_));
        reports.push(report);
        if is_end {
            break;
        }
    }
    // The launcher reports `Born` and the child `Ready`, in either order.
    assert!(matches!(
        reports[..],
        [Report::Born { .. }, Report::Ready { .. }, Report::Ended(_)]
            | [Report::Ready { .. }, Report::Born { .. }, Report::Ended(_)]
    ));
    // The launcher keeps the sandbox's counters until the host closes the socket.
    assert_eq!(launcher.try_wait().unwrap(), None);
    drop(ours);
    assert!(launcher.wait().unwrap().success());
}
