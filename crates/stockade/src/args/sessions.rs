//! Arguments of the commands for sessions.

use std::ffi::OsString;

use clap::Args;

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
  echo hello | stockade exec -i work -- tee greeting
  stockade exec -it work -- vim notes

If this command is interrupted or killed, its program ends, unless it is detached.
The exit codes are those of `stockade run`.";

pub(super) const CODE: &str = "\
Examples:
  stockade code work analysis.py first second
  echo 'print(1)' | stockade code work --language python -";

pub(super) const SHELL: &str = "\
Ctrl-C, Ctrl-Z and other keys act inside. The shell ends with `exit` or Ctrl-D, and
with this terminal; the session stays.";

pub(super) const ATTACH: &str = "\
If this command ends first, the program continues.";

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
lead out of the target, devices, FIFOs and sockets are left out, and named.";

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
    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// How a program of a session is started.
#[derive(Args)]
pub(crate) struct ProgramArgs {
    /// Set a variable, or pass one through. May be repeated.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
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
    /// The language: python, bash or javascript [default: from the file].
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
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
