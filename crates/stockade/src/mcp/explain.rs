//! `explain_denial`: what was refused, and what would be.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stockade_api::{Reply, Request};
use stockade_policy::{Access, Context, Policy, Verdict};

use super::answer::Answer;
use super::program::DenialEntry;
use super::sandboxes::Sandboxes;
use super::server::Stop;
use super::tools::{Effect, SandboxTool};
use crate::policy::why;
use crate::sessions::client;
use crate::{Problem, clock};

pub(super) struct ExplainDenial;

/// At most one of `path`, `host`, `command`, `tool` and `code`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainParams {
    /// The sandbox.
    sandbox_id: String,
    /// A path inside; a relative one starts in /workspace.
    path: Option<String>,
    /// With `path`: ask about writing instead of reading.
    #[serde(default)]
    write: bool,
    /// A host, with a port or on 443, such as `example.org:8080`.
    host: Option<String>,
    /// A program and its arguments.
    command: Option<Vec<String>>,
    /// A tool of the user that code inside may call.
    tool: Option<String>,
    /// With `tool`: the arguments of the call.
    arguments: Option<Map<String, Value>>,
    /// Code.
    code: Option<String>,
    /// With `code`: its language, `python` by default.
    language: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ExplainedView {
    /// The sandbox.
    sandbox_id: String,
    /// The answer to the question, if one was asked.
    verdict: Option<VerdictView>,
    /// How many acts were refused in this sandbox so far.
    denied: u64,
    /// The last refusals, the oldest first; absent if a question was asked.
    denials: Vec<DenialEntry>,
}

#[derive(Serialize, JsonSchema)]
struct VerdictView {
    /// `allow`, `audit` (allowed and recorded) or `deny`.
    effect: String,
    /// The control that decides.
    control: String,
    /// What was asked about, in canonical form.
    target: String,
    /// The policy line or built-in rule that decides.
    rule: String,
    /// Why.
    why: String,
    /// What would change the answer.
    change: String,
    /// Whether the policy of the server allows it. If so, a sandbox can be created that allows it;
    /// otherwise only the user can allow it, by starting the server with another policy.
    server_allows: bool,
}

impl SandboxTool for ExplainDenial {
    const NAME: &'static str = "explain_denial";
    const TITLE: &'static str = "Explain a denial";
    const DESCRIPTION: &'static str = "Answers whether a sandbox may use a path, a host, a command, \
        a tool or code, which line of the policy decides, and what would change the answer. Without a \
        question it lists what was refused last.";
    const EFFECT: Effect = Effect::Reads;
    type Params = ExplainParams;
    type Result = ExplainedView;

    async fn call(
        sandboxes: Arc<Sandboxes>,
        params: ExplainParams,
        _: Stop,
    ) -> anyhow::Result<Answer> {
        let sandbox_id = params.sandbox_id.clone();
        let policy = sandboxes.policy(&sandbox_id)?;
        let stats = match sandboxes.ask(&sandbox_id, Request::Stats).await? {
            Reply::Stats(stats) => stats,
            _ => return Err(client::confused(&sandbox_id).into()),
        };
        let verdict = match question(&params)? {
            Some(question) => {
                let mut context = Context::default();
                context.now = Some(clock::now()?);
                let answer = question.ask(&policy, &context);
                let most = question.ask(sandboxes.most(), &context);
                Some(view(answer, most.allows()))
            }
            None => None,
        };
        let denials = stats.denials.into_iter().filter(|_| verdict.is_none());
        let denials = denials.map(|denial| DenialEntry {
            control: denial.control,
            target: denial.target,
            why: denial.why,
            rule: denial.rule,
            how_to_allow: denial.how_to_allow,
        });
        let denials = denials.collect();
        Answer::new(&ExplainedView { sandbox_id, verdict, denied: stats.denied, denials })
    }
}

enum Question<'p> {
    Path(&'p str, Access),
    Host(&'p str),
    Command(&'p [String]),
    Tool(&'p str, Option<Value>),
    Code(&'p str, &'p str),
}

/// The only question of a call.
fn question(params: &ExplainParams) -> Result<Option<Question<'_>>, Problem> {
    let access = if params.write { Access::Write } else { Access::Read };
    let arguments = params.arguments.clone().map(Value::Object);
    let language = params.language.as_deref().unwrap_or("python");
    let asked = [
        params.path.as_deref().map(|path| Question::Path(path, access)),
        params.host.as_deref().map(Question::Host),
        params.command.as_deref().map(Question::Command),
        params.tool.as_deref().map(|tool| Question::Tool(tool, arguments)),
        params.code.as_deref().map(|code| Question::Code(code, language)),
    ];
    let mut asked = asked.into_iter().flatten();
    match (asked.next(), asked.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => {
            let message = "more than one of path, host, command, tool and code was named";
            Err(Problem::new(message, "ask about one of them at a time"))
        }
    }
}

impl Question<'_> {
    fn ask(&self, policy: &Policy, context: &Context) -> Verdict {
        match self {
            Question::Path(path, access) => why::ask_path(policy, path, *access),
            Question::Host(host) => why::ask_for_host(policy, host),
            Question::Command(argv) => policy.judge_command(argv, context),
            Question::Tool(tool, arguments) => policy.judge_tool(tool, arguments.as_ref(), context),
            Question::Code(code, language) => policy.judge_code(code, language, context),
        }
    }
}

fn view(verdict: Verdict, server_allows: bool) -> VerdictView {
    VerdictView {
        effect: verdict.effect.as_str().to_owned(),
        control: verdict.control.as_str().to_owned(),
        target: verdict.target,
        rule: verdict.basis.to_string(),
        why: verdict.why,
        change: verdict.change,
        server_allows,
    }
}
