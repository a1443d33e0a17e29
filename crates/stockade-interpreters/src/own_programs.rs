//! A program of the caller's own directories, such as one that `cargo install` made.

use std::env;
use std::path::{Path, PathBuf};

use stockade_policy::SEARCH_PATH;

use super::Surroundings;
use super::resolve::Trust;

/// Directories in a home where tools install programs.
pub const OWN_DIRECTORIES: [&str; 2] = [".cargo/bin", ".local/bin"];

/// Where a program of the caller's own is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPrograms {
    /// The directory with the program.
    pub directory: PathBuf,
    /// The directory of rustup's toolchains, if the program is one of rustup's proxies.
    pub rustup: Option<PathBuf>,
}

/// The caller's own directory that has a program, if a shell of the caller would start it from
/// there, the system has no program of that name, and no other user could replace it. The program
/// must be in the directory itself: what a link leads to would not be visible inside.
pub fn own_programs_of(program: &str, surroundings: &Surroundings) -> Option<OwnPrograms> {
    if program.is_empty() || program.contains('/') {
        return None;
    }
    let has = |directory: &Path| directory.join(program).exists();
    if SEARCH_PATH.iter().any(|system| has(Path::new(system))) {
        return None;
    }
    let home = surroundings.home.as_deref()?;
    let path = surroundings.path.clone()?;
    let found = env::split_paths(&path).find(|place| place.is_absolute() && has(place))?;
    let is_own = OWN_DIRECTORIES.iter().any(|own| found == home.join(own));
    let trust = Trust { user: surroundings.user };
    let directory = trust.resolve(&found).ok().filter(|it| is_own && it.metadata.is_dir())?;
    let executable = trust.executable(&found.join(program)).ok()?;
    // A link on the way would have to exist inside too.
    let is_plain = directory.real == found && executable.real.parent() == Some(found.as_path());
    let is_proxy = executable.real.file_name().is_some_and(|name| name == "rustup");
    let rustup = || {
        let place = home.join(".rustup");
        let toolchains = trust.resolve(&place).ok()?;
        (toolchains.real == place && toolchains.metadata.is_dir()).then_some(place)
    };
    is_plain.then(|| OwnPrograms { rustup: is_proxy.then(rustup).flatten(), directory: found })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn program(file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn own_directory_is_used_only_for_a_program_that_is_safe_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let own = home.join(".local/bin");
        program(&own.join("tool-of-mine"));
        program(&own.join("true"));
        program(&home.join("elsewhere/other-tool"));
        symlink(home.join("elsewhere/other-tool"), own.join("linked-tool")).unwrap();
        let user = home.metadata().unwrap().uid();
        let path = env::join_paths([home.join("elsewhere"), own.clone()]).unwrap();
        let found = Surroundings {
            path: Some(path),
            home: Some(home.clone()),
            user,
            ..Surroundings::default()
        };
        let directory_of = |program: &str, surroundings: &Surroundings| {
            own_programs_of(program, surroundings).map(|found| found.directory)
        };
        assert_eq!(directory_of("tool-of-mine", &found), Some(own.clone()));
        for other in ["true", "other-tool", "linked-tool", "missing-tool", "", "a/b"] {
            assert_eq!(directory_of(other, &found), None, "{other}");
        }
        let not_on_path = Surroundings { path: Some("/usr/bin".into()), ..found.clone() };
        assert_eq!(directory_of("tool-of-mine", &not_on_path), None);
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(directory_of("tool-of-mine", &found), None, "others can replace it");
    }

    #[test]
    fn proxy_of_rustup_brings_the_toolchains() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let own = home.join(".cargo/bin");
        program(&own.join("rustup"));
        program(&own.join("plain-tool"));
        symlink("rustup", own.join("cargo-of-mine")).unwrap();
        let found = Surroundings {
            path: Some(own.clone().into()),
            home: Some(home.clone()),
            user: home.metadata().unwrap().uid(),
            ..Surroundings::default()
        };
        let rustup_of = |program: &str| own_programs_of(program, &found).unwrap().rustup;
        assert_eq!(rustup_of("cargo-of-mine"), None, "there are no toolchains");
        let toolchains = home.join(".rustup");
        std::fs::create_dir(&toolchains).unwrap();
        assert_eq!(rustup_of("cargo-of-mine"), Some(toolchains.clone()));
        assert_eq!(rustup_of("plain-tool"), None);
        std::fs::set_permissions(&toolchains, PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::remove_dir(&toolchains).unwrap();
        symlink("/tmp", &toolchains).unwrap();
        assert_eq!(rustup_of("cargo-of-mine"), None, "a link leads elsewhere");
    }
}
