//! `stockade policy why`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stockade_policy::{
    Access, Basis, Context, Control, Effect, GuestPath, Host, Method, Moment, Policy, Printable,
    UrlPath, Verdict, parse_host_port,
};

use crate::args::WhyArgs;
use crate::render::{self, Output};
use crate::{Problem, clock, load};

/// The default port of a host.
const HTTPS: u16 = 443;

/// The exit code of a denial, with `--exit-code`.
const DENIED: u8 = 126;

pub(crate) fn run(args: &WhyArgs, output: Output) -> anyhow::Result<u8> {
    if let Some((option, question)) = args.misplaced() {
        let message = format!("{option} belongs to {question}");
        return Err(Problem::new(message, format!("remove it, or ask with {question}")).into());
    }
    let code = args.question.code.as_deref();
    load::refuse_shared_input(args.policy.files.iter().map(PathBuf::as_path).chain(code))?;
    let policy = load::combined(&args.policy.files)?;
    let verdict = ask(&policy, args)?;
    match output {
        Output::Json => render::json(&view(&verdict))?,
        Output::Text => render::text(&text(&verdict))?,
    }
    Ok(if args.wants_exit_code() && !verdict.allows() { DENIED } else { 0 })
}

fn ask(policy: &Policy, args: &WhyArgs) -> anyhow::Result<Verdict> {
    let question = &args.question;
    if let Some(path) = &question.path {
        let access = if args.write { Access::Write } else { Access::Read };
        return Ok(ask_path(policy, path, access));
    }
    if let Some(host) = &question.host {
        return Ok(ask_host(policy, host, args));
    }
    if let Some(url) = &question.url {
        return Ok(ask_url(policy, url, args.method.as_deref().unwrap_or("GET")));
    }
    let context = context(args)?;
    if let Some(file) = &question.code {
        let code = load::code(file)?;
        let language = language(args.language.as_deref(), file)?;
        return Ok(policy.judge_code(&code, &language, &context));
    }
    if let Some(tool) = &question.tool {
        let arguments = arguments(args)?;
        return Ok(policy.judge_tool(tool, arguments.as_ref(), &context));
    }
    let argv = args.argv();
    if argv.first().is_none_or(String::is_empty) {
        let remedy = "write the program and its arguments after --command";
        return Err(Problem::new("--command names no program", remedy).into());
    }
    Ok(policy.judge_command(argv, &context))
}

/// Whether a path inside may be used.
pub(crate) fn ask_path(policy: &Policy, path: &str, access: Access) -> Verdict {
    match GuestPath::parse(path) {
        Ok(path) => policy.judge_path(&path, access),
        Err(error) => malformed(Control::HiddenHost, path, error.to_string(), error.remedy()),
    }
}

/// Whether a host may be reached, on its port or on 443.
#[cfg(feature = "mcp")]
pub(crate) fn ask_for_host(policy: &Policy, text: &str) -> Verdict {
    host_and_port(text).map_or_else(|denied| *denied, |(host, port)| policy.judge_host(&host, port))
}

fn host_and_port(text: &str) -> Result<(Host, u16), Box<Verdict>> {
    match parse_host_port(text) {
        Ok((host, port)) => Ok((host, port.unwrap_or(HTTPS))),
        Err(error) => {
            let why = format!("the host {error}");
            Err(Box::new(malformed(Control::NetworkHosts, text, why, &error.remedy())))
        }
    }
}

fn ask_host(policy: &Policy, text: &str, args: &WhyArgs) -> Verdict {
    let (host, port) = match host_and_port(text) {
        Ok(found) => found,
        Err(denied) => return *denied,
    };
    if let Some(address) = args.address {
        return policy.judge_address(&host, port, address);
    }
    let (Some(method), Some(path)) = (&args.method, &args.url_path) else {
        return policy.judge_host(&host, port);
    };
    match (Method::parse(method), UrlPath::normalized(path)) {
        (Ok(method), Ok(path)) => policy.judge_request(&host, port, &method, &path),
        (Err(error), _) => malformed(
            Control::NetworkRequests,
            method,
            format!("the method {error}"),
            &error.remedy(),
        ),
        (_, Err(error)) => {
            malformed(Control::NetworkRequests, path, format!("the path {error}"), &error.remedy())
        }
    }
}

/// Whether a request may be sent, as the gate judges it.
fn ask_url(policy: &Policy, url: &str, method: &str) -> Verdict {
    let control = Control::NetworkRequests;
    let (usual, rest) = match url.split_once("://") {
        Some(("https", rest)) => (HTTPS, rest),
        Some(("http", rest)) => (80, rest),
        _ => {
            let why = "it does not begin with https:// or http://".to_owned();
            return malformed(control, url, why, "write the whole URL");
        }
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let (host, port) = match parse_host_port(authority) {
        Ok((host, port)) => (host, port.unwrap_or(usual)),
        Err(error) => {
            let why = format!("the host {error}");
            return malformed(Control::NetworkHosts, authority, why, &error.remedy());
        }
    };
    match (Method::parse(method), UrlPath::normalized(&target)) {
        (Ok(method), Ok(path)) => policy.judge_request(&host, port, &method, &path),
        (Err(error), _) => {
            malformed(control, method, format!("the method {error}"), &error.remedy())
        }
        // No rule concerns the path of such a host, so it passes as it is.
        (Ok(_), Err(_)) if !policy.judges_requests(&host, port) => policy.judge_host(&host, port),
        (Ok(_), Err(error)) => {
            malformed(control, &target, format!("the path {error}"), &error.remedy())
        }
    }
}

/// The denial of a malformed value, as a gate denies it.
fn malformed(control: Control, target: &str, why: String, change: &str) -> Verdict {
    Verdict {
        effect: Effect::Deny,
        control,
        target: Printable(target).to_string(),
        basis: Basis::BuiltIn { rule: "what cannot be read is denied" },
        why,
        change: change.to_owned(),
    }
}

fn context(args: &WhyArgs) -> anyhow::Result<Context> {
    let mut context = Context::default();
    context.agent_id.clone_from(&args.agent);
    context.session_id.clone_from(&args.session);
    context.now = Some(match args.at {
        Some(at) => Moment { unix_seconds: at.as_second() },
        None => clock::now()?,
    });
    for said in &args.context {
        let Some((field, value)) = said.split_once('=') else {
            let message = format!("the context `{}` has no value", Printable(said));
            return Err(Problem::new(message, "write --context FIELD=VALUE").into());
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        context.insert(field, value).map_err(|error| {
            Problem::new(
                error.to_string(),
                "use --agent, --session, --code, --tool, --arguments or --command for it",
            )
        })?;
    }
    Ok(context)
}

/// The arguments of the tool call in question.
fn arguments(args: &WhyArgs) -> anyhow::Result<Option<Value>> {
    let Some(text) = &args.arguments else { return Ok(None) };
    match serde_json::from_str(text) {
        Ok(arguments @ Value::Object(_)) => Ok(Some(arguments)),
        _ => {
            let message = format!("the arguments `{}` are no JSON object", Printable(text));
            let remedy = r#"write them as a tool gets them, such as '{"query": "x"}'"#;
            Err(Problem::new(message, remedy).into())
        }
    }
}

/// The language from `--language`, or from the file extension.
fn language(said: Option<&str>, file: &Path) -> anyhow::Result<String> {
    let by_ending = match file.extension().and_then(|ending| ending.to_str()) {
        Some("py") => Some("python"),
        Some("sh" | "bash") => Some("bash"),
        Some("js" | "mjs" | "cjs") => Some("javascript"),
        _ => None,
    };
    said.or(by_ending).map(str::to_owned).ok_or_else(|| {
        let message = format!("the ending of {} does not say its language", file.display());
        Problem::new(message, "pass --language, such as --language python").into()
    })
}

fn view(verdict: &Verdict) -> Value {
    json!({
        "verdict": verdict.effect,
        "allowed": verdict.allows(),
        "target": verdict.target,
        "control": verdict.control,
        "why": verdict.why,
        "decided_by": verdict.basis,
        "change": verdict.change,
    })
}

fn text(verdict: &Verdict) -> String {
    format!(
        "{}: {}\n  because    {}\n  decided by {}\n  control    {}\n  to change  {}\n",
        verdict.effect.as_str(),
        verdict.target,
        verdict.why,
        verdict.basis,
        verdict.control.as_str(),
        verdict.change,
    )
}
