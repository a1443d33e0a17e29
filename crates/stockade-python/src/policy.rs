//! Policies, as Python objects.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use stockade_policy::{
    Access, Basis, Context, Control, Effect, GuestPath, Method, PolicyText, Preset, Printable,
    UrlPath, Verdict, parse_host_port,
};

use crate::failure::Problem;
use crate::session::now;

/// The port of a host without one.
const HTTPS: u16 = 443;

/// A checked policy.
#[pyclass(frozen)]
pub(crate) struct Policy {
    pub(crate) policy: Arc<stockade_policy::Policy>,
}

/// The JSON schema of the policy language.
#[pyfunction]
pub(crate) fn policy_schema() -> String {
    stockade_policy::schema().to_string()
}

/// The name and the text of each policy to start from.
#[pyfunction]
pub(crate) fn presets() -> Vec<(&'static str, &'static str)> {
    Preset::ALL.iter().map(|preset| (preset.as_str(), preset.text())).collect()
}

#[pymethods]
impl Policy {
    /// Checks a policy text; its relative paths start at `base`.
    #[staticmethod]
    fn parse(name: String, text: &[u8], base: PathBuf) -> PyResult<Policy> {
        let text = PolicyText { name, bytes: text.to_vec(), base };
        let policy = stockade_policy::Policy::parse(&text).map_err(Problem::from)?;
        Ok(Policy { policy: Arc::new(policy) })
    }

    /// The values of a policy text as they are written, as JSON.
    #[staticmethod]
    fn written(name: String, text: &[u8]) -> PyResult<String> {
        let text = PolicyText { name, bytes: text.to_vec(), base: PathBuf::new() };
        let value = stockade_policy::Policy::written(&text).map_err(Problem::from)?;
        Ok(value.to_string())
    }

    /// The policy that allows what all of these allow.
    #[staticmethod]
    fn combine(policies: Vec<PyRef<'_, Policy>>) -> PyResult<Policy> {
        let policies: Vec<_> = policies.iter().map(|policy| (*policy.policy).clone()).collect();
        let policy = stockade_policy::Policy::combine_all(&policies).map_err(Problem::from)?;
        Ok(Policy { policy: Arc::new(policy) })
    }

    /// The policy's name.
    #[getter]
    fn name(&self) -> &str {
        &self.policy.name
    }

    /// The tools that it allows.
    #[getter]
    fn tools(&self) -> Vec<String> {
        self.policy.tools.value.iter().map(|tool| tool.value.clone()).collect()
    }

    /// The whole policy with every default, as YAML.
    fn yaml(&self) -> String {
        self.policy.to_yaml()
    }

    /// The same as JSON.
    fn json(&self) -> String {
        self.policy.to_value().to_string()
    }

    /// Whether a connection is allowed, as JSON.
    fn why_host(
        &self,
        host: &str,
        address: Option<&str>,
        request: Option<(String, String)>,
    ) -> PyResult<String> {
        let (name, port) = match parse_host_port(host) {
            Ok((name, port)) => (name, port.unwrap_or(HTTPS)),
            Err(error) => {
                let why = format!("the host {error}");
                return Ok(refused(Control::NetworkHosts, host, why, &error.remedy()));
            }
        };
        if let Some(text) = address {
            let address: IpAddr = text.parse().map_err(|_| {
                Problem::invalid(format!("{text:?} is not an IP address"), "pass one, as text")
            })?;
            return Ok(view(&self.policy.judge_address(&name, port, address)));
        }
        let Some((method, path)) = request else {
            return Ok(view(&self.policy.judge_host(&name, port)));
        };
        let control = Control::NetworkRequests;
        Ok(match (Method::parse(&method), UrlPath::parse(&path)) {
            (Ok(method), Ok(path)) => view(&self.policy.judge_request(&name, port, &method, &path)),
            (Err(error), _) => {
                refused(control, &method, format!("the method {error}"), &error.remedy())
            }
            (_, Err(error)) => {
                refused(control, &path, format!("the path {error}"), &error.remedy())
            }
        })
    }

    /// Whether a path inside can be read or changed, as JSON.
    fn why_path(&self, path: &str, write: bool) -> String {
        let access = if write { Access::Write } else { Access::Read };
        match GuestPath::parse(path) {
            Ok(path) => view(&self.policy.judge_path(&path, access)),
            Err(error) => refused(Control::HiddenHost, path, error.to_string(), error.remedy()),
        }
    }

    /// Whether code may run, as JSON.
    fn why_code(&self, code: &str, language: &str, fields: &str) -> PyResult<String> {
        Ok(view(&self.policy.judge_code(code, language, &context(fields)?)))
    }

    /// Whether a command may run, as JSON.
    fn why_command(&self, argv: Vec<String>, fields: &str) -> PyResult<String> {
        Ok(view(&self.policy.judge_command(&argv, &context(fields)?)))
    }

    /// Whether a tool may be called, as JSON.
    fn why_tool(&self, tool: &str, arguments: Option<&str>, fields: &str) -> PyResult<String> {
        let arguments: Option<Value> = match arguments {
            Some(text) => Some(serde_json::from_str(text).map_err(|error| {
                Problem::invalid(format!("the arguments are not JSON: {error}"), "pass an object")
            })?),
            None => None,
        };
        Ok(view(&self.policy.judge_tool(tool, arguments.as_ref(), &context(fields)?)))
    }
}

/// The context of rules at this moment, from the caller's fields, a JSON object.
pub(crate) fn context(fields: &str) -> Result<Context, Problem> {
    extended(Context::default(), fields)
}

/// A context with the caller's fields and this moment. A field that the context has keeps its
/// value: an execution must not become one of another agent or session.
pub(crate) fn extended(mut context: Context, fields: &str) -> Result<Context, Problem> {
    let remedy = "pass a dictionary of plain values";
    let fields: Map<String, Value> = serde_json::from_str(fields).map_err(|error| {
        Problem::invalid(format!("the context is not a JSON object: {error}"), remedy)
    })?;
    context.now = Some(now()?);
    for (field, value) in fields {
        if caller_field(&context, &field).is_some_and(|held| held != value) {
            let why = format!("the field {} of the sandbox cannot be replaced", Printable(&field));
            return Err(Problem::invalid(why, "remove it from the context of the execution"));
        }
        match (field.as_str(), value) {
            ("agent_id", Value::String(text)) => context.agent_id = Some(text),
            ("session_id", Value::String(text)) => context.session_id = Some(text),
            (field, value) => context.insert(field, value).map_err(|error| {
                Problem::invalid(error.to_string(), "remove it from the context")
            })?,
        }
    }
    Ok(context)
}

/// The value of a context field that only the caller sets, such as `agent_id`.
fn caller_field(context: &Context, field: &str) -> Option<Value> {
    match field {
        "agent_id" => context.agent_id.clone().map(Value::String),
        "session_id" => context.session_id.clone().map(Value::String),
        field => context.get(field).cloned(),
    }
}

fn view(verdict: &Verdict) -> String {
    json!({
        "verdict": verdict.effect,
        "allowed": verdict.allows(),
        "target": verdict.target,
        "control": verdict.control,
        "why": verdict.why,
        "decided_by": verdict.basis,
        "change": verdict.change,
    })
    .to_string()
}

/// The denial of a value that cannot be read, as a gate denies it.
fn refused(control: Control, target: &str, why: String, change: &str) -> String {
    view(&Verdict {
        effect: Effect::Deny,
        control,
        target: Printable(target).to_string(),
        basis: Basis::BuiltIn { rule: "what cannot be read is denied" },
        why,
        change: change.to_owned(),
    })
}
