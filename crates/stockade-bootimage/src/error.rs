//! Errors of images of virtual machines.

use std::io;
use std::path::PathBuf;

/// An image could not be built, found or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootImageError {
    /// The name of an image cannot be used.
    #[error("{name:?} is not a name of a machine image")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no image of this name.
    #[error("there is no machine image {name}")]
    Missing {
        /// The name.
        name: String,
    },
    /// A file of the image is not what was built.
    #[error("{} is not the file that was built: its hash is {found} instead of {expected}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The hash that the image was built with.
        expected: String,
        /// The hash now.
        found: String,
    },
    /// A program of this host is missing.
    #[error("building a machine image needs {program}")]
    NoProgram {
        /// The program.
        program: &'static str,
        /// Its package.
        package: &'static str,
    },
    /// A program of this host failed.
    #[error("{program} failed: {output}")]
    Program {
        /// The program.
        program: &'static str,
        /// What it printed.
        output: String,
    },
    /// The packages have no kernel, or the kernel lacks a module.
    #[error("cannot use the kernel: {reason}")]
    Kernel {
        /// What is missing.
        reason: String,
    },
    /// The tree of a root cannot be used.
    #[error("cannot use {} as a root: {reason}", path.display())]
    Root {
        /// The tree.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file or a directory of this host could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The description of the image is not one.
    #[error("cannot understand {}", path.display())]
    Manifest {
        /// The description.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

impl BootImageError {
    /// What to do.
    pub fn remedy(&self) -> String {
        match self {
            BootImageError::Name { .. } => {
                "use 1 to 64 letters, digits, `.`, `_` and `-`, and no `.` or `-` at the beginning"
                    .to_owned()
            }
            BootImageError::Missing { name } => {
                format!("build it with `stockade image build --vm {name}`")
            }
            BootImageError::Changed { .. } | BootImageError::Manifest { .. } => {
                "build it again with `stockade image build --vm NAME`".to_owned()
            }
            BootImageError::NoProgram { package, .. } => {
                format!("as root, run `apt-get install --no-install-recommends {package}`")
            }
            BootImageError::Program { program: "apt-get", .. } => {
                "as root, run `apt-get update`".to_owned()
            }
            BootImageError::Program { .. } => "read what the program printed".to_owned(),
            BootImageError::Kernel { .. } => {
                "use the kernel of the distribution's package, without --kernel".to_owned()
            }
            BootImageError::Root { .. } => {
                "name a directory with the files of a Linux system".to_owned()
            }
            BootImageError::File { .. } => {
                "check the path, its permissions and the free space".to_owned()
            }
        }
    }

    /// Adds the operation and the file to an error of the kernel.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> BootImageError {
        let path = path.into();
        move |source| BootImageError::File { doing, path, source }
    }
}
