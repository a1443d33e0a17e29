//! Turns an execution into a command with its environment, as every Linux wall starts it.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use stockade_policy::{SEARCH_PATH, WORKSPACE};
use stockade_provider::{
    Command, Error, ErrorKind, Execution, Language, Program, Stdio, ToolAccess,
};

use crate::Interpreter;

/// Where code of the caller is written, in a root that the wall built.
pub const CODE_DIRECTORY: &str = "/run/code";

/// The type of a terminal if the caller names none: what nearly every terminal emulator understands.
const TERMINAL_TYPE: &str = "xterm";

/// Directories that every sandbox has, as paths inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Where programs start.
    pub working_directory: String,
    /// The home, and the directory for temporary files.
    pub home: String,
    /// The directory for code that the caller passes.
    pub code: String,
}

impl Default for Directories {
    /// The directories in a root that the wall built.
    fn default() -> Directories {
        Directories {
            working_directory: WORKSPACE.to_owned(),
            home: "/tmp".to_owned(),
            code: CODE_DIRECTORY.to_owned(),
        }
    }
}

/// What the programs of one sandbox have in common.
#[derive(Debug, Default)]
pub struct ProgramSetup {
    /// The interpreter of the host, if the sandbox mounts one.
    pub interpreter: Option<Interpreter>,
    /// The directories inside.
    pub directories: Directories,
    /// The proxy inside, if programs can reach the network.
    pub proxy: Option<SocketAddrV4>,
    /// Environment variables for tools, if programs can call any.
    pub tools: Option<Vec<(String, String)>>,
    /// A counter for code file names: concurrent executions must not replace each other's code.
    pub codes: AtomicU64,
}

impl ProgramSetup {
    /// The command for an execution.
    pub fn command(&self, execution: Execution) -> Result<Command, Error> {
        let mut environment = self.environment(&execution.environment);
        let terminal = match execution.stdio {
            Stdio::Pipes => None,
            Stdio::Terminal(size) => Some(size),
        };
        if terminal.is_some() && !environment.iter().any(|(name, _)| name == "TERM") {
            environment.push(("TERM".to_owned(), TERMINAL_TYPE.to_owned()));
        }
        let (program, arguments, code) = match execution.program {
            Program::Code { language, name, code, arguments } => {
                let name = plain(&name)?;
                let path = match self.codes.fetch_add(1, Ordering::Relaxed) {
                    0 => format!("{}/{name}", self.directories.code),
                    number => format!("{}/{number}/{name}", self.directories.code),
                };
                let program = self.interpreter_of(language);
                let words = [program.clone(), path.clone()];
                (program, words.into_iter().chain(arguments).collect(), Some((path, code)))
            }
            Program::Command { argv } => {
                let program = argv.first().cloned().unwrap_or_default();
                (program, argv, None)
            }
        };
        let working_directory = match execution.working_directory {
            Some(place) if !place.starts_with('/') => {
                let message = format!("the working directory {place:?} is not an absolute path");
                let remedy = "name a directory inside the sandbox, such as /workspace";
                return Err(Error::new(ErrorKind::Invalid, message).with_remedy(remedy));
            }
            Some(place) => place,
            None => self.directories.working_directory.clone(),
        };
        Ok(Command { program, arguments, environment, working_directory, code, terminal })
    }

    /// The program of an interpreter: the one found on the host, or the language's usual name in a
    /// `--root` directory.
    fn interpreter_of(&self, language: Language) -> String {
        match &self.interpreter {
            Some(found) if found.language == language => found.program.display().to_string(),
            _ => language.programs()[0].to_owned(),
        }
    }

    /// The default environment, with the caller's variables added or replaced.
    fn environment(&self, added: &[(String, String)]) -> Vec<(String, String)> {
        let mut path: Vec<String> = Vec::new();
        let mut variables = Vec::new();
        if let Some(found) = &self.interpreter {
            path.extend(found.program.parent().map(|directory| directory.display().to_string()));
            if !found.library_path.is_empty() {
                let places: Vec<String> =
                    found.library_path.iter().map(|place| place.display().to_string()).collect();
                variables.push(("LD_LIBRARY_PATH".to_owned(), places.join(":")));
            }
        }
        for directory in SEARCH_PATH {
            if !path.iter().any(|known| known == directory) {
                path.push(directory.to_owned());
            }
        }
        // Last, so that it shadows no program of the sandbox.
        path.extend(self.tools.as_ref().map(|_| ToolAccess::COMMANDS.to_owned()));
        variables.push(("PATH".to_owned(), path.join(":")));
        let home = self.directories.home.as_str();
        for (name, value) in
            [("HOME", home), ("USER", "agent"), ("LANG", "C.UTF-8"), ("TMPDIR", home)]
        {
            variables.push((name.to_owned(), value.to_owned()));
        }
        if let Some(proxy) = self.proxy {
            variables.extend(proxy_variables(proxy));
        }
        for (name, value) in self.tools.iter().flatten() {
            if !variables.iter().any(|(own, _)| own == name) {
                variables.push((name.clone(), value.clone()));
            }
        }
        variables.retain(|(name, _)| !added.iter().any(|(own, _)| own == name));
        variables.extend(added.iter().cloned());
        variables
    }
}

/// Accepts only a bare file name.
fn plain(name: &str) -> Result<&str, Error> {
    match Path::new(name).file_name().and_then(|last| last.to_str()) {
        Some(last) if last == name => Ok(name),
        _ => Err(Error::new(ErrorKind::Invalid, format!("{name:?} is not a plain file name"))),
    }
}

/// The environment variables that name the proxy inside. All use the scheme `http`, because some
/// clients fail on any other; the proxy also accepts SOCKS.
pub fn proxy_variables(proxy: SocketAddrV4) -> Vec<(String, String)> {
    let proxy = format!("http://{proxy}");
    let direct = "localhost,127.0.0.1,::1";
    let mut variables = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", proxy.as_str()),
        ("HTTPS_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
        ("NO_PROXY", direct),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
        variables.push((name.to_lowercase(), value.to_owned()));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_variables_have_both_spellings_and_exclude_loopback() {
        let variables = proxy_variables("127.0.0.54:3128".parse().unwrap());
        let value = |name: &str| {
            let found = variables.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.as_str())
        };
        for name in
            ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]
        {
            assert_eq!(value(name), Some("http://127.0.0.54:3128"), "{name}");
        }
        for name in ["NO_PROXY", "no_proxy"] {
            assert_eq!(value(name), Some("localhost,127.0.0.1,::1"), "{name}");
        }
    }
}
