//! The Python of the caller's environment, for programs that are not Python themselves.

use std::env;
use std::path::Path;

use stockade_policy::SEARCH_PATH;
use stockade_provider::Language;

use super::{Interpreter, InterpreterError, Surroundings, find};

/// The Python that a shell of the caller would start, so that a shell, a script or a program such
/// as `pytest` finds the same one inside. `None` if that is the system's, which every sandbox has.
///
/// An environment that the caller chose, with `--python` or by activating it, is used or refused.
/// One that is only on the search path is left out if it cannot be used.
pub fn surrounding_python(
    surroundings: &Surroundings,
) -> Result<Option<Interpreter>, InterpreterError> {
    let Surroundings { explicit_python, virtual_env, conda_prefix, .. } = surroundings;
    let is_chosen = explicit_python.is_some() || virtual_env.is_some() || conda_prefix.is_some();
    if !is_chosen && is_systems(surroundings) {
        return Ok(None);
    }
    match find(Language::Python, surroundings) {
        Ok(found) if found.program.parent().is_some_and(is_system) => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(error @ InterpreterError::Refused { .. }) if is_chosen => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the first Python on the search path is the system's, without reading it.
fn is_systems(surroundings: &Surroundings) -> bool {
    let path = surroundings.path.clone().unwrap_or_default();
    let has_python = |directory: &Path| {
        Language::Python.programs().iter().any(|name| directory.join(name).exists())
    };
    let first =
        env::split_paths(&path).find(|directory| directory.is_absolute() && has_python(directory));
    first.is_none_or(|directory| is_system(&directory))
}

fn is_system(directory: &Path) -> bool {
    SEARCH_PATH.iter().any(|system| directory == Path::new(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_of_the_system_needs_nothing_to_be_shown() {
        let path = Some("relative:/nonexistent:/usr/bin:/bin".into());
        let surroundings = Surroundings { path, ..Surroundings::default() };
        assert_eq!(surrounding_python(&surroundings), Ok(None));
    }

    #[test]
    fn unusable_python_is_an_error_only_if_the_caller_chose_it() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("python3"), "#!/bin/sh\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join("python3"), mode).unwrap();
        let user = std::os::unix::fs::MetadataExt::uid(&folder.path().metadata().unwrap());
        let on_path = Surroundings { path: Some(bin.into()), user, ..Surroundings::default() };
        assert_eq!(surrounding_python(&on_path), Ok(None));
        let virtual_env = Some(folder.path().to_owned());
        let chosen = Surroundings { virtual_env, ..on_path };
        assert!(surrounding_python(&chosen).is_err());
    }
}
