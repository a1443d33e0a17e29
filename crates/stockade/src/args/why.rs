//! Arguments of `stockade policy why`.

use std::path::PathBuf;

use clap::Args;

use super::Files;

pub(super) const USAGE: &str = "\
stockade policy why [OPTIONS] <FILE>... --path <PATH> [--write]
       stockade policy why [OPTIONS] <FILE>... --host <HOST[:PORT]> [--method <METHOD> --url-path <PATH>]
       stockade policy why [OPTIONS] <FILE>... --url <URL> [--method <METHOD>]
       stockade policy why [OPTIONS] <FILE>... --code <FILE> [--language <LANGUAGE>]
       stockade policy why [OPTIONS] <FILE>... --tool <NAME> [--arguments <JSON>]
       stockade policy why [OPTIONS] <FILE>... --command <ARGV>...";

#[derive(Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) policy: Files,
    #[command(flatten)]
    pub(crate) question: Question,
    /// With --path: ask about writing instead of reading.
    #[arg(long, requires = "path")]
    pub(crate) write: bool,
    /// With --host or --url: the method of a request.
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// With --host: the path of a request.
    #[arg(long, requires = "host", requires = "method", value_name = "PATH")]
    pub(crate) url_path: Option<String>,
    /// With --host: an address it resolved to.
    #[arg(long, requires = "host", conflicts_with = "method", value_name = "IP")]
    pub(crate) address: Option<std::net::IpAddr>,
    /// With --code: the language [default: from the file extension].
    #[arg(long, requires = "code", value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
    /// With --tool: the arguments of the call, as JSON.
    #[arg(long, requires = "tool", value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// A field of the caller's context; the value is JSON, or else text. May be repeated.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) context: Vec<String>,
    /// The agent that asks.
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The session it asks in.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The time to evaluate rules at, such as 2026-03-01T09:30:00Z [default: now].
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<jiff::Timestamp>,
    /// Exit with 126 when the answer is deny.
    #[arg(long)]
    pub(crate) exit_code: bool,
}

impl WhyArgs {
    /// An option that belongs to another question than the given one, and that question. Clap
    /// waives `requires` for an argument that conflicts with one that is present.
    pub(crate) fn misplaced(&self) -> Option<(&'static str, &'static str)> {
        let Question { path, host, url, code, tool, .. } = &self.question;
        let no_request = host.is_none() && url.is_none();
        let pairs = [
            (self.write && path.is_none(), "--write", "--path"),
            (self.method.is_some() && no_request, "--method", "--host or --url"),
            (
                self.method.is_some() && host.is_some() && self.url_path.is_none(),
                "--method",
                "--url-path",
            ),
            (self.url_path.is_some() && host.is_none(), "--url-path", "--host"),
            (self.address.is_some() && host.is_none(), "--address", "--host"),
            (self.language.is_some() && code.is_none(), "--language", "--code"),
            (self.arguments.is_some() && tool.is_none(), "--arguments", "--tool"),
        ];
        pairs.into_iter().find(|(wrong, ..)| *wrong).map(|(_, option, question)| (option, question))
    }

    /// Whether one of Stockade's own options ends the arguments of --command.
    pub(super) fn ends_with(&self, option: &str) -> bool {
        self.own_options().iter().any(|own| own == option)
    }

    /// Whether a denial sets the exit code.
    pub(crate) fn wants_exit_code(&self) -> bool {
        self.exit_code || self.ends_with("--exit-code")
    }

    /// Stockade's own options at the end of --command, which clap parsed as the command's
    /// arguments. A closing `--` keeps them for the command.
    fn own_options(&self) -> &[String] {
        let argv = &self.question.command;
        let own =
            argv.iter().rev().take_while(|word| matches!(word.as_str(), "--json" | "--exit-code"));
        &argv[argv.len() - own.count()..]
    }

    /// The program and its arguments.
    pub(crate) fn argv(&self) -> &[String] {
        let argv = &self.question.command;
        let argv = &argv[..argv.len() - self.own_options().len()];
        argv.strip_suffix(&["--".to_owned()]).unwrap_or(argv)
    }
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Question {
    /// A path inside; a relative one starts in /workspace.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// A host, with a port or on 443.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) host: Option<String>,
    /// A request to a URL, with --method or GET.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with code, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) code: Option<PathBuf>,
    /// A tool.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// A program with its arguments. Everything after it belongs to it, except `--json` and
    /// `--exit-code` at the end; a closing `--` keeps those for the program.
    #[arg(long, value_name = "ARGV", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}
