//! The environment of the user's shell, as plain data.

use std::ffi::OsString;
use std::path::PathBuf;

/// What determines the user's interpreter. The caller reads it from its environment; an absent
/// value has no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `--python`: an executable, or an environment's or installation's directory.
    pub explicit_python: Option<PathBuf>,
    /// `VIRTUAL_ENV`: the active virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// `CONDA_PREFIX`: the active conda environment.
    pub conda_prefix: Option<PathBuf>,
    /// `PATH`. Entries that are not absolute are ignored.
    pub path: Option<OsString>,
    /// `HOME`: never mounted as a whole, and the last place where asdf looks for a version.
    pub home: Option<PathBuf>,
    /// The user's working directory; version files are searched from here upwards.
    pub working_directory: PathBuf,
    /// The user id; interpreters that belong to neither this user nor root are refused.
    pub user: u32,
    /// `PYENV_VERSION`: one pyenv version, or several separated by colons.
    pub pyenv_version: Option<OsString>,
    /// `ASDF_PYTHON_VERSION`.
    pub asdf_python_version: Option<OsString>,
    /// `ASDF_NODEJS_VERSION`.
    pub asdf_nodejs_version: Option<OsString>,
    /// `ASDF_DATA_DIR`: where asdf installs; by default the directory that contains its shims.
    pub asdf_data_dir: Option<PathBuf>,
}

impl Surroundings {
    /// Reads the values from environment variables; an empty variable counts as absent.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        working_directory: PathBuf,
        user: u32,
    ) -> Surroundings {
        let text = |name| variable(name).filter(|value| !value.is_empty());
        let path = |name| text(name).map(PathBuf::from);
        Surroundings {
            explicit_python: None,
            virtual_env: path("VIRTUAL_ENV"),
            conda_prefix: path("CONDA_PREFIX"),
            path: text("PATH"),
            home: path("HOME"),
            working_directory,
            user,
            pyenv_version: text("PYENV_VERSION"),
            asdf_python_version: text("ASDF_PYTHON_VERSION"),
            asdf_nodejs_version: text("ASDF_NODEJS_VERSION"),
            asdf_data_dir: path("ASDF_DATA_DIR"),
        }
    }
}
