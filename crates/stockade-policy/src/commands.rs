//! Names of executables, as `command_allowlist` writes them.

/// The directories in which a bare name is searched inside, in this order.
pub const SEARCH_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Why something is not the name of an executable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandNameError {
    /// Empty, or with a character that no executable name has here.
    #[error("`{name}` is not the name of an executable")]
    BadName {
        /// As it was written.
        name: String,
    },
    /// A path that does not start at the root.
    #[error("`{name}` is a relative path")]
    Relative {
        /// As it was written.
        name: String,
    },
}

impl CommandNameError {
    /// What to write instead.
    pub fn remedy(&self) -> &'static str {
        match self {
            CommandNameError::BadName { .. } => {
                "write the executable alone, such as `python3` or `/usr/bin/git`, without arguments"
            }
            CommandNameError::Relative { .. } => "write a bare name, or a path from the root",
        }
    }
}

/// Checks one entry of `command_allowlist`.
pub(crate) fn check_command_name(name: &str) -> Result<(), CommandNameError> {
    let bad = |c: char| c.is_control() || c.is_whitespace() || "*?[]{}'\"`$;&|<>()\\".contains(c);
    let dots = name.split('/').any(|part| part == ".." || part == ".");
    if name.contains('/') && !name.starts_with('/') && !name.contains(bad) {
        return Err(CommandNameError::Relative { name: name.to_owned() });
    }
    if name.is_empty() || name.len() > 4095 || name.ends_with('/') || name.contains(bad) || dots {
        return Err(CommandNameError::BadName { name: name.to_owned() });
    }
    Ok(())
}

/// Whether an allowlist entry names the program that is about to start.
///
/// A bare entry means the executable of that name on the search path, so it also matches that
/// executable's full path, but never a file of the same name elsewhere. A full path matches only
/// itself: this code does not know what a bare name would find first.
pub(crate) fn entry_matches(entry: &str, program: &str) -> bool {
    let listed = program
        .rsplit_once('/')
        .is_some_and(|(directory, name)| entry == name && SEARCH_PATH.contains(&directory));
    entry == program || listed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_entry_means_the_executable_on_the_search_path() {
        assert!(entry_matches("ls", "ls"));
        assert!(entry_matches("ls", "/usr/bin/ls"));
        assert!(entry_matches("/usr/bin/ls", "/usr/bin/ls"));
        assert!(!entry_matches("/usr/bin/ls", "ls"));
        assert!(!entry_matches("ls", "/tmp/ls"));
        assert!(!entry_matches("ls", "./ls"));
        assert!(!entry_matches("ls", "/proc/self/root/usr/bin/ls"));
        assert!(!entry_matches("ls", "/usr/bin/../bin/ls"));
    }

    #[test]
    fn arguments_patterns_and_relative_paths_are_not_names() {
        for name in ["", "ls -l", "py*", "./ls", "bin/ls", "/usr/../bin/ls", "ls;id", "$(id)", "a/"]
        {
            assert!(check_command_name(name).is_err(), "{name}");
        }
        for name in ["python3.11", "/usr/bin/g++", "x86_64-linux-gnu-gcc-12"] {
            assert_eq!(check_command_name(name), Ok(()), "{name}");
        }
    }
}
