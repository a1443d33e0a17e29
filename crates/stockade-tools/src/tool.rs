//! One tool: its name, its schemas, and what runs it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::closure::{Awaiting, Blocking};
use crate::error::ToolsError;
use crate::fault::{Code, Fault, ToolFailure};
use crate::listed::Listed;
use crate::run::Run;
use crate::schema::{Schema, closed};
use crate::words::harmless;

/// A host function that programs in a sandbox can call by name, if their policy lists it.
#[derive(Clone)]
pub struct Tool {
    pub(crate) listed: Arc<Listed>,
    pub(crate) input: Arc<Schema>,
    pub(crate) output: Option<Arc<Schema>>,
    /// The longest that one call may take; the policy's limit applies too.
    pub(crate) most_time: Option<Duration>,
    pub(crate) run: Arc<dyn Run>,
}

impl Tool {
    /// A tool that is a function. Its schemas come from the types; it runs on a blocking thread. A
    /// call that takes too long gets a timeout error, while the function runs on and its result is
    /// dropped.
    pub fn new<A, R, E, F>(name: &str, description: &str, function: F) -> Result<Tool, ToolsError>
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize + JsonSchema,
        E: fmt::Display,
        F: Fn(A) -> Result<R, E> + Send + Sync + 'static,
    {
        let input = Input::of::<A>();
        let takes_nothing = input.is_nothing;
        let run = move |arguments: Value| -> Result<Value, Fault> {
            let result = function(typed(arguments, takes_nothing)?);
            result.map_err(|error| Fault::failed(error.to_string())).and_then(untyped)
        };
        let run = Arc::new(Blocking::new(Arc::new(run)));
        Tool::with(name, description, input.schema, Some(output_of::<R>()), run)
    }

    /// A tool that is a function returning a future. Its schemas come from the types. The future is
    /// dropped when its call is cancelled or takes too long.
    pub fn new_async<A, R, E, F, T>(
        name: &str,
        description: &str,
        function: F,
    ) -> Result<Tool, ToolsError>
    where
        A: DeserializeOwned + JsonSchema,
        R: Serialize + JsonSchema,
        E: fmt::Display,
        F: Fn(A) -> T + Send + Sync + 'static,
        T: Future<Output = Result<R, E>> + Send + 'static,
    {
        let input = Input::of::<A>();
        let takes_nothing = input.is_nothing;
        let run = move |arguments: Value| -> BoxFuture<'static, Result<Value, Fault>> {
            match typed(arguments, takes_nothing) {
                Ok(arguments) => {
                    let result = function(arguments);
                    Box::pin(async move {
                        let result = result.await;
                        result.map_err(|error| Fault::failed(error.to_string())).and_then(untyped)
                    })
                }
                Err(fault) => Box::pin(std::future::ready(Err(fault))),
            }
        };
        let run = Arc::new(Awaiting::new(Arc::new(run)));
        Tool::with(name, description, input.schema, Some(output_of::<R>()), run)
    }

    /// A tool with explicit schemas. Arguments that do not fit never reach the function.
    pub fn from_schema<F>(
        name: &str,
        description: &str,
        input: Value,
        output: Option<Value>,
        function: F,
    ) -> Result<Tool, ToolsError>
    where
        F: Fn(Value) -> BoxFuture<'static, Result<Value, ToolFailure>> + Send + Sync + 'static,
    {
        let run = move |arguments: Value| -> BoxFuture<'static, Result<Value, Fault>> {
            let result = function(arguments);
            Box::pin(async move { result.await.map_err(|error| Fault::failed(error.to_string())) })
        };
        Tool::with(name, description, input, output, Arc::new(Awaiting::new(Arc::new(run))))
    }

    /// The name by which programs call it.
    pub fn name(&self) -> &str {
        &self.listed.name
    }

    pub(crate) fn with(
        name: &str,
        description: &str,
        input: Value,
        output: Option<Value>,
        run: Arc<dyn Run>,
    ) -> Result<Tool, ToolsError> {
        if !is_name(name) {
            return Err(ToolsError::Name { name: harmless(name, 140) });
        }
        let refused = |which, why| ToolsError::Schema { tool: name.to_owned(), which, why };
        let input = closed(input).map_err(|why| refused("input_schema", why))?;
        let checks = Schema::compile(&input).map_err(|why| refused("input_schema", why))?;
        let output_checks = output.as_ref().map(Schema::compile).transpose();
        let output_checks = output_checks.map_err(|why| refused("output_schema", why))?;
        let listed = Listed {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: input,
            output_schema: output,
        };
        Ok(Tool {
            listed: Arc::new(listed),
            input: Arc::new(checks),
            output: output_checks.map(Arc::new),
            most_time: None,
            run,
        })
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("name", &self.name()).field("run", &self.run).finish()
    }
}

/// Whether this is a valid name of a tool, as in `tool_allowlist`.
pub(crate) fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte);
    let first =
        name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && name.len() <= 128 && name.bytes().all(inner)
}

fn typed<A: DeserializeOwned>(arguments: Value, takes_nothing: bool) -> Result<A, Fault> {
    let arguments = if takes_nothing { Value::Null } else { arguments };
    serde_json::from_value(arguments).map_err(|error| {
        Fault::new(Code::InvalidArguments, format!("the tool cannot take these arguments: {error}"))
    })
}

fn untyped<R: Serialize>(result: R) -> Result<Value, Fault> {
    serde_json::to_value(result).map_err(|error| {
        Fault::new(Code::InvalidResult, format!("the tool's result is not JSON: {error}"))
    })
}

/// The arguments of a function.
struct Input {
    schema: Value,
    /// It takes `()`: no arguments, which are an empty object in a call and null for the type.
    is_nothing: bool,
}

impl Input {
    fn of<A: JsonSchema>() -> Input {
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        let schema = settings.into_generator().into_root_schema_for::<A>().to_value();
        let is_nothing = schema.get("type").and_then(Value::as_str) == Some("null");
        match is_nothing {
            true => Input { schema: json!({"type": "object", "properties": {}}), is_nothing },
            false => Input { schema, is_nothing },
        }
    }
}

fn output_of<R: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<R>().to_value()
}
