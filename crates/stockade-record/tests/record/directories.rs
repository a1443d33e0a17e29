//! Which directories may store records.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use stockade_record::{PlaceError, RecordDirectory, Recorder, WriteError, default_places, list};

use crate::support::started;

/// Starts a record at the first acceptable place.
fn begun(places: Vec<RecordDirectory>) -> Result<Recorder, WriteError> {
    let recorder = Recorder::new(places).expect("there is randomness");
    match recorder.begin(started(&["ls"])) {
        Ok(()) => Ok(recorder),
        Err(_) => {
            let failure = recorder.failure().expect("a failure has a cause");
            drop(recorder);
            Err(std::sync::Arc::into_inner(failure).expect("nobody else holds it"))
        }
    }
}

fn at(path: &Path) -> Result<Recorder, WriteError> {
    begun(vec![RecordDirectory::named(path).expect("the path has a name")])
}

fn refusal(path: &Path) -> PlaceError {
    match at(path) {
        Err(WriteError::Place(error)) => error,
        Err(other) => panic!("{} is refused for another reason: {other}", path.display()),
        Ok(_) => panic!("{} was taken", path.display()),
    }
}

#[test]
fn record_and_its_directories_are_created_private() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("a/b/records");
    let recorder = at(&directory).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&scratch.path().join("a")), 0o700);
    let open = recorder.path().unwrap();
    assert_eq!(mode(&open), 0o600);
    assert!(open.to_str().unwrap().ends_with(".open.jsonl"));
    recorder.end("exited").unwrap();
    let finished = recorder.path().unwrap();
    assert_eq!(
        finished.file_name().unwrap().to_str().unwrap(),
        format!("{}.jsonl", recorder.session())
    );
    assert!(finished.exists() && !open.exists());
}

#[test]
fn link_instead_of_the_directory_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let real = scratch.path().join("real");
    assert!(at(&real).is_ok());
    let link = scratch.path().join("link");
    symlink(&real, &link).unwrap();
    let error = refusal(&link);
    assert!(matches!(error, PlaceError::NoDirectory { .. }), "{error}");
    assert!(error.remedy().contains("--record"), "{}", error.remedy());
}

#[test]
fn directory_that_others_may_enter_is_refused_with_the_command_that_fixes_it() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("records");
    assert!(at(&directory).is_ok());
    for mode in [0o777, 0o1777, 0o770, 0o701, 0o750] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        let error = refusal(&directory);
        assert!(matches!(error, PlaceError::OpenToOthers { .. }), "{mode:o}: {error}");
        // Users keep files in a directory that is sticky.
        let is_advised = error.remedy().contains("chmod 700");
        assert_eq!(is_advised, mode & 0o1000 == 0, "{}", error.remedy());
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    assert!(at(&directory).is_ok());
}

#[test]
fn directory_of_another_user_is_refused() {
    let theirs = match rustix::process::geteuid().is_root() {
        true => {
            let scratch = tempfile::tempdir().unwrap();
            let directory = scratch.keep();
            fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
            assert!(at(&directory).is_ok());
            chown(&directory, Some(65_534), None).unwrap();
            directory
        }
        // An ordinary user never owns the root of the file system.
        false => Path::new("/usr").to_owned(),
    };
    let error = refusal(&theirs);
    assert!(matches!(error, PlaceError::NotOurs { .. }), "{error}");
    if rustix::process::geteuid().is_root() {
        fs::remove_dir_all(theirs).unwrap();
    }
}

#[test]
fn file_instead_of_the_directory_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(refusal(&file), PlaceError::NoDirectory { .. }));
}

#[test]
fn place_that_cannot_be_created_is_skipped_and_an_open_one_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let good = scratch.path().join("good");
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    let absent = RecordDirectory::named(&file.join("records")).unwrap();
    let recorder = begun(vec![absent, RecordDirectory::named(&good).unwrap()]).unwrap();
    assert!(recorder.path().unwrap().starts_with(&good));
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let places =
        vec![RecordDirectory::named(&open).unwrap(), RecordDirectory::named(&good).unwrap()];
    assert!(matches!(begun(places), Err(WriteError::Place(PlaceError::OpenToOthers { .. }))));
}

#[test]
fn every_own_directory_of_a_default_place_is_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("state");
    let places = || {
        let variable = |name: &str| (name == "XDG_STATE_HOME").then(|| state.clone().into());
        default_places(variable, 7).into_iter().take(1).collect::<Vec<_>>()
    };
    assert!(begun(places()).is_ok());
    assert_eq!(list(&places()[0]).unwrap().len(), 1);
    let above = state.join("stockade");
    fs::set_permissions(&above, Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(begun(places()), Err(WriteError::Place(PlaceError::OpenToOthers { .. }))));
    assert!(list(&places()[0]).is_err());
    fs::remove_dir_all(&above).unwrap();
    symlink(scratch.path(), &above).unwrap();
    assert!(matches!(begun(places()), Err(WriteError::Place(PlaceError::NoDirectory { .. }))));
}
