//! A group counts only its own processes.

use super::support::*;
use crate::{Controller, Limits};

#[test]
fn leaf_counts_its_own_kills_and_time() {
    for (kind, layout) in layouts_with(&[Controller::Memory, Controller::CpuTime]) {
        let limits = Limits { memory_bytes: Some(64 << 20), ..Limits::default() };
        let group = create(&layout, &limits);
        let (hungry, idle) = (group.exec_leaf(1).unwrap(), group.exec_leaf(2).unwrap());
        let enter: Vec<String> = hungry
            .entry_paths()
            .iter()
            .map(|path| format!("echo 0 > '{}'", path.display()))
            .collect();
        let script = format!("{} && head -c 200000000 /dev/zero | tail", enter.join(" && "));
        assert!(!spawn_in(&group, &script).wait().unwrap().success(), "{kind}");
        assert!(hungry.oom_kills().unwrap() > 0, "{kind}");
        assert_eq!(idle.oom_kills().unwrap(), 0, "{kind}");
        assert_eq!(group.oom_kills().unwrap(), hungry.oom_kills().unwrap(), "{kind}");
        assert!(hungry.cpu_time().unwrap() > idle.cpu_time().unwrap(), "{kind}");
        assert!(group.cpu_time().unwrap() >= hungry.cpu_time().unwrap(), "{kind}");
        finish(hungry);
        finish(idle);
        finish(group);
    }
}

#[test]
fn error_names_the_file() {
    let Some(layout) = layout_with(&[Controller::Memory]) else { return };
    let group = create(&layout, &Limits::default());
    let path = group.directory(Controller::Memory).unwrap().path.clone();
    group.kill_all(soon()).unwrap();
    for path in paths(&group) {
        for leaf in crate::files::directories(&path).unwrap() {
            std::fs::remove_dir(leaf).unwrap();
        }
        std::fs::remove_dir(path).unwrap();
    }
    let error = group.memory_peak().unwrap_err().to_string();
    assert!(error.starts_with(&format!("read {}/memory.", path.display())), "{error}");
    // Removing a removed group succeeds.
    group.remove(soon()).unwrap();
}
