use std::os::unix::fs::symlink;

use stockade_hostfiles::Mode;

use super::*;

fn show(host: &str, guest: &str, mode: Mode) -> Shown {
    let (host, guest) = (PathBuf::from(host), PathBuf::from(guest));
    Shown { host, guest, kind: TreeKind::Directory, mode }
}

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn programs_of_a_root_directory_resolve_inside_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    program(&root.join("usr/bin/tool"));
    program(&root.join("usr/bin/tool-2.0"));
    symlink("usr/bin", root.join("bin")).unwrap();
    symlink("/usr/bin/tool-2.0", root.join("usr/bin/named")).unwrap();
    symlink("../../../../../../bin/sh", root.join("usr/bin/climbs")).unwrap();
    let find = |name: &str| Commands::in_directory([name].into_iter(), &root);
    let found = |name: &str| find(name).unwrap().executables;
    assert_eq!(found("tool"), [PathBuf::from("/usr/bin/tool")]);
    assert_eq!(found("/bin/tool"), [PathBuf::from("/usr/bin/tool")]);
    assert_eq!(found("named"), [PathBuf::from("/usr/bin/tool-2.0")]);
    for name in ["sh", "climbs", "/bin/sh", "/usr/bin"] {
        assert!(matches!(find(name), Err(StartError::NoCommand { .. })), "{name}");
    }
}

#[test]
fn listed_program_outside_the_shown_directories_is_shown_alone() {
    let directory = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(directory.path()).unwrap();
    let (real, name) = (top.join("v2/tool"), top.join("tool"));
    program(&real);
    symlink("v2/tool", &name).unwrap();
    let commands = Commands::on_host([name.to_str().unwrap()].into_iter(), None).unwrap();
    let (binds, links) = commands.narrow(Vec::new(), Vec::new()).unwrap();
    assert_eq!(binds, [(Bind { host: real.clone(), guest: real.clone() }, TreeKind::File)]);
    assert_eq!(links, [SymbolicLink { at: name, target: real }]);
}

#[test]
fn program_covered_by_another_mount_is_refused() {
    let listed = Commands { executables: vec![PathBuf::from("/opt/bin/tool")], ..<_>::default() };
    let check = |shown: &[Shown]| listed.check(Path::new("/"), shown);
    assert!(check(&[]).is_ok());
    assert!(check(&[show("/opt", "/opt", Mode::Read)]).is_ok());
    for shown in [
        show("/opt", "/opt", Mode::Write),
        show("/opt", "/opt", Mode::Overlay),
        show("/srv/x", "/opt", Mode::Read),
    ] {
        assert!(check(std::slice::from_ref(&shown)).is_err(), "{shown:?}");
    }
    for place in ["/tmp/tool", "/dev/shm/tool", "/workspace/tool", "/proc/self/exe"] {
        let listed = Commands { executables: vec![PathBuf::from(place)], ..<_>::default() };
        assert!(listed.check(Path::new("/"), &[]).is_err(), "{place}");
    }
    let outer = [show("/tmp/tools", "/tmp/tools", Mode::Read)];
    let listed = Commands { executables: vec!["/tmp/tools/a".into()], ..<_>::default() };
    assert!(listed.check(Path::new("/"), &outer).is_ok());
}
