//! Hosts and processes for tests.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Controller, Group, GroupName, Layout, Limits, Version};

/// The layout of this host, if it has these controllers. Otherwise the test says why it cannot run,
/// or fails where `STOCKADE_REQUIRE` asks for it.
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

/// The layouts that this host can show: as it is and, where v1 has the controllers, without v2.
pub(super) fn layouts_with(controllers: &[Controller]) -> Vec<(&'static str, Layout)> {
    let Some(whole) = layout_with(controllers) else { return Vec::new() };
    let v1 = whole.clone().only(|hierarchy| hierarchy.version == Version::V1);
    let mut layouts = vec![("as detected", whole)];
    if controllers.iter().chain([&Controller::Kill]).all(|it| v1.has(*it)) {
        layouts.push(("v1 alone", v1));
    }
    layouts
}

/// Says why a test does not run. A required part of the host makes that a failure.
pub(super) fn cannot_run(reason: &str) {
    let required = std::env::var("STOCKADE_REQUIRE").unwrap_or_default();
    let named = required.split(',').map(str::trim).any(|name| name == "cgroup" || name == "all");
    assert!(!named, "required, but skipped: {reason}");
    say(&format!("skipped: {reason}"));
}

/// Writes a line past the harness, which keeps the output of tests that pass.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "cgroup tests: {line}");
}

pub(super) fn create(layout: &Layout, limits: &Limits) -> Group {
    Group::create(layout, &GroupName::new().unwrap(), limits).unwrap()
}

/// A shell that enters a group by itself and becomes a script.
pub(super) fn spawn_in(group: &Group, script: &str) -> Child {
    let enter = "until [ \"$1\" = -- ]; do echo 0 > \"$1\" || exit 99; shift; done; \
                 exec sh -c \"$2\"";
    let mut command = Command::new("sh");
    command.args(["-c", enter, "sh"]).args(group.entry_paths()).args(["--", script]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The same script outside of any group.
pub(super) fn spawn_outside(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for something that must come true soon.
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

/// Whether a directory of the group is left anywhere.
pub(super) fn leaves_nothing(paths: &[std::path::PathBuf]) -> bool {
    !paths.iter().any(|path| Path::exists(path))
}

pub(super) fn paths(group: &Group) -> Vec<std::path::PathBuf> {
    group.directories.iter().map(|it| it.path.clone()).collect()
}

/// Far beyond what a busy or translated machine takes: sixty processes that die there in turn took
/// more than a second.
pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// The end of a test: everything dies and goes.
pub(super) fn finish(group: Group) {
    let paths = paths(&group);
    group.kill_all(soon()).unwrap();
    group.remove(soon()).unwrap();
    assert!(leaves_nothing(&paths));
}
