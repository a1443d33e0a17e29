use super::super::hand_down::Change;
use super::super::survey::Access;
use super::*;
use Controller::{Cpu, CpuTime, Devices, Io, Kill, Memory, Pids};

fn mount(version: Version, controllers: &[Controller], parents: &[&str]) -> Mount {
    Mount {
        version,
        controllers: controllers.to_vec(),
        point: "/cg".into(),
        access: Access::Writable,
        parents: parents.iter().map(PathBuf::from).collect(),
    }
}

fn offer(parent: &str, controllers: &[Controller], refused: &[(Controller, Refusal)]) -> Attempt {
    let (controllers, refused) = (controllers.to_vec(), refused.to_vec());
    let offer = Offer { controllers, refused, change: Change::AlreadySo };
    Attempt { parent: parent.into(), outcome: Ok(offer) }
}

fn refused(parent: &str, refusal: Refusal) -> Attempt {
    Attempt { parent: parent.into(), outcome: Err(refusal) }
}

fn hierarchy(version: Version, parent: &str, controllers: &[Controller]) -> Hierarchy {
    let controllers = controllers.to_vec();
    Hierarchy { version, mount: "/cg".into(), parent: parent.into(), controllers }
}

#[test]
fn nothing_mounted_has_an_obstacle_for_every_controller() {
    let none = Layout::none();
    assert_eq!(none.hierarchies(), []);
    assert_eq!(none.obstacles().keys().copied().collect::<Vec<_>>(), Controller::ALL);
    let reason = &none.obstacles()[&Memory].reason;
    assert_eq!(reason, "no cgroup file system with this controller is mounted");
}

#[test]
fn hybrid_asks_v2_only_for_what_v1_lacks_and_for_killing() {
    let mounts = vec![
        mount(Version::V1, &[Memory], &["/m"]),
        mount(Version::V1, &[Kill], &["/f"]),
        mount(Version::V1, &[Pids], &["/p"]),
        mount(Version::V2, &[], &["/u"]),
    ];
    let mut asked = Vec::new();
    let layout = layout(mounts, |mount, wanted| match mount.version {
        Version::V1 if wanted == [Pids] => vec![refused("/p", Refusal::ReadOnly)],
        Version::V1 => vec![offer(mount.parents[0].to_str().unwrap(), wanted, &[])],
        Version::V2 => {
            asked = wanted.to_vec();
            let lacking = [(Cpu, Refusal::NotHandedDown), (Io, Refusal::NotHandedDown)];
            vec![offer("/u", &[CpuTime, Kill], &lacking)]
        }
    });
    assert_eq!(asked, [Cpu, CpuTime, Io, Kill]);
    assert_eq!(
        layout.hierarchies(),
        [
            hierarchy(Version::V1, "/m", &[Memory]),
            // For the leaves of executions, which a process enters without waiting only on v1.
            hierarchy(Version::V1, "/f", &[Kill]),
            hierarchy(Version::V2, "/u", &[CpuTime, Kill]),
        ]
    );
    assert_eq!(layout.obstacles().keys().copied().collect::<Vec<_>>(), [Cpu, Devices, Io, Pids]);
    assert_eq!(layout.obstacles()[&Pids].reason, "/p is mounted read-only");
}

#[test]
fn delegated_user_gets_the_nearest_group_with_most_controllers() {
    let busy = [Memory, Pids, Cpu, Io].map(|it| (it, Refusal::HoldsProcesses));
    let lacking = [(Cpu, Refusal::NotHandedDown), (Io, Refusal::NotHandedDown)];
    let tried = vec![
        offer("/app.slice/run.scope", &[Kill, CpuTime], &busy),
        offer("/app.slice", &[Memory, Pids, Kill, CpuTime], &lacking),
        offer("/", &[Memory, Pids, Kill, CpuTime], &lacking),
    ];
    let layout = layout(vec![mount(Version::V2, &[], &[])], |_, _| tried.clone());
    let expected = hierarchy(Version::V2, "/app.slice", &[Memory, Pids, Kill, CpuTime]);
    assert_eq!(layout.hierarchies(), [expected]);
    assert_eq!(layout.obstacles().keys().copied().collect::<Vec<_>>(), [Cpu, Devices, Io]);
    assert_eq!(layout.obstacles()[&Cpu].reason, "the controller is not handed down to /app.slice");
}

#[test]
fn user_without_delegation_gets_an_obstacle_that_names_its_own_group() {
    let tried = vec![
        refused("/user.slice/session-3.scope", Refusal::NotPermitted),
        refused("/user.slice", Refusal::NotPermitted),
        refused("/", Refusal::NotPermitted),
    ];
    let layout = layout(vec![mount(Version::V2, &[], &[])], |_, _| tried.clone());
    assert_eq!(layout.hierarchies(), []);
    assert_eq!(
        layout.obstacles()[&Memory].reason,
        "this user may not make groups below /user.slice/session-3.scope"
    );
    assert_eq!(layout.obstacles()[&Devices].reason, "cgroup v2 has no files for devices");
}
