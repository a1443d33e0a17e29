//! Turns an execution into a command with its environment, as every Linux wall starts it.

use std::net::{IpAddr, SocketAddrV4};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use stockade_policy::{Host, HostPattern, Limit, Policy, SEARCH_PATH, WORKSPACE};
use stockade_provider::{
    Command, Error, ErrorKind, Execution, Language, Program, Stdio, ToolAccess, authority_variables,
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
    /// Loopback addresses that mean the host's: clients reach them through the proxy.
    pub host_loopback: Vec<IpAddr>,
    /// How many threads programs should start to use their processors; `None` leaves it to them.
    pub threads: Option<u64>,
    /// Environment variables for tools, if programs can call any.
    pub tools: Option<Vec<(String, String)>>,
    /// The file inside with the certificates that programs must trust, if connections are opened.
    pub authorities: Option<String>,
    /// The PATH of an image, instead of the usual one.
    pub search_path: Option<String>,
    /// Further directories of PATH, after the usual ones.
    pub more_path: Vec<String>,
    /// Variables that these directories need.
    pub more_variables: Vec<(String, String)>,
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
        let (program, arguments, code, next_code) = match execution.program {
            Program::Code { language, name, code, arguments } => {
                let name = plain(&name)?;
                let number = self.codes.fetch_add(1, Ordering::Relaxed);
                let path = match number {
                    0 => format!("{}/{name}", self.directories.code),
                    number => format!("{}/{number}/{name}", self.directories.code),
                };
                // Not after the first code: most sandboxes run no other.
                let has_next = language == Language::Python && number > 0;
                let next = || format!("{}/{}/{name}", self.directories.code, number + 1);
                let next = has_next.then(next);
                let program = self.interpreter_of(language);
                let words = [program.clone(), path.clone()];
                (program, words.into_iter().chain(arguments).collect(), Some((path, code)), next)
            }
            Program::Command { argv } => {
                let program = argv.first().cloned().unwrap_or_default();
                (program, argv, None, None)
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
        Ok(Command {
            program,
            arguments,
            environment,
            working_directory,
            code,
            next_code,
            terminal,
        })
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
        let usual = || SEARCH_PATH.iter().map(|directory| (*directory).to_owned()).collect();
        let of_image = |path: &String| path.split(':').map(str::to_owned).collect();
        let found: Vec<String> = self.search_path.as_ref().map_or_else(usual, of_image);
        for directory in found.into_iter().chain(self.more_path.iter().cloned()) {
            if !path.contains(&directory) {
                path.push(directory);
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
        if let Some(threads) = self.threads {
            // Read by OpenMP, BLAS libraries and nproc(1), which otherwise count the host's CPUs.
            variables.push(("OMP_NUM_THREADS".to_owned(), threads.to_string()));
        }
        if let Some(proxy) = self.proxy {
            variables.extend(proxy_variables(proxy, &self.host_loopback));
        }
        variables.extend(self.more_variables.iter().cloned());
        variables.extend(self.authorities.iter().flat_map(|file| authority_variables(file)));
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
/// clients fail on any other; the proxy also accepts SOCKS. `host_loopback` has the loopback
/// addresses that clients must not reach without the proxy.
pub fn proxy_variables(proxy: SocketAddrV4, host_loopback: &[IpAddr]) -> Vec<(String, String)> {
    let proxy = format!("http://{proxy}");
    let is_inside = |name: &&str| match name.parse::<IpAddr>() {
        Ok(address) => !host_loopback.contains(&address),
        Err(_) => true,
    };
    let direct: Vec<&str> =
        ["localhost", "127.0.0.1", "::1"].into_iter().filter(is_inside).collect();
    let direct = direct.join(",");
    let mut variables = Vec::new();
    for (name, value) in [
        ("HTTP_PROXY", proxy.as_str()),
        ("HTTPS_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
        ("NO_PROXY", &direct),
    ] {
        variables.push((name.to_owned(), value.to_owned()));
        variables.push((name.to_lowercase(), value.to_owned()));
    }
    variables
}

/// How many threads programs should start for the processors of a policy, out of those present.
pub fn threads(policy: &Policy, present: u64) -> u64 {
    let limit = policy.limits.value(Limit::Cpu).unwrap_or(1000).div_ceil(1000);
    limit.clamp(1, present)
}

/// The loopback addresses that a policy allows as literals, which makes them the host's.
pub fn host_loopback(policy: &Policy) -> Vec<IpAddr> {
    let entries = policy.gates.iter().flat_map(|gate| &gate.network.entries);
    let addresses = entries.filter_map(|entry| match entry.host {
        HostPattern::Exact(Host::Address(address)) => Some(address),
        HostPattern::Exact(Host::Name(_)) | HostPattern::Below(_) => None,
    });
    addresses.filter(IpAddr::is_loopback).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_an_image_replaces_the_usual_one_and_tools_come_last() {
        let path = |setup: ProgramSetup| {
            let all = setup.environment(&[]);
            all.into_iter().find(|(name, _)| name == "PATH").map(|(_, value)| value)
        };
        let usual = SEARCH_PATH.join(":");
        assert_eq!(path(ProgramSetup::default()), Some(usual));
        let of_image = || ProgramSetup {
            search_path: Some("/usr/local/sandbox-bin".to_owned()),
            ..ProgramSetup::default()
        };
        assert_eq!(path(of_image()).as_deref(), Some("/usr/local/sandbox-bin"));
        let more_path = vec!["/home/me/.local/bin".to_owned(), "/usr/local/sandbox-bin".to_owned()];
        let with_tools = ProgramSetup { tools: Some(Vec::new()), more_path, ..of_image() };
        let expected =
            format!("/usr/local/sandbox-bin:/home/me/.local/bin:{}", ToolAccess::COMMANDS);
        assert_eq!(path(with_tools), Some(expected));
    }

    #[test]
    fn proxy_variables_have_both_spellings_and_exclude_loopback() {
        let variables = proxy_variables("127.0.0.54:3128".parse().unwrap(), &[]);
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
    #[test]
    fn loopback_address_that_a_policy_allows_is_reached_through_the_proxy() {
        let text = "network_allowlist: ['127.0.0.1:8000', '10.0.0.7', 'example.org']";
        let policy = Policy::parse_str("p", text, Path::new("/")).unwrap();
        let loopback = host_loopback(&policy);
        assert_eq!(loopback, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        let variables = proxy_variables("127.0.0.54:3128".parse().unwrap(), &loopback);
        let own = |name: &str| (name.to_owned(), "localhost,::1".to_owned());
        assert!(variables.contains(&own("NO_PROXY")) && variables.contains(&own("no_proxy")));
    }
}
