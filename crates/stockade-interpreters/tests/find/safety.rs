//! Planted interpreters, and dangling names.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use stockade_interpreters::{InterpreterError, Problem, Skipped, Surroundings, find};
use stockade_provider::Language;

use crate::home::{Home, found, own_binds, refusal};

fn allow_everybody(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn relative_entries_of_path_are_ignored() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    home.executable("project/python3");
    let surroundings = Surroundings {
        path: Some(format!("::.:bin:../project:{}", prefix.join("bin").display()).into()),
        ..home.surroundings()
    };
    let interpreter = found(&surroundings);
    assert_eq!(interpreter.resolved, prefix.join("bin/python3.11"));
    let skipped = ["", ".", "bin", "../project"]
        .map(|place| Skipped { place: place.into(), why: Problem::Relative });
    assert_eq!(interpreter.skipped, skipped);
}

#[test]
fn interpreter_in_a_world_writable_directory_is_refused() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    let surroundings = home.with_path(&[prefix.join("bin"), "/usr/bin".into()]);
    found(&surroundings);
    for (path, mode) in [("bin", 0o777), ("bin", 0o1777), ("", 0o777), ("bin/python3.11", 0o757)] {
        let path: PathBuf = prefix.join(path).components().collect();
        allow_everybody(&path, mode);
        assert_eq!(refusal(&surroundings), Problem::WorldWritable { path: path.clone() });
        allow_everybody(&path, 0o755);
    }
    found(&surroundings);
}

#[test]
fn interpreter_of_another_user_is_refused() {
    const SOMEBODY: u32 = 54321;
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    let mut surroundings = home.with_path(&[prefix.join("bin")]);
    found(&surroundings);
    // Root changes the owner of the file; other users search with another user id.
    let owner = match surroundings.user {
        0 => {
            chown(prefix.join("bin/python3.11"), Some(SOMEBODY), None).unwrap();
            SOMEBODY
        }
        me => {
            surroundings.user = SOMEBODY;
            me
        }
    };
    let problem = refusal(&surroundings);
    assert!(matches!(problem, Problem::ForeignOwner { owner: found, .. } if found == owner));
}

#[test]
fn directory_of_another_user_without_an_interpreter_does_not_matter() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    let open = home.directory("open");
    allow_everybody(&open, 0o777);
    found(&home.with_path(&[open, prefix.join("bin")]));
}

#[test]
fn wrapper_script_is_refused_and_not_run() {
    let home = Home::new();
    let proof = home.path("it-ran");
    let text = format!("#!/bin/sh\ntouch {}\nexec python3 \"$@\"\n", proof.display());
    let path = home.script("bin/python3", &text);
    let surroundings = home.with_path(&[path.parent().unwrap()]);
    let first_line = "#!/bin/sh".to_owned();
    assert_eq!(refusal(&surroundings), Problem::Script { path, first_line });
    assert!(!proof.exists());
}

#[test]
fn names_that_a_shell_skips_are_skipped_with_the_reason() {
    let home = Home::new();
    let bin = home.directory("bin");
    let looping = home.link("bin/python3", "python");
    home.link("bin/python", "python3");
    let dangling = home.link("gone/python3", "/no/such/python");
    let folder = home.directory("folder/python3");
    let plain = home.file("plain/python3", "text");
    let directories = [&looping, &dangling, &folder, &plain].map(|it| it.parent().unwrap());
    let error = find(Language::Python, &home.with_path(&directories)).unwrap_err();
    let skipped = |place: &Path, why| Skipped { place: place.to_path_buf(), why };
    let expected = [
        skipped(&looping, Problem::Loop { path: looping.clone() }),
        skipped(&bin.join("python"), Problem::Loop { path: bin.join("python") }),
        skipped(&dangling, Problem::Missing { path: "/no".into() }),
        skipped(&folder, Problem::NotAFile { path: folder.clone() }),
        skipped(&plain, Problem::NotExecutable { path: plain.clone() }),
    ];
    assert_eq!(error.why_not(), expected);
    assert!(error.to_string().contains("leads through too many symbolic links"), "{error}");
    assert!(error.hint().contains("--python PATH"));
}

#[test]
fn the_same_names_are_errors_when_requested_explicitly() {
    let home = Home::new();
    let plain = home.file("plain/python3", "text");
    let gone = home.path("gone");
    for (explicit, problem) in [
        (plain.clone(), Problem::NotExecutable { path: plain }),
        (gone.clone(), Problem::Missing { path: gone }),
        (home.directory("empty"), Problem::Missing { path: home.path("empty/bin") }),
    ] {
        let mut surroundings = home.with_path(&["/usr/bin"]);
        surroundings.explicit_python = Some(explicit);
        assert_eq!(refusal(&surroundings), problem);
    }
}

#[test]
fn missing_environment_is_skipped_and_a_broken_one_is_an_error() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    let mut surroundings = home.with_path(&[prefix.join("bin")]);
    surroundings.virtual_env = Some(home.path("venv"));
    assert_eq!(found(&surroundings).resolved, prefix.join("bin/python3.11"));
    home.environment("venv", Path::new("/no/such/bin"));
    assert_eq!(refusal(&surroundings), Problem::Missing { path: "/no".into() });
}

#[test]
fn executable_without_a_standard_library_is_refused() {
    let home = Home::new();
    let real = home.executable("tools/bin/python3");
    let prefix = home.path("tools");
    let problem = refusal(&home.with_path(&[prefix.join("bin")]));
    assert_eq!(problem, Problem::NoStandardLibrary { real, prefix });
}

#[test]
fn environment_that_is_the_home_mounts_only_its_own_files() {
    let home = Home::new();
    let base = home.python("pythons/3.11.7", "3.11");
    home.environment(".", &base.join("bin"));
    home.file(".ssh/id_ed25519", "secret");
    let interpreter = found(&home.with_path(&[home.path("bin")]));
    let own = [home.path("lib/python3.11"), base, home.path("pyvenv.cfg")];
    assert_eq!(own_binds(&interpreter), own);
    let made = interpreter.links.iter().any(|link| link.at == home.path("bin/python3"));
    assert!(made, "{:?}", interpreter.links);
}

#[test]
fn error_lists_every_searched_place() {
    let home = Home::new();
    let empty = home.directory("empty");
    let error = find(Language::JavaScript, &home.with_path(&[&empty])).unwrap_err();
    let why_not = vec![Skipped { place: empty, why: Problem::Nothing }];
    let language = Language::JavaScript;
    assert_eq!(error, InterpreterError::NotFound { language, why_not });
}

#[test]
fn link_planted_in_an_environment_exposes_nothing_elsewhere() {
    let home = Home::new();
    let prefix = home.python("pythons/3.11.7", "3.11");
    let environment = home.environment("project/.venv", &prefix.join("bin"));
    let surroundings = home.with_path(&[environment.join("bin")]);
    found(&surroundings);
    // An additional file, so that the environment is not mounted as a whole.
    home.file("project/.venv/notes.txt", "");
    found(&surroundings);
    let secrets = home.directory(".aws");
    home.link("project/.venv/share", &secrets);
    assert_eq!(refusal(&surroundings), Problem::Forbidden { path: secrets });
}
