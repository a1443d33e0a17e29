//! Arguments of the commands for sessions.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::run::amount::{self, Amount};

use super::sandbox::{LIMITS, PROGRAM, SandboxArgs};

pub(super) const CREATE: &str = "\
Examples:
  stockade create --name work --workspace .
  session=$(stockade create --memory 1g --allow-host example.org)
  stockade create --policy policy.yaml --ttl 8h --idle 30m

The name of the session is printed once it can be used. It ends with `stockade rm`,
after --ttl, or after --idle without a program or a request.";

pub(super) const EXEC_USAGE: &str =
    "stockade exec [OPTIONS] <SESSION> [OPTIONS] -- <COMMAND> [ARGUMENTS]...";

pub(super) const EXEC: &str = "\
Examples:
  stockade exec work -- python3 -m pytest
  stockade exec -d work -- python3 -m http.server
  stockade exec --env-secret GITHUB_TOKEN work -- gh pr list
  echo hello | stockade exec -i work -- tee greeting
  stockade exec -it work -- vim notes

If this command is interrupted or killed, its program ends, unless it is detached.
The exit codes are those of `stockade run`.";

pub(super) const CODE: &str = "\
Examples:
  stockade code work analysis.py first second
  echo 'print(1)' | stockade code work --language python -
  echo 'x = 41' | stockade code work --context first -
  echo 'x + 1'  | stockade code work --context first -      # prints 42
  stockade code work --context first --results out plot.py  # writes out/1.png

A context keeps variables, modules, open files and generators between calls. The name of a
context that does not exist starts one; `stockade context` lists, interrupts, restarts and
removes contexts.";

pub(super) const CONTEXT: &str = "\
Examples:
  stockade context ls work
  stockade context interrupt work first
  stockade context restart work first     # without its variables
  stockade context rm work first

`stockade code SESSION --context NAME` runs code in a context, and starts it if it is missing.";

pub(super) const PORT: &str = "\
Examples:
  stockade exec -d work -- python3 -m http.server 8000
  curl http://$(stockade port work 8000)/
  stockade port work 8000 --listen 127.0.0.1:9000
  stockade port work               # lists forwarded ports
  stockade port work 8000 --close

Prints the address on this host, which only the user of the session can open. It is forwarded
until --close or the end of the session. The limit max_forwarded_ports of the policy applies.";

pub(super) const SHELL: &str = "\
Ctrl-C, Ctrl-Z and other keys act inside. The shell ends with `exit` or Ctrl-D, and
with this terminal; the session stays.";

pub(super) const ATTACH: &str = "\
If this command ends first, the program continues.";

pub(super) const SECRET: &str = "\
Examples:
  pass show api-key | stockade secret set $session API_KEY
  stockade secret set $session API_KEY --from env:NEW_API_KEY";

pub(super) const KILL: &str = "\
Examples:
  stockade kill work 3
  stockade kill -s INT work 3
  stockade kill work          # every program; the session stays";

pub(super) const LOGS: &str = "\
A session keeps the last MiB of output of its programs.";

pub(super) const CP: &str = "\
Examples:
  stockade cp src work:            # as /workspace/src
  stockade cp src/. work:data      # what src contains, into an existing directory
  stockade cp work:out/report.pdf .
  tar -c src | stockade cp - work:/tmp

Places are chosen as by `docker cp`; a relative path inside starts in /workspace. Links that
lead out of the target are left out and named; devices, FIFOs and sockets are left out.";

pub(super) const RM: &str = "\
Examples:
  stockade rm work
  stockade rm -f $(stockade ls -q)";

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// The name [default: a random one].
    ///
    /// Letters, digits, `_`, `.` and `-`, at most 63, starting with a letter or digit.
    #[arg(long, value_name = "NAME", help_heading = PROGRAM)]
    pub(crate) name: Option<String>,
    /// Age at which the session ends, with s, m or h [default: 1h].
    #[arg(long, value_name = "TIME", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) ttl: Option<Amount>,
    /// Time without a program or request after which the session ends [default: 10m].
    #[arg(long, value_name = "TIME", help_heading = LIMITS, allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) idle: Option<Amount>,
    /// Start from a checkpoint; `fork` uses it.
    #[arg(long, value_name = "SESSION/NAME", hide = true)]
    pub(crate) from_checkpoint: Option<String>,
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// How a program of a session is started.
#[derive(Args)]
pub(crate) struct ProgramArgs {
    /// Set a variable, or pass one through. May be repeated.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Set the variables of a file, one NAME=VALUE per line. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<PathBuf>,
    /// Pass a credential in by its name, to this program alone. May be repeated.
    ///
    /// Its value comes from --env-file, or else from a variable here.
    #[arg(long, value_name = "NAME")]
    pub(crate) env_secret: Vec<String>,
    /// The directory inside where it starts [default: /workspace].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// How long it may run, if that is less than the policy allows.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = amount::time)]
    pub(crate) timeout: Option<Amount>,
    /// Print only what the program prints.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Let escape sequences through to a terminal.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Whether the report in JSON omits the plan.
    #[arg(skip)]
    pub(crate) short: bool,
}

#[derive(Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// Start it, print its number, and return.
    #[arg(long, short, conflicts_with_all = ["interactive", "tty"])]
    pub(crate) detach: bool,
    /// Pass standard input on.
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// Give it a terminal.
    #[arg(long, short)]
    pub(crate) tty: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Args)]
pub(crate) struct CodeArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The language: python, bash or javascript [default: from the file or its first line; python
    /// for standard input].
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
    /// Run it in this context, which keeps its state between calls.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interactive", "arguments", "workdir"])]
    pub(crate) context: Option<String>,
    /// Write what the code shows to files in this directory, such as 1.png and 2.html.
    #[arg(long, value_name = "DIR", requires = "context")]
    pub(crate) results: Option<PathBuf>,
    /// Pass standard input on.
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// A file of this host, or `-` for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// The arguments of the code.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ShellArgs {
    /// Set a variable, or pass one through. May be repeated.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Pass a credential in by its name, to this shell alone. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) env_secret: Vec<String>,
    /// The directory inside where it starts [default: /workspace].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct CpArgs {
    /// Copy what a link at the end of SOURCE leads to.
    #[arg(long, short = 'L')]
    pub(crate) follow_link: bool,
    /// SESSION:PATH, a path of this host, or `-` for a tar archive on standard input.
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,
    /// SESSION:PATH, a path of this host, or `-` for a tar archive on standard output.
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,
}

#[derive(Args)]
pub(crate) struct PsArgs {
    /// Include programs that have ended.
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Print only numbers.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct AttachArgs {
    /// Do not pass standard input on.
    #[arg(long)]
    pub(crate) no_stdin: bool,
    /// Pass SIGINT and SIGTERM to the program; with `false` they only end this command.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) sig_proxy: bool,
    /// Let escape sequences through to a terminal.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The number of the program, as `stockade ps` lists it.
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: u64,
}

#[derive(Args)]
pub(crate) struct KillArgs {
    /// The signal, by name or number.
    #[arg(long, short, value_name = "SIGNAL", default_value = "KILL")]
    pub(crate) signal: String,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The number of the program [default: every program].
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: Option<u64>,
}

#[derive(Args)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    pub(crate) command: SecretCommand,
}

#[derive(Subcommand)]
pub(crate) enum SecretCommand {
    /// Replace the value of a secret; programs keep their placeholder.
    ///
    /// The value comes from standard input, without the line end after it, or from the source that
    /// --from names. The next request carries it.
    Set {
        /// The session.
        #[arg(value_name = "SESSION")]
        session: String,
        /// The secret, as the policy names it.
        #[arg(value_name = "NAME")]
        name: String,
        /// Read the value from env:NAME or file:PATH.
        #[arg(long, value_name = "SOURCE")]
        from: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct LsSessionsArgs {
    /// Print only names.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Sessions by name.
#[derive(Args)]
pub(crate) struct SessionNames {
    /// The sessions.
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Print output as it comes, until the session ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Let escape sequences through to a terminal.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The number of the program [default: every program].
    #[arg(value_name = "EXECUTION")]
    pub(crate) execution: Option<u64>,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    /// The sessions [default: all].
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
}

#[derive(Args)]
pub(crate) struct RmArgs {
    /// End sessions in which programs run, and those that do not answer.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// The sessions.
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
}

#[derive(Args)]
pub(crate) struct PruneSessionsArgs {
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    pub(crate) command: ContextCommand,
}

#[derive(Subcommand)]
pub(crate) enum ContextCommand {
    /// Start a context, and print its name.
    Create(CreateContextArgs),
    /// List the contexts of a session.
    Ls(LsContextsArgs),
    /// Interrupt the call that runs, as Ctrl-C does.
    Interrupt(NamedContext),
    /// End the interpreter and start a new one.
    Restart(NamedContext),
    /// End the interpreter and forget the context.
    Rm(NamedContext),
}

#[derive(Args)]
pub(crate) struct CreateContextArgs {
    /// Set a variable, or pass one through. May be repeated.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Pass a credential in by its name, to this context alone. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) env_secret: Vec<String>,
    /// The directory inside where it starts [default: /workspace].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// The language; contexts run only python.
    #[arg(long, value_name = "LANGUAGE", default_value = "python")]
    pub(crate) language: String,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The name of the context [default: a new one].
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Args)]
pub(crate) struct LsContextsArgs {
    /// Print only names.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}

#[derive(Args)]
pub(crate) struct NamedContext {
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The name of the context.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Args)]
pub(crate) struct PortArgs {
    /// The address on this host, of loopback [default: a free port of 127.0.0.1].
    #[arg(long, value_name = "ADDR", requires = "port", conflicts_with = "close")]
    pub(crate) listen: Option<String>,
    /// Stop forwarding the port.
    #[arg(long, requires = "port")]
    pub(crate) close: bool,
    /// The session.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The port inside [default: list the forwarded ports].
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
}
