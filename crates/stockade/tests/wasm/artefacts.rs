//! The component and its compiled form.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use stockade_testing::{Run, Scratch, finish_with};

use crate::support::{command, is_machine, named};

named![
    altered_artefacts_and_components_are_refused,
    directory_of_others_and_links_are_refused,
    missing_component_is_named_with_the_command_that_builds_it,
    first_use_shows_that_it_compiles_and_removes_what_no_version_has_used_for_long,
];

/// The digest of the component that this version runs.
const DIGEST: &str = include_str!("../../../../components/python/component.sha256");

/// A cache of its own with the component and its compiled form.
struct Cache {
    scratch: Scratch,
}

impl Cache {
    /// A copy of the user's.
    fn copied() -> Cache {
        let cache = Cache { scratch: Scratch::new() };
        let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let own = own.unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache")
        });
        let from = own.join("stockade/wasm");
        let current = format!("python-{}", &DIGEST[..16]);
        fs::create_dir_all(cache.compiled()).expect("new");
        fs::set_permissions(cache.compiled(), fs::Permissions::from_mode(0o700)).expect("own");
        // The cache also has those of older versions.
        let current_in = |from: PathBuf| -> Vec<fs::DirEntry> {
            let entries = fs::read_dir(from).expect("the cache is filled").flatten();
            let is_current = |entry: &fs::DirEntry| {
                let name = entry.file_name().to_string_lossy().starts_with(&current);
                name && entry.file_type().expect("an entry").is_file()
            };
            entries.filter(is_current).collect()
        };
        let copy = |entry: &fs::DirEntry, to: PathBuf| {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        };
        current_in(from.clone()).iter().for_each(|entry| copy(entry, cache.components()));
        // One component has a compiled form for each setting of an engine: other tests of this
        // target have used the newest.
        let mut compiled = current_in(from.join("compiled"));
        compiled
            .retain(|it| it.file_name().to_string_lossy().contains("-hyperlight-") == is_machine());
        compiled.sort_by_key(|it| it.metadata().and_then(|it| it.modified()).expect("an entry"));
        copy(compiled.last().expect("the wall has run"), cache.compiled());
        cache
    }

    fn components(&self) -> PathBuf {
        self.scratch.path().join("stockade/wasm")
    }

    fn compiled(&self) -> PathBuf {
        self.components().join("compiled")
    }

    fn file(&self, directory: PathBuf, ending: &str) -> PathBuf {
        let entries = fs::read_dir(directory).expect("there").flatten();
        let mut files = entries.map(|entry| entry.path());
        let is_own = |path: &PathBuf| {
            let name = path.file_name().expect("an entry has a name").to_string_lossy();
            name.starts_with(&format!("python-{}", &DIGEST[..16]))
                && (name.contains("-hyperlight-") == is_machine() || name.ends_with(".wasm"))
        };
        let is_wanted =
            |path: &PathBuf| path.extension().is_some_and(|it| it == ending) && is_own(path);
        files.find(is_wanted).expect("the file is there")
    }

    fn artefact(&self) -> PathBuf {
        self.file(self.compiled(), "cwasm")
    }

    fn run(&self) -> Run {
        let mut command = command(&["--language", "python", "-"]);
        command.env("XDG_CACHE_HOME", self.scratch.path());
        finish_with(command, b"print('ran')")
    }
}

fn altered_artefacts_and_components_are_refused() {
    let cache = Cache::copied();
    let artefact = cache.artefact();
    let whole = fs::read(&artefact).expect("readable");
    assert_eq!(cache.run().text(), "ran\n", "the copy works");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for bad in [&whole[..whole.len() / 2], &flipped[..], b"", b"\x7fELF"] {
        fs::write(&artefact, bad).expect("own");
        let run = cache.run();
        assert_ne!(run.code, 0);
        assert!(run.stderr.contains("truncated or altered"), "{run:?}");
        assert!(run.stderr.contains("remove "), "{run:?}");
    }
    // With the artefact gone, the component counts.
    fs::remove_file(&artefact).expect("own");
    let component = cache.file(cache.components(), "wasm");
    let mut bytes = fs::read(&component).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&component, &bytes).expect("own");
    let run = cache.run();
    assert!(run.stderr.contains("truncated or altered") && run.code != 0, "{run:?}");
}

fn first_use_shows_that_it_compiles_and_removes_what_no_version_has_used_for_long() {
    if is_machine() {
        // Its worker compiles in a minute, and ten times as long behind a translator.
        return;
    }
    let cache = Cache::copied();
    fs::remove_file(cache.artefact()).expect("own");
    // Of versions that are no longer used, and of a process that was killed.
    for (name, seconds) in (0..6).map(|n| (format!("python-{:016}-old{n}-00.cwasm", 0), n)) {
        let file = fs::File::create_new(cache.compiled().join(name)).expect("new");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("own");
    }
    fs::write(cache.compiled().join(".7-from"), "left").expect("new");
    let first = cache.run();
    assert_eq!(first.text(), "ran\n", "{first:?}");
    let lines: Vec<&str> = first.stderr.lines().collect();
    let position = |words: &str| lines.iter().position(|line| line.contains(words));
    let begun = position("compiling CPython for this processor; only the first use does this");
    let ended = position("compiled CPython in ");
    assert!(begun.is_some() && begun < ended, "{first:?}");
    assert!(cache.artefact().exists());
    let mut old: Vec<String> = fs::read_dir(cache.compiled())
        .expect("there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("-old") || name.starts_with(".7"))
        .collect();
    old.sort();
    // Four stay, the new one included.
    let expected = [3, 4, 5].map(|n| format!("python-{:016}-old{n}-00.cwasm", 0));
    assert_eq!(old, expected);
    let second = cache.run();
    assert_eq!(second.text(), "ran\n", "{second:?}");
    assert!(!second.stderr.contains("compil"), "{second:?}");
}

fn directory_of_others_and_links_are_refused() {
    let cache = Cache::copied();
    fs::set_permissions(cache.compiled(), fs::Permissions::from_mode(0o770)).expect("own");
    assert!(cache.run().stderr.contains("other users have permissions on it"));
    fs::set_permissions(cache.compiled(), fs::Permissions::from_mode(0o700)).expect("own");
    let artefact = cache.artefact();
    fs::set_permissions(&artefact, fs::Permissions::from_mode(0o620)).expect("own");
    assert!(cache.run().stderr.contains("other users have permissions on it"));
    fs::set_permissions(&artefact, fs::Permissions::from_mode(0o600)).expect("own");
    assert_eq!(cache.run().text(), "ran\n");
    let second = cache.components().join("second");
    fs::hard_link(&artefact, &second).expect("own");
    assert!(cache.run().stderr.contains("it has a second name"));
    fs::remove_file(&second).expect("own");
    let elsewhere = cache.scratch.path().join("elsewhere");
    fs::rename(&artefact, &elsewhere).expect("own");
    symlink(&elsewhere, &artefact).expect("own");
    assert!(cache.run().stderr.contains("it is a symbolic link"));
    fs::remove_file(&artefact).expect("own");
    fs::rename(&elsewhere, &artefact).expect("own");
    if stockade_testing::is_root() {
        std::os::unix::fs::chown(&artefact, Some(65534), None).expect("root may");
        assert!(cache.run().stderr.contains("it belongs to another user"));
    }
}

fn missing_component_is_named_with_the_command_that_builds_it() {
    let scratch = Scratch::new();
    let mut command = command(&["--language", "python", "-"]);
    command.env("XDG_CACHE_HOME", scratch.path());
    let run = finish_with(command, b"print(1)");
    assert!(run.stderr.contains("the CPython component is not built"), "{run:?}");
    assert!(run.stderr.contains("cargo xtask component python"), "{run:?}");
}
