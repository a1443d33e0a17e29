//! Hosts and processes for tests.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Controller, Group, GroupName, Layout, Limits, Version};

/// The layout of this host, if it has these controllers. Otherwise the test prints why it cannot
/// run, or fails if `STOCKADE_REQUIRE` requires it.
pub(super) fn layout_with(controllers: &[Controller]) -> Option<Layout> {
    let layout = Layout::detect();
    let missing = controllers.iter().find(|it| !layout.has(**it));
    if let Some(controller) = missing {
        let obstacle = &layout.obstacles()[controller];
        cannot_run(&format!("cgroup controller {controller}: {}", obstacle.reason));
        return None;
    }
    Some(layout)
}

/// The layouts of this host to test: all hierarchies and, if v1 has the controllers, only v1.
pub(super) fn layouts_with(controllers: &[Controller]) -> Vec<(&'static str, Layout)> {
    let Some(whole) = layout_with(controllers) else { return Vec::new() };
    let v1 = whole.clone().only(|hierarchy| hierarchy.version == Version::V1);
    let mut layouts = vec![("as detected", whole)];
    if controllers.iter().chain([&Controller::Kill]).all(|it| v1.has(*it)) {
        layouts.push(("v1 alone", v1));
    }
    layouts
}

/// Prints why a test does not run. Fails if `STOCKADE_REQUIRE` requires it.
pub(super) fn cannot_run(reason: &str) {
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named = required.split(',').map(str::trim).any(|name| name == "cgroup" || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    say(&format!("skipped: {reason}"));
}

/// Writes a line directly to stderr: the harness captures only the print macros.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "cgroup tests: {line}");
}

pub(super) fn create(layout: &Layout, limits: &Limits) -> Group {
    Group::create(layout, &GroupName::new().unwrap(), limits).unwrap()
}

/// Starts a shell that enters a group by itself and runs a script.
pub(super) fn spawn_in(group: &Group, script: &str) -> Child {
    let enter = "until [ \"$1\" = -- ]; do echo 0 > \"$1\" || exit 99; shift; done; \
                 exec sh -c \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", enter, "sh"]).args(group.entry_paths()).args(["--", script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Starts the same script outside any group.
pub(super) fn spawn_outside(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for a condition that must become true soon.
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How many processes a group lists.
pub(super) fn population(group: &Group) -> usize {
    group.directories[0].processes().unwrap().len()
}

/// Whether none of the directories exists.
pub(super) fn leaves_nothing(paths: &[std::path::PathBuf]) -> bool {
    !paths.iter().any(|path| Path::exists(path))
}

pub(super) fn paths(group: &Group) -> Vec<std::path::PathBuf> {
    group.directories.iter().map(|it| it.path.clone()).collect()
}

/// Much longer than a busy or emulated machine needs: sixty processes that die one after another
/// took more than a second there.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// The end of a test: kills all processes and removes the group.
pub(super) fn finish(group: Group) {
    let paths = paths(&group);
    group.kill_all(soon()).unwrap();
    group.remove(soon()).unwrap();
    assert!(leaves_nothing(&paths));
}
