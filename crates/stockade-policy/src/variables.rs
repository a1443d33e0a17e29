//! Which environment variables may be set inside.

/// Variables that change what the loader or an interpreter runs before the program does.
pub const LOADER_VARIABLES: [&str; 32] = [
    "BASHOPTS",
    "DOTNET_STARTUP_HOOKS",
    "GIT_SSH_COMMAND",
    "JDK_JAVA_OPTIONS",
    "LUA_INIT",
    "PERL5DB",
    "PYTHONBREAKPOINT",
    "PYTHONUSERBASE",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_PROFILE",
    "LD_SHOW_AUXV",
    "LD_DYNAMIC_WEAK",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUBYOPT",
    "RUBYLIB",
    "PERL5LIB",
    "PERL5OPT",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
];

/// Parts of names that secrets usually have.
const CREDENTIAL_PARTS: [&str; 13] = [
    "DATABASE_URL",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "CREDENTIAL",
    "AUTH_SOCK",
    "CONNECTION_STRING",
];

/// Variables the network gate sets itself.
const GATE_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Why a variable may not be set inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VariableError {
    /// Not a name.
    #[error("`{name}` is not the name of an environment variable")]
    BadName {
        /// As it was written.
        name: String,
    },
    /// It would run code of the sandbox's choosing before the program.
    #[error("`{name}` changes what the loader or interpreter runs")]
    Loader {
        /// As it was written.
        name: String,
    },
    /// It looks like a secret.
    #[error("`{name}` looks like a credential")]
    Credential {
        /// As it was written.
        name: String,
    },
    /// The gate sets it.
    #[error("`{name}` is set by the network gate")]
    Gate {
        /// As it was written.
        name: String,
    },
}

impl VariableError {
    /// What to do instead.
    pub fn remedy(&self) -> &'static str {
        match self {
            VariableError::BadName { .. } => "use letters, digits and `_`, not a digit first",
            VariableError::Loader { .. } => "remove it; put modules into the workspace instead",
            VariableError::Credential { .. } => {
                "use `secrets`: the gate adds the value on the way out and it never enters the sandbox"
            }
            VariableError::Gate { .. } => "remove it; list hosts in network_allowlist",
        }
    }
}

/// Checks a variable's name by its form.
pub fn check_name(name: &str) -> Result<(), VariableError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && rest && name.len() <= 128 {
        Ok(())
    } else {
        Err(VariableError::BadName { name: name.to_owned() })
    }
}

/// Checks the name of a variable that holds a secret's placeholder: it may look like a
/// credential, and nothing else that `check_variable` refuses.
pub fn check_secret_name(name: &str) -> Result<(), VariableError> {
    check_name(name)?;
    let upper = name.to_ascii_uppercase();
    let name = name.to_owned();
    if LOADER_VARIABLES.contains(&upper.as_str()) || upper.starts_with("LD_") {
        return Err(VariableError::Loader { name });
    }
    if GATE_VARIABLES.contains(&upper.as_str()) {
        return Err(VariableError::Gate { name });
    }
    Ok(())
}

/// Checks whether a policy or a caller may set a variable inside.
pub fn check_variable(name: &str) -> Result<(), VariableError> {
    check_secret_name(name)?;
    let upper = name.to_ascii_uppercase();
    let name = name.to_owned();
    let part = CREDENTIAL_PARTS.iter().any(|part| upper.contains(part));
    if part
        || upper == "KEY"
        || upper.ends_with("_KEY")
        || upper.ends_with("_PAT")
        || upper.ends_with("_PWD")
    {
        return Err(VariableError::Credential { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_variables_are_refused_in_any_case() {
        for name in ["LD_PRELOAD", "ld_preload", "LD_ANYTHING", "PythonPath", "NODE_OPTIONS"] {
            assert!(matches!(check_variable(name), Err(VariableError::Loader { .. })), "{name}");
        }
    }

    #[test]
    fn a_secret_may_be_named_like_one_and_not_like_a_loader_variable() {
        assert_eq!(check_secret_name("OPENAI_API_KEY"), Ok(()));
        for name in ["LD_PRELOAD", "https_proxy", "PYTHONPATH", "1X"] {
            assert!(check_secret_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn credentials_are_pointed_to_secrets() {
        for name in
            ["OPENAI_API_KEY", "GITHUB_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "X_PAT"]
        {
            let error = check_variable(name).unwrap_err();
            assert!(error.remedy().contains("secrets"), "{name}");
        }
    }

    #[test]
    fn ordinary_names_pass_and_strange_ones_do_not() {
        for name in ["LANG", "TZ", "HOME", "MY_VAR1", "_x", "KEYBOARD", "PATH"] {
            assert_eq!(check_variable(name), Ok(()), "{name}");
        }
        for name in ["", "1X", "A=B", "A B", "Ä", "A\0"] {
            assert!(matches!(check_variable(name), Err(VariableError::BadName { .. })), "{name:?}");
        }
    }
}
