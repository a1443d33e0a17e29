//! The environment variables that may be set inside.

/// Variables that change what the loader or an interpreter runs before the program. In addition,
/// all that start with `LD_`, and `NODE_…OPTIONS`.
pub const LOADER_VARIABLES: &[&str] = &[
    // The C library.
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    // Shells.
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "ZDOTDIR",
    // Python.
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "PYTHON_PRESITE",
    // Others.
    "BUNDLE_GEMFILE",
    "CLASSPATH",
    "CORECLR_PROFILER_PATH",
    "COR_PROFILER_PATH",
    "DOTNET_STARTUP_HOOKS",
    "GEM_HOME",
    "GEM_PATH",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "RUBYLIB",
    "RUBYOPT",
    "R_ENVIRON",
    "R_PROFILE",
    "_JAVA_OPTIONS",
];

/// Substrings of typical names of secrets.
const CREDENTIAL_PARTS: &[&str] = &[
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "AUTH_SOCK",
    "CONNECTION_STRING",
    "CREDENTIAL",
    "DATABASE_URL",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "TOKEN",
];

/// Last words of such names, after a `_` or alone.
const CREDENTIAL_ENDINGS: &[&str] = &[
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "COOKIES",
    "CREDS",
    "DSN",
    "JWT",
    "KEY",
    "PASS",
    "PASSCODE",
    "PASSFILE",
    "PAT",
    "WEBHOOK",
    "WEBHOOK_URL",
];

/// Services whose URLs usually contain a password: a name with one of these words that ends in
/// `_URL` or `_URI`.
const CREDENTIAL_SERVICES: &[&str] = &[
    "AMQP",
    "BROKER",
    "CLOUDAMQP",
    "DATABASE",
    "DB",
    "MARIADB",
    "MONGO",
    "MONGODB",
    "MYSQL",
    "POSTGRES",
    "POSTGRESQL",
    "RABBITMQ",
    "REDIS",
    "SMTP",
];

/// Other names of secrets.
const CREDENTIAL_NAMES: &[&str] =
    &["DOCKER_AUTH_CONFIG", "GIT_ASKPASS", "KUBECONFIG", "PGPASSFILE", "SSH_ASKPASS"];

/// Names that look like credentials and are not.
const ORDINARY_NAMES: &[&str] = &["MAX_TOKENS", "TOKENIZERS_PARALLELISM"];

/// Variables that the network gate sets itself.
const GATE_VARIABLES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Variables that the wall or the gate sets itself, or that programs read as paths. A secret's
/// placeholder in one of them would break every program, and is never sent anywhere. In addition,
/// all that start with `STOCKADE_`.
const RESERVED_VARIABLES: &[&str] = &[
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "HOME",
    "LANG",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "OMP_NUM_THREADS",
    "PATH",
    "PIP_CERT",
    "PWD",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "USER",
];

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
    /// It would run code that the sandbox chooses before the program.
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
    /// The wall or the gate sets it, so that it cannot have a secret.
    #[error("`{name}` cannot be a secret: the sandbox sets it, or programs read a path from it")]
    Reserved {
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
                "keep it outside of the sandbox with `secrets`, which send it to its hosts only, or pass \
                 it in by name with `--env-secret NAME`, in Python `credentials=[NAME]`, so that the \
                 program can read it"
            }
            VariableError::Reserved { .. } => {
                "name the variable from which the program reads its key"
            }
            VariableError::Gate { .. } => "remove it; list hosts in network_allowlist",
        }
    }
}

/// Checks the syntax of a variable's name.
pub fn check_name(name: &str) -> Result<(), VariableError> {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && rest && name.len() <= 128 {
        Ok(())
    } else {
        Err(VariableError::BadName { name: name.to_owned() })
    }
}

/// Checks the name of a variable for a secret or its placeholder: it may look like a credential, but
/// the other rules of `check_variable` apply, and the sandbox must not set it itself.
pub fn check_secret_name(name: &str) -> Result<(), VariableError> {
    check_settable(name)?;
    let upper = name.to_ascii_uppercase();
    if RESERVED_VARIABLES.contains(&upper.as_str()) || upper.starts_with("STOCKADE_") {
        return Err(VariableError::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// The rules for every variable inside.
fn check_settable(name: &str) -> Result<(), VariableError> {
    check_name(name)?;
    let upper = name.to_ascii_uppercase();
    let name = name.to_owned();
    if is_loader_variable(&upper) {
        return Err(VariableError::Loader { name });
    }
    if GATE_VARIABLES.contains(&upper.as_str()) {
        return Err(VariableError::Gate { name });
    }
    Ok(())
}

/// Checks whether a policy or a caller may set a variable inside.
pub fn check_variable(name: &str) -> Result<(), VariableError> {
    check_settable(name)?;
    let upper = name.to_ascii_uppercase();
    let name = name.to_owned();
    if looks_like_a_credential(&upper) {
        return Err(VariableError::Credential { name });
    }
    Ok(())
}

fn is_loader_variable(upper: &str) -> bool {
    LOADER_VARIABLES.contains(&upper)
        || upper.starts_with("LD_")
        || (upper.starts_with("NODE_") && upper.ends_with("OPTIONS"))
}

fn looks_like_a_credential(upper: &str) -> bool {
    if ORDINARY_NAMES.contains(&upper) {
        return false;
    }
    let ends_in = |word: &str| {
        let before = upper.strip_suffix(word);
        before.is_some_and(|before| before.is_empty() || before.ends_with('_'))
    };
    let is_address = upper.ends_with("_URL") || upper.ends_with("_URI");
    CREDENTIAL_NAMES.contains(&upper)
        || CREDENTIAL_PARTS.iter().any(|part| upper.contains(part))
        || CREDENTIAL_ENDINGS.iter().any(|word| ends_in(word))
        // The shell's own PWD and OLDPWD are directories.
        || upper.ends_with("_PWD")
        || (is_address && upper.split('_').any(|word| CREDENTIAL_SERVICES.contains(&word)))
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
    fn secret_may_look_like_a_credential_but_not_like_a_loader_variable() {
        assert_eq!(check_secret_name("OPENAI_API_KEY"), Ok(()));
        for name in ["LD_PRELOAD", "https_proxy", "PYTHONPATH", "1X"] {
            assert!(check_secret_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn secret_in_a_variable_that_the_sandbox_sets_is_refused() {
        for name in RESERVED_VARIABLES.iter().chain(&["path", "STOCKADE_TOOLS_SOCKET"]) {
            let error = check_secret_name(name).unwrap_err();
            assert!(matches!(error, VariableError::Reserved { .. }), "{name}: {error}");
        }
        assert_eq!(check_variable("PATH"), Ok(()), "its value may be set");
    }

    #[test]
    fn every_loader_variable_is_refused() {
        let further = ["NODE_OPTIONS", "NODE_TLS_OPTIONS", "LD_BIND_NOW"];
        for name in LOADER_VARIABLES.iter().chain(&further) {
            assert!(matches!(check_variable(name), Err(VariableError::Loader { .. })), "{name}");
        }
    }

    #[test]
    fn reference_names_every_variable_and_word_that_is_refused() {
        let reference = include_str!("../../../docs/policy.md");
        let tables = [
            LOADER_VARIABLES,
            CREDENTIAL_PARTS,
            CREDENTIAL_ENDINGS,
            CREDENTIAL_SERVICES,
            CREDENTIAL_NAMES,
            ORDINARY_NAMES,
            RESERVED_VARIABLES,
        ];
        let is_missing = |name: &&&str| !reference.contains(&format!("`{name}`"));
        let missing: Vec<_> = tables.into_iter().flatten().filter(is_missing).collect();
        assert_eq!(missing, [&""; 0], "docs/policy.md does not name them");
    }

    #[test]
    fn remedy_for_a_credential_is_secrets() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "aws_secret_access_key",
            "DB_PASSWORD",
            "X_PAT",
            "PASS",
            "DB_PASS",
            "MYSQL_PWD",
            "JWT",
            "SESSION_COOKIE",
            "COOKIE",
            "BASIC_AUTH",
            "KUBECONFIG",
            "PGPASSFILE",
            "PGPASSWORD",
            "SLACK_WEBHOOK_URL",
            "MONGODB_URI",
            "REDIS_URL",
            "DATABASE_URL",
            "CELERY_BROKER_URL",
            "SQLALCHEMY_DATABASE_URI",
            "SENTRY_DSN",
            "DSN",
        ] {
            let error = check_variable(name).unwrap_err();
            assert!(matches!(error, VariableError::Credential { .. }), "{name}: {error}");
            assert!(error.remedy().contains("secrets"), "{name}");
        }
    }

    #[test]
    fn ordinary_names_are_accepted_and_invalid_ones_refused() {
        for name in [
            "LANG",
            "TZ",
            "HOME",
            "MY_VAR1",
            "_x",
            "PATH",
            "PWD",
            "OLDPWD",
            "KEYBOARD",
            "MONKEY",
            "PASSENGER",
            "COMPASS",
            "BYPASS",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "PATTERN",
            "BASE_URL",
            "DB_HOST",
            "REDIS_PORT",
            "ENVIRONMENT",
            "NODE_ENV",
            "PYTHONUNBUFFERED",
            "PYTHONHASHSEED",
            "MAX_TOKENS",
            "TOKENIZERS_PARALLELISM",
        ] {
            assert_eq!(check_variable(name), Ok(()), "{name}");
        }
        for name in ["", "1X", "A=B", "A B", "Ä", "A\0"] {
            assert!(matches!(check_variable(name), Err(VariableError::BadName { .. })), "{name:?}");
        }
    }
}
